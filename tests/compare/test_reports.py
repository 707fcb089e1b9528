"""The verdict of a comparison: its sentence, and cases without a verdict."""

from dataclasses import replace

import numpy as np
import paired_reports as pairs
import pandas as pd
from paired_reports import MS

from nsyswrap.compare.comparison import Comparison, ComparisonOptions, IssueKind, Outcome, RunMachine
from nsyswrap.compare.estimates import MORE_RUNS
from nsyswrap.compare.reports import compare_reports
from nsyswrap.model import Report


def runs(median_ms: float, **options: object) -> list[Report]:
    """Return the reports of three runs of a loop; kernels run for 1 ms of a step unless all of it is compute."""
    return [
        pairs.with_session(
            pairs.report(pairs.lengths(median_ms, seed=at, spread=0.01), **options),  # type: ignore[arg-type]
            started_utc=f"{median_ms} {at}",
        )
        for at in range(3)
    ]


def compared(base: list[Report], new: list[Report], **options: object) -> Comparison:
    return compare_reports(base, new, ("before", "after"), ComparisonOptions(**options))  # type: ignore[arg-type]


BASE, FAST = runs(4.0), runs(2.0)
LIKE = [pairs.with_session(one, started_utc=f"later {at}") for at, one in enumerate(BASE)]
BUSY = [pairs.with_session(one, traces=("Cuda",)) for one in BASE]


def test_the_verdict_faster_has_amount_and_reason() -> None:
    """It has the median step times, how much faster with its range, and the part that changed most."""
    found = compared(BASE, FAST)
    assert found.outcome is Outcome.FASTER
    assert found.verdict.startswith("Faster: the median step takes 2.00 ms instead of 4.00 ms, 49.")
    assert " % faster, mostly because the GPU is idle 1.50 ms less (data loader wait)." in found.verdict


def test_slower_is_said_the_same_way() -> None:
    found = compared(FAST, BASE)
    assert found.outcome is Outcome.SLOWER
    assert found.verdict.startswith("Slower: the median step takes 4.00 ms instead of 2.00 ms, 99.")
    assert " % slower, mostly because the GPU is idle 1.50 ms more (data loader wait)." in found.verdict


def test_a_change_of_the_mean_alone_names_the_mean() -> None:
    """Each fourth step takes twice as long."""
    steps = pairs.lengths(4.0, 80, seed=2)
    steps[::4] *= 2
    later = pairs.with_session(pairs.report(steps, busy=True), started_utc="x")
    found = pairs.compared(pairs.report(pairs.lengths(4.0, 80), busy=True), later)
    assert found.verdict.startswith("Slower: the time per step is 5.0")
    assert ", but the median step does not show it" in found.verdict


def test_no_difference_is_said_with_what_was_looked_for_and_its_interval() -> None:
    found = compared(BASE, LIKE)
    assert found.outcome is Outcome.NO_DIFFERENCE
    assert found.verdict.startswith("No difference of 2 %: the median step takes 4.00 ms in base and 4.00 ms in new")
    assert "95 % interval of the change -" in found.verdict
    assert compared(BASE, LIKE, find=0.001).outcome is Outcome.CANNOT_TELL


def test_one_run_of_each_side_is_not_enough_for_time_on_the_cpu() -> None:
    """A step takes half the time, and kernels run a quarter of it: the numbers are given, and no verdict."""
    found = compared(BASE[:1], FAST[:1])
    assert found.outcome is Outcome.CANNOT_TELL
    assert found.verdict.startswith("Cannot tell: one run of each side does not show how much time on the CPU varies")
    assert "4.00 ms in base and 2.00 ms in new" in found.verdict
    assert found.hint == MORE_RUNS
    assert compared(runs(4.0, busy=True)[:1], runs(2.0, busy=True)[:1]).outcome is Outcome.FASTER


def test_the_verdict_begins_with_what_is_compared_with_what() -> None:
    """Other versions of torch, another driver and other arguments."""
    other = [pairs.with_session(one, driver_version="590", command=("python", "train.py", "--lr", "2")) for one in FAST]
    known = [RunMachine("a", "2.10")] * 3, [RunMachine("a", "2.11")] * 3
    found = compare_reports(BASE, other, ("before", "after"), None, known)
    assert found.verdict.startswith(
        "Other torch: 2.11 against 2.10. Other driver: 590 against 580.159.04. "
        "Other arguments: --lr 2 against --workers 1. Faster: "
    )


