"""The steps of a run without a profiler are found by the same rules as the steps of a capture."""

import numpy as np
import pytest

from nsyswrap.base.errors import UsageError
from nsyswrap.loop.step_detection import find_timed_steps
from nsyswrap.trace.tables import array


def process(pid: int, lengths: list[int], name: str = "step", domain: str = "") -> dict[str, object]:
    """Return a process whose steps follow one another."""
    ends = np.cumsum(lengths).tolist()
    starts = [end - length for end, length in zip(ends, lengths, strict=True)]
    ranges = [
        [pid, domain, f"{name} {number}", start, end]
        for number, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]
    return {"pid": pid, "ranges": ranges}


def test_the_first_steps_are_warm_up() -> None:
    steps = find_timed_steps([process(7, [900, 300, 100, 110, 120])])
    measured = steps.measured
    assert (array(measured, "end") - array(measured, "start")).tolist() == [100, 110, 120]


def test_ranks_take_the_same_steps() -> None:
    steps = find_timed_steps([process(7, [100] * 6), process(8, [100] * 6)])
    assert (steps.measured_count, steps.frame["process"].nunique()) == (4, 2)


def test_steps_of_another_name_need_its_pattern() -> None:
    """The pattern has the same meaning as with --step-range."""
    epoch = process(7, [100] * 6, name="round")
    assert find_timed_steps([epoch]).measured_count == 0
    assert find_timed_steps([epoch], "^round").measured_count == 4
    with pytest.raises(UsageError):
        find_timed_steps([epoch], "(")
