"""The fewest workers that are nearly as fast as any are found in few runs."""

from collections.abc import Callable

import pytest

from nsyswrap.experiments.loader_search import MOST_RUNS, find_knee
from nsyswrap.experiments.request import Answer


def runs(step_ns: Callable[[int], float], tried: list[int]) -> Callable[[int], Answer]:
    """Return runs of a program whose step follows from its number of workers; they are listed."""

    def run(number: int) -> Answer:
        tried.append(number)
        timed = {"event": "timed", "step_ns": [step_ns(number)], "cores": number + 1.0, "worker_bytes": number * 1000}
        return Answer(0, (timed,))

    return run


def limited(number: int) -> float:
    """Return the step of a program that needs 10 units itself; a batch takes 80 units of one worker."""
    return 90.0 if not number else max(10.0, 80.0 / number)


@pytest.mark.parametrize(
    ("now", "cores", "knee"), [(0, 16, 8), (0, 4, 4), (1, 16, 8), (16, 16, 8), (0, 128, 8), (3, 6, 6)]
)
def test_the_knee_is_found_from_any_number(now: int, cores: int, knee: int) -> None:
    tried = list[int]()
    best, points = find_knee(runs(limited, tried), now, cores)
    assert best is not None
    assert best.workers == knee
    assert len(tried) == len(points) <= MOST_RUNS
    assert len(set(tried)) == len(tried)
    assert (best.cores, best.worker_bytes) == (knee + 1.0, knee * 1000)


def test_a_first_worker_that_brings_nothing_does_not_end_the_search() -> None:
    """Loading takes nearly all of the step, so one worker hides only the rest."""
    best, _ = find_knee(runs(lambda number: 100.0 if number < 2 else 50.0, []), 0, 4)
    assert best is not None
    assert best.workers == 2


def test_fewer_workers_are_found_where_more_do_not_help() -> None:
    """Sixteen workers on four cores get in each other's way."""
    best, _ = find_knee(runs(lambda number: 10.0 + max(number - 4, 0), []), 16, 4)
    assert best is not None
    assert best.workers <= 4


def test_numbers_that_fail_are_left_out() -> None:
    def run(number: int) -> Answer:
        return runs(limited, [])(number) if number < 4 else Answer(1, ())

    best, points = find_knee(run, 1, 16)
    assert best is not None
    assert best.workers == 2
    assert [each.workers for each in points] == [1, 2]


def test_no_knee_where_no_run_can_be_timed() -> None:
    assert find_knee(lambda _number: Answer(1, ()), 0, 4) == (None, ())


@pytest.mark.parametrize(("share", "knee"), [(0.029, 1), (0.031, 2)])
def test_more_workers_are_worth_it_from_three_per_cent_on(share: float, knee: int) -> None:
    best, _ = find_knee(runs(lambda number: (200.0, 100.0, 100.0 * (1 - share))[number], []), 1, 2)
    assert best is not None
    assert best.workers == knee
