"""The simulated part of a window: all of it, a run of typical steps, or its middle."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from nsyswrap.base.intervals import Window
from nsyswrap.loop.step_detection import Shared, Steps
from nsyswrap.what_if.sample import choose_sample


def steps(*lengths: int) -> Steps:
    """Return steps of one process, one after another from 0."""
    end = np.cumsum(lengths)
    columns = {"process": 1, "thread": 1, "name": "step", "start": end - lengths, "end": end, "warm_up": False}
    return Steps(pd.DataFrame(columns))


def window(end: int, source: str = "steps") -> Window:
    """Return a window from 0."""
    return Window(0, end, "the window", source)  # type: ignore[arg-type]


# The most operations of a sample.
MOST = 10


@pytest.mark.parametrize(("operations", "scale"), [(12_000, 1), (12_001, 12_001 / 12_000)])
def test_a_window_of_up_to_12000_operations_is_simulated_as_a_whole(operations: int, scale: float) -> None:
    found = choose_sample(np.arange(operations), steps(), window(operations))
    assert found.scale == pytest.approx(scale, abs=1e-6)


def test_a_window_that_is_not_made_of_steps_counts_none() -> None:
    assert choose_sample(np.arange(0, 100, 10), steps(50, 50), window(100, "user"), MOST).steps == 0


def test_the_run_of_steps_nearest_to_the_mean_is_simulated() -> None:
    """Two of six steps of four operations fit. Runs of two take 130, 80, 60, 65 and 75 ns; a third of all is 88."""
    found = choose_sample(_four_a_step(100, 30, 50, 10, 55, 20), steps(100, 30, 50, 10, 55, 20), window(265), MOST)
    assert (found.window.start_ns, found.window.end_ns) == (100, 180)
    assert (found.steps, found.scale) == (2, 3.0)
    assert found.window.label == "2 of 6 steps, from step 2 of the window"


def test_a_step_lasts_until_the_next_one() -> None:
    """The time between two steps is part of the window and of the sample."""
    frame = steps(20, 20, 20, 20).frame
    frame["end"] -= 5
    found = choose_sample(_four_a_step(20, 20, 20, 20), Steps(frame), window(80), MOST)
    assert found.window.length_ns in {35, 40}
    assert found.steps == 2


def test_of_ranks_at_a_distance_the_same_steps_are_simulated() -> None:
    """The host of one is 30 ns ahead: the second and the third step, 20 ns each, begin at 20 ns and end at 90."""
    frame = steps(20, 20, 20, 20).frame
    other = frame.assign(process=2, thread=2, start=frame["start"] + 30, end=frame["end"] + 30)
    both = Steps(pd.concat([frame, other], ignore_index=True), of_job=Shared(0, 110, 4))
    operations = np.sort(np.concatenate([_four_a_step(20, 20, 20, 20), _four_a_step(20, 20, 20, 20) + 30]))
    found = choose_sample(operations, both, window(110), 2 * MOST)
    assert (found.window.end_ns - found.window.start_ns, found.steps, found.scale) == (70, 2, 2.0)


def test_warm_up_is_not_simulated() -> None:
    frame = steps(20, 20, 20, 20, 20).frame
    frame["warm_up"] = [True, True, False, False, False]
    found = choose_sample(_four_a_step(20, 20, 20, 20, 20), Steps(frame), window(100), MOST)
    assert found.window.start_ns >= 40


@pytest.mark.parametrize("make", [lambda: steps(1000), steps])
def test_without_a_step_that_fits_the_middle_of_the_window_is_simulated(make: Callable[[], Steps]) -> None:
    """There are a hundred operations, one every 10 ns. The sample has the 46th to the 55th."""
    found = choose_sample(np.arange(0, 1000, 10), make(), window(1000), MOST)
    assert (found.window.start_ns, found.window.end_ns, found.steps) == (450, 541, 0)
    assert found.scale == pytest.approx(1000 / 91)
    assert found.window.label == "10 operations from the middle of the window"


@pytest.mark.parametrize(("operations", "count"), [(80, 1), (81, 0)])
def test_a_step_of_up_to_eight_times_as_many_operations_is_simulated_as_a_whole(operations: int, count: int) -> None:
    found = choose_sample(np.arange(2 * operations), steps(operations, operations), window(2 * operations), MOST)
    assert found.steps == count


def test_operations_outside_the_window_do_not_count() -> None:
    found = choose_sample(np.arange(-1000, 2000, 10), steps(50, 50), window(100), MOST)
    assert found.scale == 1.0


def _four_a_step(*lengths: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    start = np.cumsum(lengths) - lengths
    return np.concatenate([start + offset for offset in (0, 1, 2, 3)]).astype(np.int64)
