"""One term for one thing: names of rules, causes, columns and facts, and the glossary."""

import re
from pathlib import Path
from typing import get_args

import pytest

from nsyswrap.attribution.causes import CAUSES
from nsyswrap.intervals import Window
from nsyswrap.render import vocabulary
from nsyswrap.rule_names import OPERATION_NAMES, operation_name
from nsyswrap.sections.ledger import ROWS

WHITE, BLACK = (255, 255, 255), (0, 0, 0)


@pytest.mark.parametrize("cause", CAUSES)
def test_each_cause_has_a_name_and_a_meaning(cause: str) -> None:
    """A cause that the attribution can give is never shown by its key."""
    assert vocabulary.cause_name(cause) == vocabulary.CAUSE_NAMES[cause] == vocabulary.rule_name(f"idle/{cause}")
    assert "_" not in vocabulary.CAUSE_NAMES[cause]
    assert vocabulary.CAUSES[cause].endswith(".")


RULE = re.compile(r'"([a-z_]+/[a-z_]+)"')
FOLDERS = ("sections", "attribution")


def rules_of_source() -> set[str]:
    """Return the rules that the source of the sections and the attribution names."""
    package = Path(vocabulary.__file__).parents[1]
    files = [path for folder in FOLDERS for path in (package / folder).rglob("*.py")]
    return {rule for path in files for rule in RULE.findall(path.read_text(encoding="utf-8"))}


def test_each_rule_of_the_source_has_a_name() -> None:
    """No two rules have the same name."""
    rules = rules_of_source()
    assert {"launches/launch_bound", "memory/churn"} <= rules
    assert rules - set(vocabulary.RULE_NAMES) == set()
    assert len(set(vocabulary.RULE_NAMES.values())) == len(vocabulary.RULE_NAMES)


def test_an_operation_has_words() -> None:
    assert operation_name("gemm") == "matrix products"
    assert operation_name("attention_aux") == "work around attention"
    assert operation_name("new_kind") == "new kind"
    assert not any("_" in name for name in OPERATION_NAMES.values())


def test_a_rule_without_a_name_is_shown_by_its_words() -> None:
    assert vocabulary.rule_name("new_kind/odd_rule") == "new kind: odd rule"
    assert vocabulary.cause_name("odd_cause") == "odd cause"


def test_the_parts_are_the_rows_of_the_ledger() -> None:
    """Each row of a real ledger has a part, in its order, so that the bars add up."""
    assert [part.column for part in vocabulary.LEDGER_PARTS] == list(ROWS)


def test_each_window_source_is_explained() -> None:
    assert set(get_args(Window.__annotations__["source"])) <= set(vocabulary.WINDOW_SOURCES)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("idle_ns", "idle"),
        ("device_id", "GPU"),
        ("kernel_count", "kernels"),
        ("theoretical_occupancy", "theoretical occupancy"),
        ("some_bytes", "some"),
        ("name", "name"),
    ],
)
def test_a_column_is_headed_by_words(name: str, label: str) -> None:
    assert vocabulary.column_label(name) == label


@pytest.mark.parametrize(
    ("label", "words"),
    [("share_low", "tensor-core share, at least"), ("warm-up steps", "warm-up steps"), ("new_fact_ns", "new fact")],
)
def test_a_fact_is_named_by_words(label: str, words: str) -> None:
    assert vocabulary.fact_label(label) == words


@pytest.mark.parametrize("part", vocabulary.LEDGER_PARTS, ids=lambda part: part.key)
def test_colours_stand_out_from_a_white_page(part: vocabulary.LedgerPart) -> None:
    """Shapes need a contrast of 3 with their surroundings (WCAG 2.2, 1.4.11)."""
    assert re.fullmatch("#[0-9A-F]{6}", part.colour)
    light = luminance((int(part.colour[1:3], 16), int(part.colour[3:5], 16), int(part.colour[5:7], 16)))
    assert (luminance(WHITE) + 0.05) / (light + 0.05) >= 3


def test_luminance_runs_from_black_to_white() -> None:
    assert luminance(BLACK) == 0
    assert luminance(WHITE) == pytest.approx(1)


def luminance(colour: tuple[int, int, int]) -> float:
    """Return the relative luminance of a colour.

    Source:
        WCAG 2.2, relative luminance.
    """
    channels = [one / 255 for one in colour]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
