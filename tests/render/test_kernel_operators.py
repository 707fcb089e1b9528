"""Operators beside kernels on the page."""

from dataclasses import replace

import hand_made
import pandas as pd

from nsyswrap.base.intervals import Window
from nsyswrap.model import Report, Section
from nsyswrap.render.kernel_operators import with_operators

KERNELS = Section(
    "kernels",
    "Kernels",
    Window(0, 1, "", "steps"),
    tables={"summary": pd.DataFrame({"name": ["a", "b", "c"], "count": 1})},
)


def report(*rows: tuple[str, str, int]) -> Report:
    """Return a report with these operators: operator, kernel and ns."""
    table = pd.DataFrame(rows, columns=["operator", "name", "total_ns"])
    operators = Section("operators", "", Window(0, 1, "", "steps"), tables={"kernels": table})
    return replace(hand_made.full_report(), sections=(operators, KERNELS))


def test_a_kernel_has_the_operator_with_most_of_its_time_beside_it() -> None:
    found = with_operators(report(("mm", "a", 5), ("addmm", "a", 7), ("relu", "b", 1)), KERNELS)
    assert list(found.tables["summary"].columns) == ["name", "operator", "count"]
    assert found.tables["summary"]["operator"].tolist() == ["addmm and 1 more", "relu", ""]
    assert "operator" not in KERNELS.tables["summary"]


def test_without_operators_and_in_other_sections_nothing_changes() -> None:
    assert with_operators(report(), KERNELS) is KERNELS
    other = replace(KERNELS, key="copies")
    assert with_operators(report(("mm", "a", 5)), other) is other
