"""The flame graph: its boxes hold the estimates of the stacks, and names of the program stay text."""

from dataclasses import replace

import hand_made
import pandas as pd
import pytest

from nsyswrap.base.intervals import Window
from nsyswrap.model import Report, Section
from nsyswrap.render import flame_view, render
from nsyswrap.render.drawings import Picture, Shape

MAIN, LOSS = "train.py:10 in <module>", "train.py:42 in loss"
CONV = "torch/conv.py:500 in conv"


def report(*rows: tuple[str, str, int]) -> Report:
    """Return a report with these stacks: rule, stack and ns, two samples each."""
    stacks = pd.DataFrame(
        [(0, rule, stack, 2, ns) for rule, stack, ns in rows],
        columns=["device_id", "rule", "stack", "sample_count", "idle_estimate_ns"],
    )
    lines = pd.DataFrame({"file": ["train.py"]})
    whole = hand_made.full_report()
    made = Section("python_lines", "Lines", Window(0, 1, "", "steps"), tables={"lines": lines, "stacks": stacks})
    return replace(whole, sections=(*(one for one in whole.sections if one.key != "python_lines"), made))


def boxes(view: Picture | None) -> tuple[Shape, ...]:
    """Return the boxes of a flame graph."""
    assert view is not None
    return view.shapes


def name_of(box: Shape) -> str:
    return box.parts[-1].words


def test_each_box_is_as_wide_as_its_time_and_lies_below_its_caller() -> None:
    view = flame_view.flame(
        report(("idle/cpu", f"{MAIN};{LOSS};{CONV}", 60), ("idle/cpu", MAIN, 20), ("idle/data_wait", MAIN, 20))
    )
    assert view is not None
    found = [[float(box.attributes[name]) for name in ("data-x", "data-width", "y")] for box in boxes(view)]
    assert list(zip(map(name_of, boxes(view)), found, strict=True)) == [
        (flame_view.TITLE, [0, 100, 0]),
        ("CPU outside CUDA calls", [0, 80, 20]),
        (MAIN, [0, 80, 40]),
        (LOSS, [0, 60, 60]),
        (CONV, [0, 60, 80]),
        ("data loader wait", [80, 20, 20]),
        (MAIN, [80, 20, 40]),
    ]
    assert (view.height, view.note) == (100, "")
    grounds = [box.parts[0].attributes["class"] for box in boxes(view)]
    assert [look for look in grounds if look != "frame"] == ["h-idle-cpu", "h-idle-data"]
    assert [name_of(box) for box in boxes(view) if "font-weight" in box.parts[-1].attributes] == [MAIN, LOSS, MAIN]
    assert boxes(view)[3].title == f"{LOSS}: 60 ns, 60.0 %, 2 samples"


def test_boxes_too_narrow_to_see_are_counted() -> None:
    view = flame_view.flame(report(("idle/cpu", MAIN, 100_000), ("idle/cpu", f"{MAIN};{LOSS}", 1)))
    assert view is not None
    assert (len(boxes(view)), view.note[:10]) == (3, "1 frames a")


@pytest.mark.parametrize("rows", [(), (("idle/cpu", MAIN, 0),)])
def test_without_stacks_there_is_none(rows: tuple[tuple[str, str, int], ...]) -> None:
    assert flame_view.flame(report(*rows)) is None


def test_names_of_the_program_are_text() -> None:
    page = render("html", report(("idle/cpu", f"{hand_made.HOSTILE};{MAIN}", 5)))
    assert hand_made.HOSTILE not in page
    assert 'id="flame"' in page
