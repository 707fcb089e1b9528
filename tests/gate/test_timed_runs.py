"""The types of the gate: shares that are checked, and words for parts and noise."""

import math

import pytest

from nsyswrap.base.errors import UsageError
from nsyswrap.gate.timed_runs import GateOptions, GateOutcome, Measure, noise_words, part_words


@pytest.mark.parametrize("find", [0.01, 0.0, -0.05, 10.1, math.nan])
def test_a_slowdown_out_of_range_is_refused(find: float) -> None:
    with pytest.raises(UsageError, match="out of range"):
        GateOptions(find=find)


def test_a_measure_knows_the_largest_slowdown_that_is_not_excluded() -> None:
    """2 % slower with noise of 10 %: 1.02 * 1.1. Never less than none."""
    assert Measure("", 100.0, 102.0, 0.1, GateOutcome.PASSES).most == pytest.approx(0.122)
    assert Measure("", 100.0, 50.0, 0.1, GateOutcome.PASSES).most == 0.0


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (("ledger", "compute_ns"), "compute"),
        (("ledger", "idle_ns"), ""),
        (("idle", "data_wait", "idle/data_wait"), "idle GPU (data loader wait)"),
        (("wait", "3", "idle/data_wait"), "wait for rank 3 (data loader wait)"),
        (("wait", "3"), "wait for rank 3"),
        (("phase", "forward"), "phase forward on the CPU"),
    ],
)
def test_parts_have_words(part: tuple[str, ...], words: str) -> None:
    assert part_words(*part) == words


def test_noise_beyond_measure_is_no_number() -> None:
    assert noise_words(0.034) == "up to 3.4 %"
    assert noise_words(math.inf) == "more than 1,000 %"
