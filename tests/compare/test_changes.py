"""Changes between reports: amounts a step that add up, and names that are on one side only."""

from dataclasses import replace

import paired_reports as pairs
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paired_reports import COMPUTE_NS, MS

from nsyswrap.compare.changes import basis_of
from nsyswrap.compare.comparison import AmountChange, Comparison
from nsyswrap.render.comparison_tables import moved

BASE = pairs.report(pairs.lengths(4.0))
NEW = pairs.report(pairs.lengths(2.0, 40, seed=2))


def rows(comparison: Comparison, key: str) -> dict[str, AmountChange]:
    """Return the rows of a table by name."""
    table = comparison.table(key)
    assert table is not None
    return {change.name: change for change in table.changes}


def test_amounts_are_of_one_step() -> None:
    """60 steps of base and 40 steps of new have 1 ms of compute each."""
    compute = rows(pairs.compared(BASE, NEW), "ledger")["compute_ns"]
    assert (compute.base, compute.new, compute.delta) == (COMPUTE_NS, COMPUTE_NS, 0)


def test_amounts_of_gpus_are_the_mean_over_them() -> None:
    """Two GPUs that each do the work of one GPU have the same ledger."""
    two = pairs.report(pairs.lengths(4.0), gpus=2)
    for change in rows(pairs.compared(BASE, two), "ledger").values():
        assert change.delta == pytest.approx(0)


steps = st.lists(st.integers(2 * MS, 9 * MS), min_size=10, max_size=30)


@pytest.mark.slow
@given(steps, steps, st.integers(0, MS))
def test_what_moved_adds_up_to_the_change_of_the_time_per_step(base: list[int], new: list[int], between: int) -> None:
    """This holds for the parts of the ledger and the causes of idle time, with any steps."""
    comparison = pairs.compared(pairs.report(base), pairs.report(new, between=between))
    of_mean = comparison.estimates[1]
    whole = of_mean.new_ns - of_mean.base_ns
    ledger = comparison.table("ledger")
    assert ledger is not None
    assert sum(change.delta for change in ledger.changes) == pytest.approx(whole, abs=1e-3)
    parts = moved(comparison)
    assert sum(change.delta for change in (parts.changes if parts else ())) == pytest.approx(whole, abs=1e-3)


def test_the_ledger_has_intervals_if_steps_cover_the_time() -> None:
    """Intervals are of the difference in ns. There are none if much time is between steps."""
    idle = rows(pairs.compared(BASE, NEW), "ledger")["idle_ns"]
    assert idle.difference is not None
    assert idle.difference.low < idle.difference.point == idle.delta < idle.difference.high < 0
    loose = pairs.report(pairs.lengths(4.0), between=MS)
    assert rows(pairs.compared(BASE, loose), "ledger")["idle_ns"].difference is None


def test_causes_are_added_over_phases_and_gpus() -> None:
    comparison = pairs.compared(BASE, pairs.report(pairs.lengths(4.0), gpus=2))
    waits = rows(comparison, "idle")["idle/data_wait"]
    assert waits.delta == pytest.approx(0)
    assert set(rows(comparison, "idle_in_phases")) == {"idle/data_wait in data", "launches/launch_bound in forward"}


def test_kernels_of_one_kind_are_a_family() -> None:
    """A family has an operation, a library and a precision; unknown parts are left out."""
    table = pd.DataFrame(
        {
            "name": ["x", "y", "z", "odd"],
            "verdict": ["tensor", "tensor", "not_eligible", "unknown"],
            "precision": ["fp16", "fp16", "", ""],
            "library": ["cublas", "cublas", "pytorch", ""],
            "op": ["gemm", "gemm", "softmax", ""],
            "total_ns": [60, 120, 240, 6],
            "count": [60, 60, 60, 6],
        }
    )
    base = pairs.with_section(BASE, "tensor_cores", {"share_low": 0.4, "share_high": 0.5}, kernels=table)
    families = rows(pairs.compared(base, base), "families")
    assert {name: change.base for name, change in families.items()} == {
        "matrix products, cublas, fp16": 3, "softmax, pytorch": 4, "not clear from the name": 0.1,
    }  # fmt: skip


def test_the_tensor_share_keeps_its_bounds() -> None:
    """Both sides have a lower and an upper bound. A share that was not measured has no row."""
    base = pairs.with_section(BASE, "tensor_cores", {"share_low": 0.4, "share_high": 0.5, "counter_share": None})
    new = pairs.with_section(NEW, "tensor_cores", {"share_low": 0.6, "share_high": 0.6, "counter_share": None})
    found = rows(pairs.compared(base, new), "tensor_cores")
    assert set(found) == {"share_low", "share_high"}
    assert found["share_low"].delta == pytest.approx(0.2)


def test_without_steps_amounts_are_shares_of_the_window() -> None:
    """They add up to the window on both sides."""
    base, new = (replace(one, window=replace(one.window, source="operations")) for one in (BASE, NEW))
    comparison = pairs.compared(base, new)
    assert comparison.basis == "window"
    table = comparison.table("ledger")
    assert table is not None
    assert table.unit == "share"
    assert sum(one.base or 0 for one in table.changes) == pytest.approx(1)
    assert sum(one.new or 0 for one in table.changes) == pytest.approx(1)
    assert moved(comparison) is None


def test_the_footing_is_a_step_only_where_both_windows_are_steps() -> None:
    other = replace(NEW, window=replace(NEW.window, source="user"))
    assert basis_of(pairs.side(BASE), pairs.side(NEW)) == "step"
    assert basis_of(pairs.side(BASE), pairs.side(other)) == "window"
    assert basis_of(pairs.side(BASE), pairs.side(pairs.report([]))) == "window"


def test_a_table_of_one_side_alone_is_compared_with_nothing() -> None:
    new = pairs.with_section(NEW, "host_calls", summary=pairs.kernels(cudaMalloc=40 * MS))
    found = rows(pairs.compared(BASE, new), "host_calls")["cudaMalloc"]
    assert (found.base, found.new) == (None, MS)


def test_facts_of_all_sections_are_compared() -> None:
    """Facts that only one side has are listed as well."""
    base = pairs.with_section(BASE, "occupancy", {"a_share": 0.5, "b_share": None})
    new = pairs.with_section(NEW, "occupancy", {"a_share": 0.75, "c_share": 1.0})
    found = [(one.section, one.label, one.base, one.new) for one in pairs.compared(base, new).facts]
    assert found == [
        ("occupancy", "a_share", 0.5, 0.75),
        ("occupancy", "b_share", None, None),
        ("occupancy", "c_share", None, 1.0),
    ]
