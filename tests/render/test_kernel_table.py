"""What the page knows of each kernel, in one table."""

from dataclasses import replace

import hand_made
import pandas as pd

from nsyswrap.base.intervals import Window
from nsyswrap.model import Report, Section
from nsyswrap.render.kernel_table import in_one_table

WINDOW = Window(0, 1, "", "steps")
KERNELS = Section(
    "kernels",
    "Kernels",
    WINDOW,
    tables={"summary": pd.DataFrame({"name": ["a", "b", "c"], "count": 1, "total_ns": 9})},
)
COLUMNS = ["operator", "module", "name", "total_ns", "peak_share"]
TENSOR = Section(
    "tensor_cores",
    "",
    WINDOW,
    tables={
        "kernels": pd.DataFrame(
            [("a", "simt_eligible", "fp32"), ("b", "tensor", "")], columns=["name", "verdict", "precision"]
        ),
        "not_used": pd.DataFrame([("a", "tf32_off", 9)], columns=["name", "reason", "total_ns"]),
    },
)


def report(*rows: tuple[str, str, str, int, float | None], tensor: tuple[Section, ...] = ()) -> Report:
    """Return a report with these operators: operator, module, kernel, ns and share of the peak."""
    operators = Section("operators", "", WINDOW, tables={"kernels": pd.DataFrame(rows, columns=COLUMNS)})
    return replace(hand_made.full_report(), sections=(operators, KERNELS, *tensor))


def test_a_kernel_has_operator_and_module_with_most_of_its_time_beside_it() -> None:
    """The time comes first; the share of the peak is the mean over the known time."""
    rows = (
        ("mm", "head", "a", 4, 0.5),
        ("addmm", "head", "a", 7, None),
        ("mm", "", "a", 1, 1.0),
        ("relu", "", "b", 1, None),
    )
    found = in_one_table(report(*rows), KERNELS).tables["summary"]
    assert list(found.columns) == ["name", "total_ns", "operator", "module", "peak_share", "count"]
    assert found["operator"].tolist() == ["addmm and 1 more", "relu", ""]
    assert found["module"].tolist() == ["head", "", ""]
    assert found["peak_share"].tolist()[0] == 0.6
    assert found["peak_share"].isna().tolist() == [False, True, True]
    assert "operator" not in KERNELS.tables["summary"]


def test_a_kernel_has_its_use_of_tensor_cores_and_why_not_beside_it() -> None:
    found = in_one_table(report(tensor=(TENSOR,)), KERNELS).tables["summary"]
    assert list(found.columns) == ["name", "total_ns", "verdict", "precision", "reason", "count"]
    assert found[["verdict", "reason"]].to_numpy().tolist() == [["simt_eligible", "tf32_off"], ["tensor", ""], ["", ""]]


def test_the_section_on_tensor_cores_keeps_its_tables_without_kernels() -> None:
    """Elsewhere the rows of its tables are in that of kernels."""
    assert not in_one_table(report(tensor=(TENSOR,)), TENSOR).tables
    alone = replace(hand_made.full_report(), sections=(TENSOR,))
    assert in_one_table(alone, TENSOR) is TENSOR


def test_sections_on_other_things_do_not_change() -> None:
    other = replace(KERNELS, key="copies")
    assert in_one_table(report(("mm", "", "a", 5, None)), other) is other
