"""Reports as runs of the gate: step times, parts that add up, order, and what makes them incomparable."""

from dataclasses import replace

import paired_reports as pairs
import pandas as pd
import pytest
from paired_reports import MS

from nsyswrap.compare.comparison import IssueKind, RunMachine
from nsyswrap.compare.step_times import step_times
from nsyswrap.gate.reports import NamedReport, gate_reports, in_order, parts_of, timed_run
from nsyswrap.gate.timed_runs import Gate, GateOptions, GateOutcome
from nsyswrap.model import Report


def report(median_ms: float, number: int, **options: object) -> NamedReport:
    """Return the report of one run; its number is its place in time."""
    whole = pairs.report(pairs.lengths(median_ms, seed=number), **options)  # type: ignore[arg-type]
    return NamedReport(pairs.with_session(whole, started_utc=f"2026-11-21T04:{number:02d}:00"), f"run {number}")


def gate(new_ms: float, change: object = None) -> Gate:
    """Return the gate's result for three new runs against eight of 4 ms; the new reports may be changed first."""
    new = [report(new_ms, number) for number in (9, 10, 11)]
    if callable(change):
        new = [one._replace(report=change(one.report)) for one in new]
    return gate_reports([report(4.0, number) for number in range(1, 9)], new)


def test_slower_runs_regress_and_the_part_that_grew_is_named() -> None:
    """Steps have 1 ms of compute and are idle for the rest: three quarters for data, one for launches."""
    found = gate(5.0)
    assert found.outcome is GateOutcome.REGRESSED
    assert [one.words for one in found.blame] == ["idle GPU (data loader wait)", "idle GPU (launch-bound kernels)"]
    assert found.blame[0].delta_ns == pytest.approx(0.75 * MS, rel=0.05)


@pytest.mark.parametrize(("gpus", "ranks"), [(1, 1), (2, 1), (1, 3)])
def test_the_parts_add_up_to_the_time_per_step(gpus: int, ranks: int) -> None:
    named = report(4.0, 1, gpus=gpus, ranks=ranks)
    run = timed_run(named, step_times(named.report))
    assert sum(run.parts.values()) == pytest.approx(run.mean_ns, rel=1e-9)


def test_waits_for_ranks_replace_the_row_of_the_ledger() -> None:
    """6 ms of 60 steps are waits for rank 3, of two causes."""
    whole = report(4.0, 1).report
    devices = whole.sections[0].tables["devices"].assign(communication_wait_ns=6 * MS)
    waits = pd.DataFrame(
        {
            "waiting_rank": [0, 0],
            "late_rank": [3, 3],
            "rule": ["idle/data_wait", ""],
            "phase": ["data", "backward"],
            "wait_ns": [4 * MS, 2 * MS],
        }
    )
    whole = pairs.with_section(pairs.with_section(whole, "ledger", devices=devices), "communication", waits=waits)
    parts = parts_of(whole, 60)
    assert parts["wait for rank 3 (data loader wait)"] == pytest.approx(4 * MS / 60)
    assert parts["wait for rank 3"] == pytest.approx(2 * MS / 60)
    assert "waiting for other ranks" not in parts


def test_without_gpu_work_the_parts_are_the_phases() -> None:
    whole = replace(report(4.0, 1).report, sections=())
    phases = pd.DataFrame({"phase": ["data", "forward"], "count": 60, "host_ns": [60 * MS, 120 * MS], "gpu_ns": 0})
    found = parts_of(pairs.with_section(whole, "phases", phases=phases), 60)
    assert found == {"phase data on the CPU": MS, "phase forward on the CPU": 2 * MS}


def test_runs_are_in_order_of_their_start_where_all_know_it() -> None:
    runs = [report(4.0, number) for number in (3, 1, 2)]
    assert [one.name for one in in_order(runs)] == ["run 1", "run 2", "run 3"]
    unknown = runs[0]._replace(report=pairs.with_session(runs[0].report, started_utc=""))
    assert [one.name for one in in_order([unknown, *runs[1:]])] == ["run 3", "run 1", "run 2"]


def other_gpu(whole: Report) -> Report:
    return replace(whole, gpus=(replace(whole.gpus[0], name="NVIDIA A100"),))


def test_another_gpu_cannot_tell_unless_accepted() -> None:
    found = gate(8.0, other_gpu)
    assert found.outcome is GateOutcome.CANNOT_TELL
    assert found.verdict == (
        "Cannot tell: 0 earlier runs, too few to show how much runs differ. 8 earlier runs do not count: "
        "Other GPU: 1 × NVIDIA A100 with 132 SMs against 1 × NVIDIA H200 with 132 SMs."
    )
    new = [one._replace(report=other_gpu(one.report)) for one in (report(8.0, number) for number in (9, 10, 11))]
    earlier = [report(4.0, number) for number in range(1, 9)]
    accepted = gate_reports(earlier, new, GateOptions(accept=frozenset({IssueKind.GPU})))
    assert accepted.outcome is GateOutcome.REGRESSED
    assert accepted.verdict.startswith("Other GPU: ")


def test_runs_of_another_machine_do_not_count() -> None:
    """Six of nine earlier runs are of this machine; runs of an unknown one count."""
    earlier = [report(4.0, number)._replace(origin=RunMachine("ab"[number > 6])) for number in range(1, 10)]
    new = [report(4.0, number)._replace(origin=RunMachine("a")) for number in (10, 11, 12)]
    found = gate_reports(earlier, new)
    assert (found.outcome, len(found.earlier)) == (GateOutcome.PASSES, 6)
    assert found.notes[-1] == "3 earlier runs do not count: Other machine: a against b."
    assert len(gate_reports([report(4.0, number) for number in range(1, 9)], new).earlier) == 8


def test_one_short_earlier_run_does_not_withhold_the_verdict() -> None:
    short = NamedReport(pairs.with_session(pairs.report(pairs.lengths(4.0, 5)), started_utc="x"), "short")
    found = gate_reports(
        [short, *(report(4.0, number) for number in range(1, 9))], [report(4.0, at) for at in (9, 10, 11)]
    )
    assert (found.outcome, len(found.earlier)) == (GateOutcome.PASSES, 8)
    assert found.notes[-1] == ("1 earlier run does not count: it has 5 measured steps; a comparison needs 10.")


def test_a_run_on_both_sides_cannot_tell() -> None:
    earlier = [report(4.0, number) for number in range(1, 9)]
    found = gate_reports(earlier, [earlier[2]])
    assert found.outcome is GateOutcome.CANNOT_TELL
    assert "run 3 is a new run and an earlier one" in found.verdict
