"""The verdict of a comparison: its sentence, and cases without a verdict."""

from dataclasses import replace

import numpy as np
import paired_reports as pairs
import pandas as pd
import pytest
from paired_reports import MS

from nsyswrap.compare import Comparison, IssueKind, Outcome
from nsyswrap.compare.estimates import MORE_RUNS, MORE_STEPS
from nsyswrap.model import Report

BASE = pairs.report(pairs.lengths(4.0))
FAST = pairs.with_session(pairs.report(pairs.lengths(2.0, seed=2)), started_utc="x")
LIKE = pairs.with_session(pairs.report(pairs.lengths(4.0, seed=2)), started_utc="x")
BUSY = pairs.with_session(BASE, traces=("Cuda",))


def test_the_verdict_faster_has_amount_and_reason() -> None:
    """It has the median step times, the interval with run-to-run noise, and the part that changed most."""
    found = pairs.compared(BASE, FAST)
    assert found.outcome is Outcome.FASTER
    assert found.verdict.startswith("Faster: the median step takes 2.01 ms instead of 4.00 ms, 49.")
    assert "% less (95 % interval 34.9 to 61.3 %)" in found.verdict
    assert found.verdict.endswith("(data loader wait).")


def test_slower_is_said_the_same_way() -> None:
    found = pairs.compared(FAST, BASE)
    assert found.outcome is Outcome.SLOWER
    assert found.verdict.startswith("Slower: the median step takes 4.00 ms instead of 2.01 ms, 99.")
    assert "idle 1.49 ms more (data loader wait)" in found.verdict


def test_a_change_of_the_mean_alone_names_the_mean() -> None:
    """Each fourth step takes twice as long."""
    steps = pairs.lengths(4.0, 80, seed=2)
    steps[::4] *= 2
    later = pairs.with_session(pairs.report(steps, busy=True), started_utc="x")
    found = pairs.compared(pairs.report(pairs.lengths(4.0, 80), busy=True), later)
    assert found.verdict.startswith("Slower: the time per step is 5.0")
    assert ", but the median step does not show it" in found.verdict


def test_no_difference_is_said_with_its_interval() -> None:
    found = pairs.compared(BASE, LIKE)
    assert found.outcome is Outcome.NO_DIFFERENCE
    assert found.verdict.startswith("No difference: the median step takes 4.00 ms in base and 4.02 ms in new")
    assert "95 % interval of the change -" in found.verdict


def test_the_verdict_cannot_tell_has_its_reason() -> None:
    """The interval is too wide, or the reports are not comparable."""
    wild = pairs.report(pairs.lengths(4.0, 12, spread=0.6))
    found = pairs.compared(wild, pairs.with_session(pairs.report(pairs.lengths(4.0, 12, 2, 0.6)), started_utc="x"))
    assert found.outcome is Outcome.CANNOT_TELL
    assert found.verdict.startswith("Cannot tell: the steps vary too much for so few of them (median step ")
    assert found.hint == MORE_STEPS


def test_what_is_not_comparable_withholds_the_verdict_and_is_followed_by_what_the_numbers_say() -> None:
    found = pairs.compared(BUSY, FAST)
    assert (found.outcome, found.blocked) == (Outcome.CANNOT_TELL, True)
    assert found.verdict.startswith("Cannot tell: nsys recorded different events")
    assert "Apart from that: Faster: the median step" in found.verdict


def test_it_is_said_once_where_the_numbers_cannot_tell_either() -> None:
    wild = pairs.report(pairs.lengths(4.0, 12, spread=0.6))
    other = pairs.with_session(pairs.report(pairs.lengths(4.0, 12, 2, 0.6)), started_utc="x", traces=("Cuda",))
    assert pairs.compared(wild, other).verdict.count("Cannot tell") == 1


def test_what_is_accepted_gives_the_verdict_back() -> None:
    found = pairs.compared(BUSY, FAST, accept=frozenset({IssueKind.TRACES}))
    assert (found.outcome, found.blocked) == (Outcome.FASTER, False)
    assert found.verdict.startswith("Faster")


def test_without_steps_there_is_no_step_time() -> None:
    found = pairs.compared(BASE, pairs.with_session(pairs.report([]), started_utc="x"))
    assert (found.outcome, found.estimates) == (Outcome.CANNOT_TELL, ())
    assert (
        found.verdict == "Cannot tell: after has no measured steps in its window, so there is no step time to compare."
    )


