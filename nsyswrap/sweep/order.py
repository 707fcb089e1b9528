"""Which run of a sweep comes next: rounds in random order, until the budget ends or the answer is known."""

import random
from collections.abc import Mapping, Sequence

from nsyswrap.sweep.cells import Cell, cells_of
from nsyswrap.sweep.endings import Ending
from nsyswrap.sweep.results import FEWEST_RUNS, CellRun, StepInterval, step_interval
from nsyswrap.sweep.spec import SweepSpec


def shuffled(cells: Sequence[Cell], seed: int, number: int) -> list[Cell]:
    """Return the cells in the order of one round.

    Each round has all cells once and an order of its own. So a machine that becomes warmer or slower changes all cells
    alike, and a sweep that ends early has as many runs of each cell.

    Source:
        Randomized complete blocks: Fisher, The Design of Experiments, 1935.
    """
    order = [each for each in cells if not each.same_as]
    random.Random(f"{seed}:{number}").shuffle(order)  # noqa: S311 - no secret
    return order


def next_run(
    spec: SweepSpec, seed: int, done: Sequence[CellRun], *, until_stable: bool = False
) -> tuple[Cell, int] | None:
    """Return the cell to run next and the number of its run; None if nothing is left to do.

    A cell that failed is not repeated.

    Args:
        spec: The sweep.
        seed: Its seed.
        done: The runs that have ended, in any order.
        until_stable: Repeat each cell until its answer is known, not a fixed number of times.
    """
    by_cell: dict[str, list[CellRun]] = {}
    for run in done:
        by_cell.setdefault(run.cell, []).append(run)
    cells = cells_of(spec)
    known = _known(spec, cells, by_cell) if until_stable else set()
    rounds = spec.budget.most_repeats if until_stable else spec.budget.repeats
    for cell, number in ((cell, at) for at in range(1, rounds + 1) for cell in shuffled(cells, seed, at)):
        found = by_cell.get(cell.key, [])
        if number in {run.number for run in found} or any(run.ending is not Ending.MEASURED for run in found):
            continue
        if cell.key not in known:
            return cell, number
    return None


def _known(spec: SweepSpec, cells: Sequence[Cell], by_cell: Mapping[str, Sequence[CellRun]]) -> set[str]:
    """Return the cells whose answer is known.

    A cell is known from three runs on, when the interval of its time per step is narrow: at most the tolerance to each
    side. Cells that are still wide go on, also those that cannot be the best: scaling and limits are about each cell.

    Source:
        A fixed width as the rule to stop: Chow and Robbins, Annals of Mathematical Statistics 36, 1965.
    """
    intervals = {cell.key: step_interval(by_cell.get(cell.key, [])) for cell in cells}
    return {key for key, found in intervals.items() if found is not None and is_known(found, spec.tolerance)}


def is_known(interval: StepInterval, tolerance: float) -> bool:
    """Return whether a time per step is known to the tolerance, a share, from its own runs."""
    return interval.runs >= FEWEST_RUNS and interval.half_width <= tolerance