def test_another_machine_withholds_the_verdict_until_it_is_accepted() -> None:
    origins = [RunMachine("a")] * 3, [RunMachine("b")] * 3
    found = compare_reports(BASE, FAST, ("before", "after"), None, origins)
    assert found.outcome is Outcome.CANNOT_TELL
    assert found.verdict.startswith("Cannot tell: other machine: b against a. Apart from that: Faster")
    newer = [RunMachine("b", "2.11")] * 3
    found = compare_reports(BASE, FAST, ("before", "after"), None, (origins[0], newer))
    assert found.verdict.startswith("Cannot tell: other machine: b against a. Other torch: 2.11 against unknown. Apart")
    accepted = ComparisonOptions(accept=frozenset({IssueKind.MACHINE}))
    found = compare_reports(BASE, FAST, ("before", "after"), accepted, origins)
    assert found.outcome is Outcome.FASTER
    assert found.verdict.startswith("Other machine: b against a. You accepted this. Faster")
    assert compare_reports(BASE, FAST, ("before", "after"), None, (origins[0], ())).outcome is Outcome.FASTER


def test_what_is_not_comparable_withholds_the_verdict_and_is_followed_by_what_the_numbers_say() -> None:
    found = compared(BUSY, FAST)
    assert found.outcome is Outcome.CANNOT_TELL
    assert found.verdict.startswith("Cannot tell: nsys recorded different events")
    assert "Apart from that: Faster: the median step" in found.verdict


def test_it_is_said_once_where_the_numbers_cannot_tell_either() -> None:
    assert compared(BUSY[:1], FAST[:1]).verdict.count("Cannot tell") == 1


def test_what_is_accepted_gives_the_verdict_back() -> None:
    found = compared(BUSY, FAST, accept=frozenset({IssueKind.TRACES}))
    assert found.outcome is Outcome.FASTER
    assert found.verdict.startswith("Faster")


def test_without_steps_there_is_no_step_time() -> None:
    found = compared(BASE, [pairs.with_session(pairs.report([]), started_utc="x")])
    assert (found.outcome, found.estimates) == (Outcome.CANNOT_TELL, ())
    assert (
        found.verdict == "Cannot tell: after has no measured steps in its window, so there is no step time to compare."
    )


def test_compute_is_named_if_it_caused_the_change() -> None:
    found = compared(runs(4.0, busy=True), runs(2.0, busy=True))
    assert found.verdict.endswith("mostly in compute (2.00 ms less).")


def test_no_part_is_named_if_none_caused_most_of_the_change() -> None:
    """Each of three causes is a third of the change."""
    names = ["cpu", "launch", "lock"]

    def thirds(whole: Report) -> Report:
        idle = int(whole.section("ledger").tables["devices"]["idle_ns"].iloc[0])  # type: ignore[union-attr]
        causes = pd.DataFrame({"device_id": 0, "cause": names, "phase": "none", "idle_ns": idle // 3, "gap_count": 1})
        return pairs.with_section(whole, "idle", causes=causes)

    assert ", mostly" not in compared(list(map(thirds, BASE)), list(map(thirds, FAST))).verdict


def test_no_reason_is_given_where_the_mean_cannot_tell() -> None:
    """Parts add up to the mean, so one giant step would be the reason for a faster median."""
    giants = [pairs.report(np.append(pairs.lengths(4.0, 59), (4_000 + 900 * at) * MS)) for at in range(3)]
    found = compared([pairs.with_session(one, started_utc=str(at)) for at, one in enumerate(giants)], FAST)
    assert found.outcome is Outcome.FASTER
    assert ", mostly" not in found.verdict


def test_the_same_reports_give_the_same_comparison() -> None:
    first, second = (compared(BASE, FAST) for _ in range(2))
    assert (first.verdict, first.estimates, first.tables) == (second.verdict, second.estimates, second.tables)


def test_a_report_without_gpu_work_is_compared_by_its_steps() -> None:
    """A loop on the CPU has steps and no ledger."""
    base, new = ([replace(one, gpus=(), sections=one.sections[2:]) for one in side] for side in (BASE, FAST))
    found = compared(base, new)
    assert found.outcome is Outcome.FASTER
    assert found.tables == ()
    assert found.verdict.endswith("% faster.")
