"""The decision of the gate: passes, regressed, cannot tell, and what it says."""

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.compare.comparison import ComparabilityIssue, IssueKind
from nsyswrap.compare.run_noise import GPU_SPREAD
from nsyswrap.gate.decision import judge
from nsyswrap.gate.timed_runs import Gate, GateOptions, GateOutcome, TimedRun

STEP_NS = 10e6
PASSES, REGRESSED, CANNOT_TELL = GateOutcome.PASSES, GateOutcome.REGRESSED, GateOutcome.CANNOT_TELL


def runs(factors: list[float], first: int = 1, commit: str = "") -> tuple[TimedRun, ...]:
    """Return runs with these step times, in units of 10 ms."""
    return tuple(
        TimedRun(f"run {first + at}", STEP_NS * one, 0.98 * STEP_NS * one, commit=commit)
        for at, one in enumerate(factors)
    )


def noisy(count: int, seed: int, spread: float = GPU_SPREAD) -> list[float]:
    """Return factors with normal noise between runs."""
    found: list[float] = np.exp(spread * np.random.default_rng([7, seed]).standard_normal(count)).tolist()
    return found


ANY_NUMBER = GateOptions(allow_one=True)


def gate(earlier: int, new: int, slower: float, seed: int, spread: float = GPU_SPREAD) -> Gate:
    """Return the result for new runs that are slower by a share, with noise between all runs."""
    factors = noisy(earlier + new, seed, spread)
    slow = runs([one * (1 + slower) for one in factors[earlier:]], earlier + 1)
    return judge(runs(factors[:earlier]), slow, ANY_NUMBER)


@pytest.mark.parametrize(("slower", "least"), [(0.03, 0.5), (0.05, 0.9), (0.10, 1.0)], ids=["3 %", "5 %", "10 %"])
def test_slowdowns_of_a_gpu_bound_loop_are_found_within_three_runs(slower: float, least: float) -> None:
    """Twenty earlier runs with the noise of GPU-bound loops; 25 series with fixed seeds."""
    found = [gate(20, 3, slower, seed).outcome is REGRESSED for seed in range(25)]
    assert sum(found) / len(found) >= least


def test_unchanged_runs_pass() -> None:
    """None of 50 series is called slower, and nearly all pass."""
    said = Counter(gate(20, 3, 0.0, seed).outcome for seed in range(50))
    assert said[REGRESSED] == 0
    assert said[PASSES] >= 47


def test_noisy_runs_cannot_tell_and_say_how_many_would() -> None:
    """With that many new runs, a slowdown of 5 % is shown."""
    found = gate(40, 1, 0.03, 2, 0.01)
    assert found.outcome is CANNOT_TELL
    assert found.more_runs is not None
    assert found.more_runs > 1
    assert "would tell" in found.hint
    again = gate(40, found.more_runs, 0.05, 2, 0.01)
    assert again.outcome is REGRESSED


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_earlier_runs_cannot_tell(count: int) -> None:
    found = judge(runs([1.0] * count), runs([3.0] * 3))
    assert (found.outcome, found.measures) == (CANNOT_TELL, ())
    assert found.hint.startswith("give at least 3 runs")


@pytest.mark.parametrize(("slower", "expected"), [(1.009, PASSES), (1.011, REGRESSED)])
def test_a_slowdown_of_less_than_a_hundredth_passes(slower: float, expected: GateOutcome) -> None:
    """It is shown here, since earlier runs are equal to 0.02 %."""
    assert judge(runs([1.0, 1.0002] * 10), runs([slower] * 3, 21)).outcome is expected


@pytest.mark.parametrize("count", [1, 2])
def test_a_verdict_needs_three_new_runs_unless_one_is_allowed(count: int) -> None:
    earlier, new = runs(noisy(20, 1)), runs([1.2] * count, 21)
    found = judge(earlier, new)
    assert (found.outcome, found.hint) == (CANNOT_TELL, "run the program 3 times, or use --allow-one")
    assert judge(earlier, new, ANY_NUMBER).outcome is REGRESSED
    assert judge(earlier, runs([1.2] * 3, 21)).outcome is REGRESSED


