"""A step by account, of ranks that do not start together: its parts add up to it, and the shift changes nothing."""

import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_traces import same_examples
from shifted_ranks import COPY, GEMM, KERNELS, US, ShiftedRanks

from nsyswrap.compare.comparison import Comparison
from nsyswrap.compare.reports import compare_reports
from nsyswrap.compare.step_times import LEDGER_ROWS, step_times
from nsyswrap.gate.reports import NamedReport, timed_run
from nsyswrap.many.capture_sums import sums_of
from nsyswrap.many.outliers import StepAccount
from nsyswrap.model import Report
from nsyswrap.render.comparison_tables import moved
from nsyswrap.report import build_report
from nsyswrap.runs.from_report import run_from_report
from nsyswrap.runs.run import per_step
from nsyswrap.trace.load import load_export

STEPS = 16
few = settings(max_examples=min(8, settings().max_examples // 2))


@cache
def report_of(job: ShiftedRanks) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        return build_report(load_export(job.built().write(Path(folder) / "made.sqlite")))


def compared(base: ShiftedRanks, new: ShiftedRanks) -> Comparison:
    return compare_reports([report_of(base)], [report_of(new)], ("base", "new"))


def measured(job: ShiftedRanks) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
    """Return the compute time of the measured steps of each rank, in ns."""
    report = report_of(job)
    table = report.section("steps").tables["steps"]  # type: ignore[union-attr]
    count = report.step.count or 0
    first = [int(np.flatnonzero(mine["number"] >= 0)[0]) for _, mine in table.groupby("process")]
    return np.array([job.compute_us[rank][at : at + count] for rank, at in enumerate(first)]) * float(US)


def jobs(ranks: int) -> st.SearchStrategy[ShiftedRanks]:
    """Return ranks that each begin up to a step later than the job."""
    steps = st.tuples(*[st.integers(300, 700)] * STEPS)
    return st.builds(
        ShiftedRanks,
        compute_us=st.tuples(*[steps] * ranks),
        shifts_us=st.tuples(*[st.integers(0, 999)] * ranks),
        named=st.booleans(),
        between_us=st.integers(0, 40),
    )


any_job = st.integers(2, 3).flatmap(jobs)
SEEN = ShiftedRanks(((500,) * STEPS, (520,) * STEPS), (0, 300))
PATTERN = ShiftedRanks(((500,) * STEPS, (520,) * STEPS), (0, 300), named=False)


@pytest.mark.slow
@few
@same_examples
@given(any_job)
@example(SEEN)
@example(PATTERN)
def test_the_rows_of_each_step_of_each_rank_add_up_to_it(job: ShiftedRanks) -> None:
    """To the nanosecond; and those of the measured steps, with the time between them, are the ledger of the GPU."""
    report = report_of(job)
    table = report.section("steps").tables["steps"]  # type: ignore[union-attr]
    assert (table[list(LEDGER_ROWS)].sum(axis=1) == table["end_ns"] - table["start_ns"]).all()
    devices = report.section("ledger").tables["devices"].set_index("device_id")  # type: ignore[union-attr]
    idle = report.section("idle").tables["attribution"].groupby("device_id")["idle_ns"].sum()  # type: ignore[union-attr]
    for rank, computed in enumerate(measured(job)):
        mine, own = table[(table["number"] >= 0) & (table["device_id"] == rank)], devices.loc[rank]
        assert own["window_ns"] == own[list(LEDGER_ROWS)].sum() == mine["end_ns"].iloc[-1] - mine["start_ns"].iloc[0]
        assert own["compute_ns"] == mine["compute_ns"].sum() == computed.sum()
        assert own["copy_exposed_ns"] == len(mine) * COPY
        assert own["idle_ns"] == idle[rank]
        assert mine["number"].tolist() == list(range(report.step.count or 0))


@pytest.mark.slow
@few
@same_examples
@given(any_job)
@example(PATTERN)
def test_a_step_of_a_comparison_is_the_sum_of_its_rows(new: ShiftedRanks) -> None:
    """A shown difference lies in its own interval; kernels and copies are counted as often as a step has them."""
    base = SEEN
    found = compared(base, new)
    mean = found.estimates[1]
    ledger = {one.name: one for one in found.table("ledger").changes}  # type: ignore[union-attr]
    for side, whole in (("base", mean.base_ns), ("new", mean.new_ns)):
        assert sum(getattr(one, side) for one in ledger.values()) == pytest.approx(whole, rel=1e-9)
        idle = found.table("idle").changes  # type: ignore[union-attr]
        assert sum(getattr(one, side) or 0 for one in idle) == pytest.approx(getattr(ledger["idle_ns"], side), rel=1e-9)
    for one in ledger.values():
        assert one.difference is None or one.difference.point == pytest.approx(one.delta, abs=1e-6)
    assert (ledger["compute_ns"].base, ledger["compute_ns"].new) == pytest.approx(
        (measured(base).mean(), measured(new).mean())
    )
    kernels = {one.name: one for one in found.table("kernels").changes}[GEMM]  # type: ignore[union-attr]
    assert (kernels.base_count, kernels.new_count) == (KERNELS, KERNELS)
    (copies,) = found.table("copies").changes  # type: ignore[union-attr]
    assert (copies.base, copies.new, copies.base_count, copies.new_count) == (COPY, COPY, 1, 1)
    changed = moved(found)
    assert sum(one.delta for one in (changed.changes if changed else ())) == pytest.approx(
        mean.new_ns - mean.base_ns, abs=1e-3
    )


@pytest.mark.slow
@few
@given(st.tuples(*[st.integers(0, 999)] * 2), st.sampled_from(("steps", "pattern")))
@example((0, 300), "steps")
def test_ranks_that_start_at_other_times_have_the_same_step(shifts: tuple[int, int], source: str) -> None:
    """What ran in a step is the same in a job whose ranks start together, where all steps are alike."""
    steps = ((500,) * STEPS, (520,) * STEPS)
    base, new = (ShiftedRanks(steps, each, source == "steps") for each in ((0, 0), shifts))
    assert {report_of(each).window.source for each in (base, new)} == {source}
    found = compared(base, new)
    for key in ("ledger", "families", "kernels", "copies", "copied", "host_calls"):
        for one in found.table(key).changes:  # type: ignore[union-attr]
            assert one.delta == pytest.approx(0, abs=1e-6), (key, one.name)
            assert one.base_count == one.new_count


@pytest.mark.slow
@few
@same_examples
@given(any_job)
@example(SEEN)
def test_gate_history_and_many_captures_divide_by_the_same_steps(job: ShiftedRanks) -> None:
    """Wherever a step is divided into parts, they add up to its time."""
    report = report_of(job)
    steps = step_times(report)
    step_ns = float(steps.period.mean())
    assert steps.count == report.step.count
    assert report.step.mean_in(report.window) == pytest.approx(step_ns, abs=1)
    gate = timed_run(NamedReport(report, "one"), steps)
    assert sum(gate.parts.values()) == pytest.approx(gate.mean_ns) == pytest.approx(step_ns)
    run = run_from_report(report)
    ledger = [per_step(each.total_ns, run.row) for each in run.accounts if each.kind == "ledger"]
    assert sum(each or 0.0 for each in ledger) == pytest.approx(run.row.mean_ns) == pytest.approx(step_ns)
    account = StepAccount.of("one", sums_of(report))
    assert sum(account.parts.values()) == pytest.approx(step_ns)
    ranks = report.section("ranks").tables["ranks"]  # type: ignore[union-attr]
    parts = ranks[["compute_ns", "copies_ns", "wait_ns", "transfer_ns", "idle_ns"]].sum(axis=1)
    assert (parts == ranks["length_ns"]).all()
    assert ranks["length_ns"].mean() == pytest.approx(step_ns, abs=1)
