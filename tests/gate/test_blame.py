"""Blame: the parts that take longer than their own noise between runs explains."""

import numpy as np

from nsyswrap.gate.noise import blame_words, blamed
from nsyswrap.gate.timed_runs import PartChange, TimedRun

NOISE = np.array([-1.0, 0.6, -0.2, 1.0, -0.6, 0.2, -0.8, 0.4, -0.4, 0.8])


def runs(count: int, **parts: float) -> list[TimedRun]:
    """Return runs with these parts in ms; each part scatters by up to 1 % of a step of 10 ms."""
    whole = sum(parts.values())
    return [
        TimedRun(
            f"run {at}",
            1e6 * whole,
            1e6 * whole,
            {name: 1e6 * value + 1e5 * NOISE[at % len(NOISE)] for name, value in parts.items()},
        )
        for at in range(count)
    ]


def test_the_largest_part_is_first_and_a_part_within_its_noise_is_missing() -> None:
    """Compute grows by 0.1 ms, which noise explains; the wait by 3 ms and copies by 0.8 ms."""
    found = blamed(runs(10, compute=6, wait=3, copies=1), runs(2, compute=6.1, wait=6, copies=1.8), 0.01)
    assert [one.words for one in found] == ["wait", "copies"]
    assert [round(one.share, 2) for one in found] == [0.29, 0.07]


def test_a_part_that_is_new_counts_from_nothing() -> None:
    found = blamed(runs(10, compute=10), runs(2, compute=10, checkpoint=2), 0.01)
    assert [one.words for one in found] == ["checkpoint"]


def test_a_part_that_makes_little_of_the_slowdown_is_not_named() -> None:
    quiet = [TimedRun("", 10e6, 10e6, {"compute": 9e6, "copies": 1e6})] * 10
    slow = [TimedRun("", 15e6, 15e6, {"compute": 13.6e6, "copies": 1.4e6})]
    assert [one.words for one in blamed(quiet, slow, 0.01)] == ["compute"]


def test_the_clause_counts_in_points_of_a_step() -> None:
    parts = (PartChange("wait for rank 3 (data loader wait)", 3.6e5, 0.036), PartChange("compute", 4e4, 0.004))
    assert blame_words(parts) == ": 3.6 of it wait for rank 3 (data loader wait), 0.4 compute"
    assert blame_words(()) == ""
