"""Scaling over GPUs: strong with the batch of all GPUs kept, weak with that of each GPU kept; never mixed."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from nsyswrap.base.interval import Interval
from nsyswrap.rules.rule import Group
from nsyswrap.sweep.limits import groups_of
from nsyswrap.sweep.results import CellResult, Sweep
from nsyswrap.sweep.spec import BATCH, BATCH_OF_ALL, GPUS

STRONG, WEAK = "strong", "weak"


class ScalingRow(NamedTuple):
    """One cell on several GPUs against the one with the fewest.

    Attributes:
        others: The values on the axes other than GPUs and batch.
        kept: The batch that is kept: of all GPUs (strong) or of each (weak); None if the sweep has no such axis.
        speedup: Throughput by that of the base.
        efficiency: Speedup by the number of GPUs over that of the base.
        groups_ns: What each group adds to a step; together the difference of the steps. Empty without GPU work.
    """

    kind: str
    others: tuple[tuple[str, str], ...]
    kept: float | None
    base_gpus: int
    gpus: int
    base_ns: float
    step_ns: float
    speedup: float
    efficiency: Interval[float]
    groups_ns: dict[Group, float]


def scaling(sweep: Sweep, kind: str) -> tuple[ScalingRow, ...]:
    """Return the rows of one kind of scaling.

    Strong: the same batch is shared by more GPUs, and the step should become shorter. Weak: each GPU has the same
    batch, and the step should stay as long.

    Source:
        Strong: Amdahl, 1967. Weak: Gustafson, Communications of the ACM 31(5), 1988.
    """
    axis = sweep.spec.axis(GPUS)
    if axis is None or len(axis.values) < 2:  # noqa: PLR2004 - two points make a comparison
        return ()
    # Without batch sizes, the sweep's ``batch_of`` decides what is kept.
    if sweep.spec.axis(BATCH) is None and (sweep.spec.batch_of == BATCH_OF_ALL) != (kind == STRONG):
        return ()
    groups: dict[tuple[tuple[tuple[str, str], ...], float | None], list[CellResult]] = {}
    for each in sweep.measured():
        batch = each.cell.batch
        kept = batch if batch is None or kind == STRONG else batch / (each.cell.gpus or 1)
        groups.setdefault((each.cell.others(GPUS, BATCH), kept), []).append(each)
    return tuple(row for (others, batch), cells in groups.items() for row in _rows(kind, others, batch, cells))


def kinds(sweep: Sweep) -> tuple[str, ...]:
    """Return the kinds of scaling that the cells of a sweep show."""
    return tuple(kind for kind in (STRONG, WEAK) if scaling(sweep, kind))


def _rows(
    kind: str, others: tuple[tuple[str, str], ...], kept: float | None, cells: list[CellResult]
) -> Iterator[ScalingRow]:
    base, *more = sorted(cells, key=lambda each: each.cell.gpus or 1)
    for each in more:
        if base.step is None or each.step is None:
            continue
        # Both intervals together.
        factor = math.exp(math.hypot(base.step.half_width, each.step.half_width))
        ratio = (each.cell.gpus or 1) / (base.cell.gpus or 1)
        # Strong: the same samples in a shorter step. Weak: more samples by the ratio, in a step that may be longer.
        efficiency = base.step.ns.point / each.step.ns.point / (ratio if kind == STRONG else 1.0)
        before, after = groups_of(base), groups_of(each)
        yield ScalingRow(
            kind=kind,
            others=others,
            kept=kept,
            base_gpus=base.cell.gpus or 1,
            gpus=each.cell.gpus or 1,
            base_ns=base.step.ns.point,
            step_ns=each.step.ns.point,
            speedup=efficiency * ratio,
            efficiency=Interval(efficiency / factor, efficiency, efficiency * factor),
            groups_ns={group: after[group] - before[group] for group in Group if base.parts and each.parts},
        )