def test_the_median_step_shows_what_outliers_hide() -> None:
    """The time per step scatters by 10 % between runs, the median step by 0.1 %, and it takes 8 % longer."""
    earlier = tuple(
        replace(one, median_ns=STEP_NS * other)
        for one, other in zip(runs(noisy(20, 5, 0.1)), noisy(20, 6, 0.001), strict=True)
    )
    new = tuple(replace(one, median_ns=1.08 * STEP_NS) for one in runs([1.08, 1.1, 1.09], 21))
    found = judge(earlier, new)
    assert found.outcome is REGRESSED
    assert found.verdict.startswith("Regressed: +8.")
    assert "the median step" in found.verdict


def test_a_longer_median_step_is_no_slowdown_where_the_time_per_step_excludes_it() -> None:
    """Time moved from between steps into them."""
    new = tuple(replace(one, median_ns=1.2 * one.median_ns) for one in runs(noisy(3, 9), 21))
    assert judge(runs(noisy(20, 5)), new).outcome is CANNOT_TELL


def test_earlier_runs_count_from_a_change_of_the_program_on() -> None:
    """It became 10 % slower at run 11 with another commit. New runs like the later ones pass; a note says why."""
    factors = noisy(23, 3)
    earlier = (*runs(factors[:10], commit="a"), *runs([1.1 * one for one in factors[10:20]], 11, commit="b"))
    found = judge(earlier, runs([1.1 * one for one in factors[20:]], 21, commit="c"))
    assert found.outcome is PASSES
    assert len(found.earlier) == 10
    became = r"Earlier runs count from run 11 on: there the program changed and a step became (9|10)\.\d % longer\."
    assert re.fullmatch(became, found.notes[0])
    assert judge(earlier, runs([1.15 * one for one in factors[20:]], 21)).outcome is REGRESSED


@pytest.mark.parametrize("commit", ["", "a"])
def test_a_level_that_changes_with_the_same_program_is_noise(commit: str) -> None:
    """What the machine did once explains as much again."""
    factors = noisy(23, 3)
    earlier = (*runs(factors[:10], commit=commit), *runs([1.1 * one for one in factors[10:20]], 11, commit=commit))
    found = judge(earlier, runs([1.2 * one for one in factors[20:]], 21, commit="c"))
    assert found.outcome is CANNOT_TELL
    assert len(found.earlier) == 20
    assert "change by +10." in found.notes[0]
    assert "at run 11 (run 11 of 20)" in found.notes[0]


def test_drift_is_named_and_is_noise() -> None:
    """Earlier runs get slower by 0.5 % a run. New runs that go on like this are not called slower."""
    factors = [one * 1.005**at for at, one in enumerate(noisy(23, 8, 0.001))]
    found = judge(runs(factors[:20]), runs(factors[20:], 21))
    assert found.outcome is CANNOT_TELL
    assert found.notes[0].startswith("The earlier runs drift by +10.0 %")


def test_a_step_shortly_before_the_new_run_is_found_with_it() -> None:
    """Runs 19 and 20 are slow already. The gate says where the step began."""
    factors = noisy(21, 4)
    slow = [1.06 * one for one in factors[18:]]
    found = judge(runs([*factors[:18], *slow[:2]]), runs(slow[2:], 21), ANY_NUMBER)
    assert found.outcome is REGRESSED
    assert (len(found.earlier), len(found.new)) == (18, 3)
    assert "The step began at run 19, 2 runs before the new ones." in found.notes


@pytest.mark.parametrize("before", [1, 2])
def test_the_commit_after_a_slow_one_is_not_blamed(before: int) -> None:
    """Commit b made a step 10 % longer in one or two runs; commit c is as slow, and passes. One slower still fails."""
    factors = noisy(18 + before + 3, 4)
    good, slow = factors[:18], [1.1 * one for one in factors[18:]]
    earlier = (*runs(good, commit="a"), *runs(slow[:before], 19, "b"))
    found = judge(earlier, runs(slow[before:], 19 + before, "c"))
    assert found.outcome is PASSES
    assert (len(found.earlier), len(found.new)) == (18 + before, 3)
    assert re.fullmatch(
        r"A step became (9|10)\.\d % longer at run 19, before the new runs: they are compared with it\.", found.notes[0]
    )
    assert judge(earlier, runs([1.1 * one for one in slow[before:]], 19 + before, "c")).outcome is REGRESSED
    assert judge(earlier, runs(slow[before:], 19 + before, "b")).outcome is REGRESSED


