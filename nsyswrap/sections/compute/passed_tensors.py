"""Tensors that one kernel passes to the next ones through the memory, by what the X-ray step shows of each operator.

::

    product -> a    mul(a) -> b    tanh(b) -> c    add(c, a) -> d    product(d)        a backward operator reads c
                       written, read: saved
                                      read: saved; written for the backward pass
    fused                [ mul, tanh, add: reads a, writes c and d ]

A compiler makes one kernel of neighbours that it can fuse: those between two operators that it cannot fuse, such as
products. What one of them writes and others of them read is not read by these, nor written if nothing else reads it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from nsyswrap.events.xray_record import Tensor
from nsyswrap.loop.context import TraceContext
from nsyswrap.operators.join import JoinedKernels
from nsyswrap.operators.observed_calls import OperatorCall
from nsyswrap.operators.work import OVERWRITES, plain
from nsyswrap.sections.compute.operator_kernels import Flags, inputs, outputs


@dataclass(slots=True)
class _Passed:
    """A tensor since it was last written.

    Attributes:
        writer: Index of the call that wrote it.
        region: Number of the neighbours that the writer belongs to.
        size: Its bytes.
        readers: The calls that read it: index, region, whether it can be fused, and the bytes that it reads.
    """

    writer: int
    region: int
    size: int
    readers: list[tuple[int, int, bool, int]] = field(default_factory=list)

    def saved(self) -> Iterable[tuple[int, int]]:
        """Yield the bytes that fusion saves, by call."""
        near = [(call, size) for call, region, fusable, size in self.readers if fusable and region == self.region]
        yield from near
        if near and len(near) == len(self.readers):
            yield self.writer, self.size


def saved_shares(context: TraceContext, joined: JoinedKernels, fusable: Flags) -> tuple[npt.NDArray[np.float64], int]:
    """Return which share of the bytes of each kernel fusion saves, and how many tensors are passed on in a step.

    Args:
        context: The trace, its events and its loop.
        joined: The kernels with their operators.
        fusable: Whether a compiler can fuse each kernel.
    """
    can = np.ones(len(joined.calls), np.bool_)
    can[joined.call[~fusable & (joined.call >= 0)]] = False
    saved: Counter[int] = Counter()
    passed = 0
    for mine in in_order(context, joined):
        phase = context.phase_of_operations[joined.rows[mine]].tolist()
        for tensor in _tensors(joined.calls, joined.call[mine].tolist(), can.tolist(), phase):
            found = list(tensor.saved())
            saved.update(dict(found))
            passed += bool(found)
    share = np.zeros(len(joined.calls) + 1)
    for at, size in saved.items():
        work = joined.calls[at].work
        share[at] = min(size / work.bytes, 1.0) if work is not None and work.bytes else 0.0
    return np.where(joined.exact, share[joined.call], 0.0), passed


def in_order(context: TraceContext, joined: JoinedKernels) -> Iterable[npt.NDArray[np.intp]]:
    """Yield the last kernel of each call, in the order in which the GPU ran them, for each GPU."""
    device = context.operations.device_id[joined.rows]
    known = np.flatnonzero(joined.call >= 0)
    for each in np.unique(device[known]).tolist():
        mine = known[device[known] == each]
        mine = mine[np.argsort(joined.rows[mine], kind="stable")]
        _, last = np.unique(joined.call[mine][::-1], return_index=True)
        yield np.sort(mine[::-1][last])


def _tensors(
    calls: Sequence[OperatorCall], order: Sequence[int], can: Sequence[bool], phase: Sequence[int]
) -> Iterable[_Passed]:
    """Yield all that neighbours write, each with its readers until its memory is written again."""
    current: dict[int, _Passed] = {}
    region, before = 0, None
    for at, part in zip(order, phase, strict=True):
        call = calls[at]
        region += (call.role, part) != before or not can[at]
        before = (call.role, part)
        for tensor in _read(call):
            if tensor.storage in current:
                current[tensor.storage].readers.append((at, region, can[at], tensor.bytes or 0))
        for tensor in written(call):
            if tensor.storage is None:
                continue
            if tensor.storage in current:
                yield current.pop(tensor.storage)
            if can[at]:
                current[tensor.storage] = _Passed(at, region, tensor.bytes or 0)
        region += not can[at]
    yield from current.values()


def _read(call: OperatorCall) -> Iterable[Tensor]:
    """Return the tensors that an operator reads, each once."""
    taken = inputs(call)[1 if plain(call.name) in OVERWRITES else 0 :]
    return dict.fromkeys(taken)


def written(call: OperatorCall) -> Iterable[Tensor]:
    """Return the tensors that a call writes: what it returns, or what it takes first if it changes that."""
    return inputs(call)[:1] if call.name.endswith("_") else outputs(call)
