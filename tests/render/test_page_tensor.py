"""Kernel time by phase and by family: bars on one scale, and a share with its bounds."""

from dataclasses import replace

import hand_made
import pandas as pd
import pytest
from hand_made import MS

from nsyswrap.model import Report
from nsyswrap.render import page_tensor
from nsyswrap.render.page_tables import TableCell

FULL = hand_made.full_report()


def with_kernels(kernels: pd.DataFrame) -> Report:
    """Return the report with these kernels."""
    section = FULL.section("tensor_cores")
    assert section is not None
    changed = replace(section, tables={**section.tables, "kernels": kernels})
    return replace(FULL, sections=tuple(changed if one.key == "tensor_cores" else one for one in FULL.sections))


def rows_of(report: Report, at: int) -> list[dict[str, TableCell]]:
    """Return the cells of each row of a table by the names of their columns; that without a name is the bar."""
    view = page_tensor.tensor_tables(report)[at]
    return [dict(zip([head.name for head in view.heads], row, strict=True)) for row in view.rows]


def parts(row: dict[str, TableCell]) -> dict[str, float]:
    """Return the width of each colour of a bar, in per cent."""
    assert row[""].picture is not None
    return {one.attributes["class"]: float(one.attributes["width"][:-1]) for one in row[""].picture.shapes}


def test_phases_come_costliest_first_with_their_bounds() -> None:
    assert [(row["phase"].text, row["share_low"].text) for row in rows_of(FULL, 0)] == [
        ("backward", "44.8 to 60.0 %"),
        ("forward", "45.0 to 69.8 %"),
        ("optimizer", "0.0 %"),
    ]


def test_bars_have_one_scale_on_which_all_rows_together_are_full() -> None:
    lengths = [sum(parts(row).values()) for row in rows_of(FULL, 0)]
    assert lengths == [
        pytest.approx(660 / 1160 * 100, abs=0.01),
        pytest.approx(400 / 1160 * 100, abs=0.01),
        pytest.approx(100 / 1160 * 100, abs=0.01),
    ]


def test_families_add_up_the_kernels_of_one_operation() -> None:
    """Two gemms, one of them without tensor cores, share a row."""
    gemm = rows_of(FULL, 1)[0]
    assert [gemm[name].raw for name in ("kernel_ns", "tensor_ns")] == [str((476 + 219) * MS), str(476 * MS)]
    assert (gemm["family"].text, list(parts(gemm))) == ("matrix products", ["p-tensor", "p-eligible"])


def test_a_kernel_without_a_known_family_has_a_row() -> None:
    row = next(row for row in rows_of(FULL, 1) if row["family"].text == "unknown")
    assert row["share_low"].text == "0.0 to 100.0 %"


def test_the_families_are_all_kernel_time() -> None:
    assert sum(int(row["kernel_ns"].raw) for row in rows_of(FULL, 1)) == 1_160 * MS


def test_a_family_without_time_is_left_out() -> None:
    kernels = pd.DataFrame({"name": ["a"], "verdict": ["tensor"], "op": ["gemm"], "total_ns": [0]})
    assert [one.caption for one in page_tensor.tensor_tables(with_kernels(kernels))] == ["By phase"]


def test_more_families_than_fit_are_counted() -> None:
    kernels = pd.DataFrame({"name": "k", "verdict": "unknown", "op": [f"op {at}" for at in range(103)], "total_ns": 1})
    _, families = page_tensor.tensor_tables(with_kernels(kernels))
    assert len(families.rows) == 100
    assert families.cut.endswith("3 smaller rows are left out.")


def test_without_the_analysis_there_are_none() -> None:
    assert page_tensor.tensor_tables(hand_made.no_gpu_report()) == ()
