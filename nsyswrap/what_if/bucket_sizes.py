"""The change "buckets of another size", for gradients that are reduced during the backward pass.

::

    backward   |## 1 ##|## 2 ##|## 3 ##|## 4 ##|
    buckets                    |== 1, 2 ==|     |== 3, 4 ==|
    halves             |= 1 =| |= 2 =| |= 3 =|  |= 4 =|

A bucket is sent when its last gradient is ready, and after the bucket before it. Smaller buckets are ready earlier, and
less of the last one is left after the pass; but each takes the latency of a collective. A capture shows no gradients,
so half of a bucket counts as ready half-way between the bucket before it and the whole one. The latency comes from the
capture's own collectives, where their sizes differ enough to show it.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from nsyswrap.base.intervals import Indices, Times
from nsyswrap.events.operations import COMMUNICATION
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array
from nsyswrap.what_if.communication_overlap import backward_kernels, exposed, is_reduction, step_of
from nsyswrap.what_if.saving import WhatIf, faster
from nsyswrap.what_if.simulate import Simulation


class Buckets(NamedTuple):
    """The buckets of one step of one GPU, in order of their launch; times in ns.

    Attributes:
        begun: When the backward pass began.
        over: When its last kernel ended.
        ready: When the gradients of each bucket were ready.
        length: How long the transfer of each took.
    """

    begun: int
    over: int
    ready: Times
    length: Times

    def divided(self, parts: int, latency_ns: float) -> "Buckets":
        """Return some buckets for each, as they become ready one after another, each with the latency of one."""
        before = np.concatenate([[self.begun], self.ready[:-1]])
        at = np.arange(1, parts + 1) / parts
        ready = before[:, None] + (self.ready - before)[:, None] * at
        length = np.maximum(self.length - latency_ns, 0) / parts + np.minimum(latency_ns, self.length)
        return self._replace(ready=ready.ravel(), length=np.repeat(length, parts))

    def doubled(self, latency_ns: float) -> "Buckets":
        """Return one bucket for two, with the latency of one collective."""
        first = np.arange(0, len(self.ready), 2)
        last = np.minimum(first + 1, len(self.ready) - 1)
        length = np.add.reduceat(self.length.astype(float), first) - np.where(last > first, latency_ns, 0)
        return self._replace(ready=self.ready[last], length=length)

    @property
    def end(self) -> float:
        """Return when the pass and the transfer of all buckets are over, in ns."""
        at = -np.inf
        for ready, length in zip(self.ready.tolist(), self.length.tolist(), strict=True):
            at = max(at, ready) + length
        return max(at, float(self.over))


def half_as_large(device: int, simulation: Simulation) -> WhatIf | None:
    """Return the change "buckets of half the size"; None where the latency, which they add, is not known.

    Args:
        device: The GPU whose buckets are simulated; the collectives of all GPUs get shorter by the same share.
        simulation: The run as it was.
    """
    latency = latency_ns(device, simulation)
    if latency is None:
        return None
    saved = sum(max(each.end - each.divided(2, latency).end, 0) for each in buckets_of(device, simulation))
    return _shorter(device, simulation, saved, "buckets of half the size")


def twice_as_large(device: int, simulation: Simulation) -> WhatIf | None:
    """Return the change "buckets of twice the size"; None where the latency, which they save, is not known."""
    latency = latency_ns(device, simulation)
    if latency is None:
        return None
    saved = sum(max(each.end - each.doubled(latency).end, 0) for each in buckets_of(device, simulation))
    return _shorter(device, simulation, saved, "buckets of twice the size")


def in_parts(device: int, parts: int, simulation: Simulation) -> WhatIf:
    """Return the change "each bucket in some parts"; a latency that the capture does not show counts as none."""
    latency = latency_ns(device, simulation) or 0.0
    saved = sum(max(each.end - each.divided(parts, latency).end, 0) for each in buckets_of(device, simulation))
    return _shorter(device, simulation, saved, "buckets of 25 MiB, which are sent during the backward pass")


def buckets_of(device: int, simulation: Simulation) -> Iterator[Buckets]:
    """Yield the buckets of each step of a GPU that has some.

    The gradients of a bucket are ready when the kernels of the backward pass that were launched before it have ended.
    """
    context, operations = simulation.context, simulation.context.operations
    rows, kernels = _reductions(device, simulation), backward_kernels(context, _on(device, simulation))
    launched = array(context.trace[tables.CALLS], "start")
    rows, kernels = (each[operations.call[each] >= 0] for each in (rows, kernels))
    of_rows, of_kernels = (step_of(context, each) for each in (rows, kernels))
    for number in tables.distinct(of_rows).tolist():
        mine, its = (
            each[which == number][np.argsort(launched[operations.call[each[which == number]]], kind="stable")]
            for each, which in ((rows, of_rows), (kernels, of_kernels))
        )
        if not len(its):
            continue
        at = np.searchsorted(launched[operations.call[its]], launched[operations.call[mine]])
        ended = np.concatenate([[operations.start[its].min()], np.maximum.accumulate(operations.end[its])])
        length = operations.end[mine] - simulation.collectives.begun(operations, mine)
        yield Buckets(int(ended[0]), int(ended[-1]), ended[at], length)


def _on(device: int, simulation: Simulation) -> Indices:
    ran = simulation.operations
    found: Indices = np.sort(ran[simulation.context.operations.device_id[ran] == device])
    return found


def _reductions(device: int, simulation: Simulation) -> Indices:
    context, mine = simulation.context, _on(device, simulation)
    mine = mine[context.operations.kind[mine] == COMMUNICATION]
    found: Indices = mine[is_reduction(context, mine)]
    return found


def latency_ns(device: int, simulation: Simulation) -> float | None:
    """Return what a collective takes apart from its bytes, in ns; None where the capture does not show it.

    It is what a line through sizes and median lengths leaves for no bytes. So NCCL must have recorded sizes, and the
    largest must be at least twice the smallest: between sizes that are nearly equal, noise decides.
    """
    operations, collectives = simulation.context.operations, simulation.collectives
    rows = _reductions(device, simulation)
    if not len(rows) or not len(collectives.row):
        return None
    at = np.minimum(np.searchsorted(collectives.row, rows), len(collectives.row) - 1)
    known = (collectives.row[at] == rows) & (collectives.bytes[at] > 0)
    rows, sizes = rows[known], collectives.bytes[at[known]]
    if not len(rows) or sizes.max() < 2 * sizes.min():
        return None
    length = operations.end[rows] - collectives.begun(operations, rows)
    medians = pd.Series(length).groupby(sizes).median()
    _, left = np.polyfit(medians.index.to_numpy(float), medians.to_numpy(float), 1)
    return float(min(max(left, 0.0), length.min()))


def _shorter(device: int, simulation: Simulation, saved: float, what: str) -> WhatIf:
    """Return the change in which the exposed transfer of all GPUs gets shorter by the share that one GPU saves.

    Args:
        device: The GPU.
        simulation: The run as it was.
        saved: How much its steps get shorter, in ns.
        what: The change in words.
    """
    context, collectives, ran = simulation.context, simulation.collectives, simulation.operations
    rows = ran[context.operations.kind[ran] == COMMUNICATION]
    rows = rows[is_reduction(context, rows)]
    length = np.maximum(context.operations.end[rows] - collectives.begun(context.operations, rows), 1)
    part = exposed(context, rows, collectives) / length
    whole = max(float(exposed(context, _reductions(device, simulation), collectives).sum()), 1.0)
    return faster(rows, 1 - min(saved / whole, 1.0) * part, what)
