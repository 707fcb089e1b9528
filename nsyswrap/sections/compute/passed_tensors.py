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
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from nsyswrap.events.xray_record import RecordedOperator, Tensor
from nsyswrap.loop.context import TraceContext
from nsyswrap.operators.join import JoinedKernels
from nsyswrap.operators.observed_calls import OperatorCall
from nsyswrap.operators.work import read_by
from nsyswrap.sections.compute.kernel_findings import Flags
from nsyswrap.sections.compute.operator_kernels import inputs, outputs


@dataclass(slots=True)
class _Passed:
    """A tensor since it was last written.

    Attributes:
        writer: Index of the call that wrote it.
        region: Number of the neighbours that the writer belongs to.
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
    """Return which share of the bytes of each kernel fusion saves, and how many tensors are passed on in a step."""
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


def chains_of(
    context: TraceContext, joined: JoinedKernels, fusable: Flags, linked: Flags
) -> Iterable[tuple[list[RecordedOperator], list[int | None]]]:
    """Yield the operators of each chain of the forward pass, with the memory of what later operators take of it.

    A linked kernel passes a tensor on or takes one.
    """
    passes = set(np.unique(joined.call[linked]).tolist())
    for mine in in_order(context, joined):
        order = [(at, joined.calls[at]) for at in joined.call[mine].tolist()]
        can = [able and not call.role for able, (_, call) in zip(fusable[mine].tolist(), order, strict=True)]
        bounds = [-1, *(place for place, able in enumerate(can) if not able), len(order)]
        for before, after in pairwise(bounds):
            chain = order[before + 1 : after]
            operators = {id(each.forward): each.forward for _, each in chain if each.forward is not None}
            if len(operators) > 1 and any(at in passes for at, _ in chain):
                later = [each for _, each in order[after:] if not each.role]
                yield [*operators.values()], used_later([each for _, each in chain], later)


def used_later(chain: Sequence[OperatorCall], later: Sequence[OperatorCall]) -> list[int | None]:
    """Return the memory that a chain writes and later operators read, before it is written again."""
    made = {tensor.storage for call in chain for tensor in written(call)}
    found = set[int | None]()
    for call in later:
        found |= {tensor.storage for tensor in read(call)} & made
        made -= {tensor.storage for tensor in written(call)}
    return list(found)


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
        for tensor in read(call):
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


def read(call: OperatorCall) -> tuple[Tensor, ...]:
    """Return the tensors that a call reads, each once."""
    return () if call.operator is None else tuple(dict.fromkeys(read_by(call.operator)))


def written(call: OperatorCall) -> Iterable[Tensor]:
    """Return the tensors that a call writes: what it returns, or what it takes first if it changes that."""
    return inputs(call)[:1] if call.name.endswith("_") else outputs(call)
