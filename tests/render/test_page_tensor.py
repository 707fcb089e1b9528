"""Kernel time by phase and by family: bars on one scale, and a share with its bounds."""

from dataclasses import replace

import hand_made
import pandas as pd
import pytest
from hand_made import MS

from nsyswrap.model import Report
from nsyswrap.render import page_tensor

FULL = hand_made.full_report()


def with_kernels(kernels: pd.DataFrame) -> Report:
    """Return the report with these kernels."""
    section = FULL.section("tensor_cores")
    assert section is not None
    changed = replace(section, tables={**section.tables, "kernels": kernels})
    return replace(FULL, sections=tuple(changed if one.key == "tensor_cores" else one for one in FULL.sections))


def test_phases_come_costliest_first_with_their_bounds() -> None:
    phases, _ = page_tensor.tensor_bars(FULL)
    assert [(row.label, row.band) for row in phases.rows] == [
        ("backward", "44.8 to 60.0 %"),
        ("forward", "45.0 to 69.8 %"),
        ("optimizer", "0.0 %"),
    ]


def test_bars_have_one_scale_on_which_all_rows_together_are_full() -> None:
    phases, _ = page_tensor.tensor_bars(FULL)
    lengths = [sum(float(piece.width) for piece in row.pieces) for row in phases.rows]
    assert lengths == [
        pytest.approx(660 / 1160 * 100, abs=0.01),
        pytest.approx(400 / 1160 * 100, abs=0.01),
        pytest.approx(100 / 1160 * 100, abs=0.01),
    ]


def test_families_add_up_the_kernels_of_one_operation() -> None:
    """Two gemms, one of them without tensor cores, share a row."""
    _, families = page_tensor.tensor_bars(FULL)
    gemm = families.rows[0]
    assert (gemm.label, gemm.times[0][1], gemm.times[1][1]) == ("matrix products", (476 + 219) * MS, 476 * MS)
    assert [piece.key for piece in gemm.pieces] == ["tensor", "eligible"]


def test_a_kernel_without_a_known_family_has_a_row() -> None:
    _, families = page_tensor.tensor_bars(FULL)
    row = next(row for row in families.rows if row.label == "unknown")
    assert row.band == "0.0 to 100.0 %"


def test_the_families_are_all_kernel_time() -> None:
    _, families = page_tensor.tensor_bars(FULL)
    assert sum(row.times[0][1] for row in families.rows) == 1_160 * MS


def test_a_family_without_time_is_left_out() -> None:
    kernels = pd.DataFrame({"name": ["a"], "verdict": ["tensor"], "op": ["gemm"], "total_ns": [0]})
    assert [bars.head for bars in page_tensor.tensor_bars(with_kernels(kernels))] == ["phase"]


def test_more_families_than_fit_are_counted() -> None:
    kernels = pd.DataFrame({"name": "k", "verdict": "unknown", "op": [f"op {at}" for at in range(103)], "total_ns": 1})
    _, families = page_tensor.tensor_bars(with_kernels(kernels))
    assert (len(families.rows), families.left_out) == (100, 3)


def test_without_the_analysis_there_are_none() -> None:
    assert page_tensor.tensor_bars(hand_made.no_gpu_report()) == ()