def test_compute_is_named_if_it_caused_the_change() -> None:
    """The ledger of the second has all of its time in compute."""
    busy = pairs.report(pairs.lengths(2.0, seed=2))
    devices = busy.section("ledger").tables["devices"]  # type: ignore[union-attr]
    whole = pairs.with_section(busy, "ledger", devices=devices.assign(compute_ns=devices["window_ns"], idle_ns=0))
    none = pd.DataFrame({"device_id": [0], "cause": ["cpu"], "phase": ["none"], "idle_ns": [0], "gap_count": [0]})
    long = pairs.report(pairs.lengths(4.0))
    rows = long.section("ledger").tables["devices"]  # type: ignore[union-attr]
    base = pairs.with_section(long, "ledger", devices=rows.assign(compute_ns=rows["window_ns"], idle_ns=0))
    found = pairs.compared(
        pairs.with_section(base, "idle", causes=none), pairs.with_section(whole, "idle", causes=none)
    )
    assert found.verdict.endswith("mostly in compute (1.99 ms less).")


def test_no_part_is_named_if_none_caused_most_of_the_change() -> None:
    """Each of three causes is a third of the change."""
    names = ["cpu", "launch", "lock"]

    def thirds(whole: Report) -> Report:
        idle = int(whole.section("ledger").tables["devices"]["idle_ns"].iloc[0])  # type: ignore[union-attr]
        causes = pd.DataFrame({"device_id": 0, "cause": names, "phase": "none", "idle_ns": idle // 3, "gap_count": 1})
        return pairs.with_section(whole, "idle", causes=causes)

    assert ", mostly" not in pairs.compared(thirds(BASE), thirds(FAST)).verdict


def test_no_reason_is_given_where_the_mean_cannot_tell() -> None:
    """Parts add up to the mean, so one giant step would be the reason for a faster median."""
    giant = np.append(pairs.lengths(4.0, 59), 4_000 * MS)
    found = pairs.compared(pairs.report(giant), FAST)
    assert found.outcome is Outcome.FASTER
    assert ", mostly" not in found.verdict


def test_a_margin_decides_what_counts() -> None:
    longer = np.round(pairs.lengths(4.0, spread=0.001) * 1.025)
    little = pairs.with_session(pairs.report(longer, busy=True), started_utc="x")
    measured = pairs.report(pairs.lengths(4.0, spread=0.001), busy=True)
    assert pairs.compared(measured, little).outcome is Outcome.NO_DIFFERENCE
    assert pairs.compared(measured, little, margin=0.01).outcome is Outcome.SLOWER


def test_a_loop_limited_by_the_cpu_must_change_by_more() -> None:
    """A change of 10 % counts if kernels run all the time, and not if they run a quarter of it."""

    def said(share: float, *, busy: bool) -> Comparison:
        later = pairs.report(np.round(pairs.lengths(4.0, seed=2) * (1 + share)), busy=busy)
        return pairs.compared(pairs.report(pairs.lengths(4.0), busy=busy), pairs.with_session(later, started_utc="x"))

    assert said(0.10, busy=True).outcome is Outcome.SLOWER
    assert said(0.10, busy=False).outcome is Outcome.NO_DIFFERENCE
    hidden = said(0.25, busy=False)
    assert hidden.verdict.startswith(
        "Cannot tell: two runs of such a loop may differ by as much when nothing changed ("
    )
    assert hidden.hint == MORE_RUNS
    assert said(0.60, busy=False).outcome is Outcome.SLOWER


def test_a_regression_is_how_much_slower_a_step_is_shown_to_be() -> None:
    assert pairs.compared(FAST, BASE).regression() == pytest.approx(1.0, abs=0.02)
    assert pairs.compared(BASE, FAST).regression() == 0
    assert pairs.compared(BASE, LIKE).regression() == 0
    assert pairs.compared(pairs.with_session(FAST, traces=()), BASE).regression() == 0


def test_the_same_reports_give_the_same_comparison() -> None:
    first, second = (pairs.compared(BASE, FAST) for _ in range(2))
    assert (first.verdict, first.estimates, first.tables) == (second.verdict, second.estimates, second.tables)


def test_a_report_without_gpu_work_is_compared_by_its_steps() -> None:
    """A loop on the CPU has steps and no ledger."""
    base, new = (replace(one, gpus=(), sections=one.sections[2:]) for one in (BASE, FAST))
    found = pairs.compared(base, new)
    assert found.outcome is Outcome.FASTER
    assert found.tables == ()
    assert found.verdict.endswith("%).")
