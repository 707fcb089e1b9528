"""Finds how many workers a data loader needs: the knee of the curve, in at most eight short runs.

::

    step time  |*                       0 workers
               |   *                    1
               |      *                 2
               |         *  *           4: the knee; 8 are not 3 % faster
               +-------------- workers
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from nsyswrap.experiments.request import Answer

MOST_RUNS = 8
# More workers are worth it from this share of a step on. Source: ours: they cost cores and memory.
WORTH_SHARE = 0.03
MOST_FAILED = 2


@dataclass(frozen=True, slots=True)
class LoaderPoint:
    """A number of workers, and what it brought.

    Attributes:
        workers: The number.
        step_ns: Mean step with it.
        cores: Cores that the program and its workers kept busy.
        worker_bytes: Memory of the workers.
    """

    workers: int
    step_ns: float
    cores: float
    worker_bytes: int


def find_knee(
    run: Callable[[int], Answer | None], now: int, cores: int
) -> tuple[LoaderPoint | None, tuple[LoaderPoint, ...]]:
    """Return the fewest workers that are nearly as fast as any, and all that were tried; None where none can run.

    It doubles the number until that does not help twice in a row: the first worker alone may bring nothing. Where more
    do not help, fewer may. ``run`` returns None where no time is left.
    """
    found: dict[int, LoaderPoint] = {}

    def is_better(number: int, than: int) -> bool:
        if number not in found and len(found) < MOST_RUNS:
            point = _point(number, run(number))
            if point is not None:
                found[number] = point
        if number not in found or than not in found:
            return False
        return found[number].step_ns < (1 - WORTH_SHARE) * found[than].step_ns

    is_better(now, now)
    for numbers in (_more(now, cores), _fewer(now, cores)):
        best, failed = now, 0
        for each in numbers:
            best, failed = (each, 0) if is_better(each, best) else (best, failed + 1)
            if failed == MOST_FAILED:
                break
        if best != now:
            break
    if not found:
        return None, ()
    fastest = min(each.step_ns for each in found.values())
    points = tuple(found[each] for each in sorted(found))
    return next(each for each in points if each.step_ns <= fastest * (1 + WORTH_SHARE)), points


def _more(now: int, cores: int) -> Sequence[int]:
    """Return larger numbers up to the cores, each twice the one before."""
    number, found = max(2 * now, 1), list[int]()
    while number < cores:
        found.append(number)
        number *= 2
    return [*found, cores] if now < cores else found


def _fewer(now: int, cores: int) -> Sequence[int]:
    """Return smaller numbers from the cores on, each half of the one before; 0 is the last."""
    number, found = min(now // 2, cores), list[int]()
    while now and number:
        found.append(number)
        number //= 2
    return [*found, 0] if now else found


def _point(number: int, answer: Answer | None) -> LoaderPoint | None:
    timed = None if answer is None else next(answer.of("timed"), None)
    if timed is None:
        return None
    return LoaderPoint(number, fmean(timed["step_ns"]), float(timed["cores"]), int(timed["worker_bytes"]))
