"""One term for one thing: names of columns and facts, and the glossary."""

import re
from typing import get_args

import pytest

from nsyswrap.base.intervals import Window
from nsyswrap.render import vocabulary
from nsyswrap.rules.work_names import OPERATION_NAMES, operation_name
from nsyswrap.sections.ledger import ROWS

WHITE, BLACK = (255, 255, 255), (0, 0, 0)


def test_an_operation_has_words() -> None:
    assert operation_name("gemm") == "matrix products"
    assert operation_name("attention_aux") == "work around attention"
    assert operation_name("new_kind") == "new kind"
    assert not any("_" in name for name in OPERATION_NAMES.values())


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