@pytest.mark.parametrize("seed", range(4))
def test_a_small_drift_over_many_commits_is_a_drift(seed: int) -> None:
    """45 commits, each 0.2 % slower, with the noise of a GPU: no commit is named."""
    factors = [one * 1.002**at for at, one in enumerate(noisy(48, seed))]
    earlier = tuple(one for at, factor in enumerate(factors[:45]) for one in runs([factor], at, f"commit {at}"))
    found = judge(earlier, runs(factors[45:], 45, "new"))
    assert len(found.earlier) == 45
    assert re.match(r"The earlier runs drift by \+(8|9|10)\.\d %", found.notes[0])


def test_an_issue_that_blocks_withholds_the_verdict() -> None:
    issue = ComparabilityIssue(IssueKind.GPU, "The GPUs differ: A and B.", blocks=True, hint="use the same GPU")
    earlier, new = runs(noisy(20, 1)), runs([1.2] * 3, 21)
    found = judge(earlier, new, issues=[issue])
    assert (found.outcome, found.hint) == (CANNOT_TELL, "use the same GPU")
    assert found.verdict.startswith("Cannot tell: The GPUs differ: A and B. Apart from that: Regressed: +20.")


def waiting(count: int, own: float, waits: float | None, seed: int, first: int = 1) -> tuple[TimedRun, ...]:
    """Return runs of so many ms of their own a step, and of waits for a core, both with 2 % noise."""
    noise = noisy(count, seed, 0.02)
    return tuple(
        TimedRun(
            f"run {first + at}",
            1e6 * one * (own + (waits or 0.0)),
            1e6 * one * (own + (waits or 0.0)),
            waiting_ns=None if waits is None else 1e6 * one * waits,
        )
        for at, one in enumerate(noise)
    )


def test_runs_that_wait_longer_for_a_core_are_not_called_slower() -> None:
    """A step takes 30 ms instead of 10, and 20 of them are waits for a core."""
    found = judge(waiting(20, 9.0, 1.0, 1), waiting(3, 9.0, 21.0, 2, 21))
    assert found.outcome is CANNOT_TELL
    assert "ms a step longer for a CPU core" in found.verdict
    assert found.hint.startswith("run again without other load")


@pytest.mark.parametrize(("own", "waits"), [(27.0, 3.0), (30.0, 0.5), (18.0, 15.0)])
def test_a_slowdown_beside_waits_for_a_core_is_found(own: float, waits: float) -> None:
    """Without the waits a step takes at least twice as long."""
    assert judge(waiting(20, 9.0, 1.0, 1), waiting(3, own, waits, 2, 21)).outcome is REGRESSED


def test_the_verdict_names_the_parts_in_points_of_a_step() -> None:
    """A step takes 10 ms; compute grows by 0.5 ms and the wait for the loader by 1.5 ms."""
    parts = {"compute": 6e6, "idle GPU (data loader wait)": 4e6}
    earlier = tuple(replace(one, parts=parts) for one in runs(noisy(20, 1)))
    slow = {"compute": 6.5e6, "idle GPU (data loader wait)": 5.5e6}
    found = judge(earlier, tuple(replace(one, parts=slow) for one in runs([1.2] * 3, 21)))
    assert found.verdict.endswith(": 15.0 of it idle GPU (data loader wait), 5.0 compute.")


@given(
    st.lists(st.floats(0.5, 2.0), min_size=3, max_size=12),
    st.lists(st.floats(0.5, 2.0), min_size=1, max_size=4),
    st.floats(1e-3, 1e6),
)
def test_the_unit_of_time_does_not_matter(earlier: list[float], new: list[float], unit: float) -> None:
    """Runs that are all as many times longer have the same outcome and the same limits."""
    plain = judge(runs(earlier), runs(new))
    scaled = judge(runs([unit * one for one in earlier]), runs([unit * one for one in new]))
    for one, other in zip(plain.measures, scaled.measures, strict=True):
        assert other.change == pytest.approx(one.change, abs=1e-9)
        assert other.limit == pytest.approx(one.limit, rel=1e-6, abs=1e-9)
