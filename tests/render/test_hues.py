"""Each account, phase and state has one hue, and the style sheets have its values."""

import re
from importlib import resources

import pytest

from nsyswrap.attribution.attribution import RULES
from nsyswrap.render import hues
from nsyswrap.timeline.gpu_rows import BUSY_CLASSES
from nsyswrap.timeline.operation_names import STREAM_CLASSES

STATIC = resources.files("nsyswrap.render").joinpath("static")
SHEETS = "\n".join(STATIC.joinpath(name).read_text("utf-8") for name in ("page.css", "timeline.css", "step.css"))


@pytest.mark.parametrize("name", sorted(hues.LIGHT))
def test_the_style_sheets_have_the_same_value_and_one_for_dark_pages(name: str) -> None:
    values = re.findall(rf"--{name}: (#[0-9a-f]{{6}});", SHEETS)
    assert values[0] == hues.LIGHT[name].lower()
    assert len(values) == 3, "light, dark by the system, dark by the button"
    assert values[1] == values[2]
    assert f".h-{name} {{ fill: var(--{name}); }}" in SHEETS


def test_every_class_has_a_hue_with_a_value() -> None:
    assert set(BUSY_CLASSES) <= set(hues.TABLE["gpu"])
    assert set(STREAM_CLASSES) <= set(hues.TABLE["stream"])
    assert {hue for names in hues.TABLE.values() for hue in names.values()} <= set(hues.LIGHT)


def test_work_idle_time_and_phases_do_not_share_hues() -> None:
    work, phases = ({*hues.TABLE[kind].values()} for kind in ("gpu", "phases"))
    idle = {hues.idle_hue(rule) for rule in RULES}
    assert work.isdisjoint(idle | phases)
    assert idle.isdisjoint(phases)


@pytest.mark.parametrize(
    ("name", "hue"),
    [
        ("idle/data_wait", "idle-data"),
        ("data_wait", "idle-data"),
        ("launches/launch_bound", "idle-launch"),
        ("someone/else", "idle-other"),
        ("", "idle-other"),
    ],
)
def test_idle_time_has_the_hue_of_its_family(name: str, hue: str) -> None:
    assert hues.idle_hue(name) == hue
