"""The kernels of a window, each with the operator that launched it: by its place in the sequence of its step.

The sequence of launches of a thread repeats from step to step, and in the X-ray step the operators are known::

    X-ray step    gemm  add  norm  gemm  relu          each with its operator, module and line
    step 7        gemm  add  norm  gemm  relu          the same places
    step 8        gemm  add        gemm  relu  copy    by alignment; the copy is not joined

A step may do the same with other sizes, for which libraries choose other kernels. Products are then aligned by kind.

Of several X-ray steps, each step takes the one with which it has most launches in common. Sequences that are equal are
aligned once. Where a step has no counterpart, its kernels are not joined.

Between two steps there may be an evaluation: the forward pass of a step, several times. There, what is left is aligned
again, as long as that finds something.
"""

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from nsyswrap.base.intervals import Indices, Spans, Times, Window, containing
from nsyswrap.base.memo import memo
from nsyswrap.events.operations import COMPUTE, SOURCES, Operations
from nsyswrap.hardware.kernel_names.classify import classify
from nsyswrap.hardware.kernel_names.rule import Verdict
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.injected_ranges import of_operators
from nsyswrap.loop.own_windows import find_own_windows, running
from nsyswrap.loop.xray_step import split
from nsyswrap.operators.alignment import Codes, aligned, aligned_twice
from nsyswrap.operators.observed_calls import ObservedCalls, OperatorCall, find_observed
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, array, coded

Flags = npt.NDArray[np.bool_]
# A round that aligns a smaller share of what is left is the last one: the forward pass is a third of a step. Ours.
LEAST_FOUND = 0.1
# Steps with so large a share of launches of the same kind in the same order do the same. Ours.
LEAST_ALIKE = 0.9


@dataclass(frozen=True, eq=False)
class JoinedKernels:
    """The compute kernels of a window, and graphs traced as a whole: arrays of equal length.

    Attributes:
        rows: Row of each in the context's operations.
        own_ns: Time of each inside the window; time in which several run on one GPU belongs to the first to start, so
            that the sum over a GPU is the compute time of its ledger.
        call: Index into ``calls`` of the call of an operator that launched it; -1 where it is not joined.
        exact: Whether it was launched as in the X-ray step, so that shapes and work are those of that step.
        part: Its part of the work of that call.
        calls: The calls of operators in the X-ray step.
    """

    rows: Indices
    own_ns: Times
    call: Indices
    exact: Flags
    part: npt.NDArray[np.float64]
    calls: tuple[OperatorCall, ...]

    def taken(self, at: Indices) -> "JoinedKernels":
        """Return some of the kernels."""
        names = ("rows", "own_ns", "call", "exact", "part")
        return replace(self, **{name: getattr(self, name)[at] for name in names})


@dataclass(frozen=True, slots=True)
class Launchers:
    """The calls of operators that launched the operations of a context: arrays of shape (operations,).

    Attributes:
        call, exact, part, calls: As those of ``JoinedKernels``.
    """

    call: Indices
    exact: Flags
    part: npt.NDArray[np.float64]
    calls: tuple[OperatorCall, ...]


@dataclass(frozen=True, slots=True)
class _Sequences:
    """What threads launch in steps, by thread, step and start: arrays of equal length.

    Attributes:
        operation: Row of ``Operations``.
        thread: Global id of the thread.
        step: Number of the step; for launches between steps -2 less the number of the step before.
        name: Code of what was launched.
        exact: Code of that with its size.
        kind: Code of the operation of a product, whose kernel is chosen for its size; of others ``name``.
    """

    operation: Indices
    thread: Times
    step: Indices
    name: Codes
    exact: Codes
    kind: Codes

    def groups(self) -> Iterator[slice]:
        """Yield the launches of each thread in each step."""
        if len(self.thread):
            changes = (np.diff(self.thread) != 0) | (np.diff(self.step) != 0)
            bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), len(self.thread)]
            yield from map(slice, bounds[:-1], bounds[1:])


def has_operators(context: TraceContext) -> bool:
    """Return whether the capture shows which operators launched its kernels."""
    named = len(context.steps.measured) > 0 and bool(of_operators(context.trace[tables.RANGES]).any())
    return context.xray is not None or named


@memo
def find_joined(context: TraceContext, window: Window) -> JoinedKernels:
    """Return the kernels of a window with their operators."""
    rows, _ = running(context, np.flatnonzero(context.operations.kind == COMPUTE), window)
    return join_kernels(context, rows, _own_time(context, rows, window))


def join_kernels(context: TraceContext, rows: Indices, own_ns: Times) -> JoinedKernels:
    """Return kernels with their operators.

    Args:
        context: The trace, its events and its loop.
        rows: Row of each in the context's operations.
        own_ns: Time of each.
    """
    found = find_launchers(context)
    return JoinedKernels(rows, own_ns, found.call[rows], found.exact[rows], found.part[rows], found.calls)


def _last_step(context: TraceContext) -> Trace:
    """Return what the last measured step of each process did."""
    steps = context.steps.measured
    process = array(steps, "process")
    last = {int(each): steps[process == each].iloc[-1] for each in np.unique(process)}
    spans = {each: Spans(np.array([step["start"]]), np.array([step["end"]])) for each, step in last.items()}
    return split(context.trace, spans)[1]


def _own_time(context: TraceContext, rows: Indices, window: Window) -> Times:
    """Return the time of each kernel in the window that no kernel of its GPU before it takes."""
    operations, own = context.operations, find_own_windows(context, window)
    found = np.zeros(len(rows), np.int64)
    device = operations.device_id[rows]
    for each in np.unique(device).tolist():
        mine, part = np.flatnonzero(device == each), own.on(each)
        start = np.maximum(operations.start[rows[mine]], part.start_ns)
        end = np.minimum(operations.end[rows[mine]], part.end_ns)
        before = np.append(part.start_ns, np.maximum.accumulate(end)[:-1])
        found[mine] = np.maximum(end - np.maximum(start, before), 0)
    return found


@memo
def find_launchers(context: TraceContext) -> Launchers:
    """Return the calls of operators that launched the operations of all steps.

    The patterns are the X-ray steps. Without one, it is the last measured step, where ranges may name operators.
    """
    count = len(context.operations.start)
    call, exact, part = np.full(count, -1, np.intp), np.zeros(count, bool), np.zeros(count)
    observed = find_observed(context.xray or _last_step(context), context.settings.xray)
    pattern, found = _sequences(context, observed)
    patterns = _described([_Pattern.of(pattern, each) for each in pattern.groups()], observed)
    known: dict[tuple[int, bool, bytes], tuple[int, Indices, Flags] | None] = {}
    for group in found.groups():
        key = int(found.thread[group.start]), bool(found.step[group.start] < 0), found.exact[group].tobytes()
        if key not in known:
            best = _counterpart(key[0], found, group, patterns)
            align = _aligned_often if found.step[group.start] < 0 else _aligned
            known[key] = None if best is None else (best.at.start, *align(best.at, pattern, found, group))
        if (places := known[key]) is None:
            continue
        start, place, same = places
        matched = place >= 0
        mine, at = found.operation[group][matched], place[matched] + start
        call[mine], exact[mine], part[mine] = observed.call[at], same[matched], observed.part[at]
    used, code = np.unique(call[call >= 0], return_inverse=True)
    call[call >= 0] = code
    return Launchers(call, exact, part, tuple(observed.calls[each] for each in used.tolist()))


@dataclass(frozen=True, slots=True)
class _Pattern:
    """What a thread launches in an X-ray step.

    Attributes:
        thread: Global id of the thread.
        at: Its launches in the pattern.
        names, exact: How often it launches what, by name alone, and with the size.
    """

    thread: int
    at: slice
    names: "Counter[int]"
    exact: "Counter[int]"

    @classmethod
    def of(cls, sequences: _Sequences, at: slice) -> "_Pattern":
        """Return some launches as a pattern."""
        names, exact = (Counter(each[at].tolist()) for each in (sequences.name, sequences.exact))
        return cls(int(sequences.thread[at.start]), at, names, exact)

    def likeness(self, other: "_Pattern") -> tuple[int, int]:
        """Return how many launches two have in common, and how far their numbers of launches are apart, negated."""
        common = (self.names & other.names).total() + (self.exact & other.exact).total()
        return common, -abs(self.names.total() - other.names.total())


def _aligned(its: slice, pattern: _Sequences, found: _Sequences, group: slice) -> tuple[Indices, Flags]:
    """Return the place in a pattern of each launch of a step, and which are exact.

    That is ``aligned_twice``. Of a step that does the same with other sizes, equal sizes are those of other places::

        pattern    a1 b1 a2 b2 a3 b3      a1 and b1 are of the first expert of a layer, and so on
        step       a2 b2 a3 b3 a1 b1
        by kind    0  1  2  3  4  5       none is exact
    """
    place, exact = aligned_twice(pattern.exact[its], found.exact[group], pattern.name[its], found.name[group])
    if (place < 0).any():
        by_kind = aligned(pattern.kind[its], found.kind[group])
        known = by_kind >= 0
        if known.sum() > max((place >= 0).sum(), LEAST_ALIKE * max(len(place), its.stop - its.start)):
            return by_kind, known & (pattern.exact[its][by_kind] == found.exact[group])
    return place, exact


def _aligned_often(its: slice, pattern: _Sequences, found: _Sequences, group: slice) -> tuple[Indices, Flags]:
    """Return the place of each launch between steps, in parts as long as the pattern; all are exact.

    ::

        pattern       a b c d
        evaluation    a b a b a b      0 1, then 0 1 of what is left, and again
    """
    exact, length = found.exact[group], its.stop - its.start
    place, left = np.full(len(exact), -1, np.intp), np.arange(len(exact))
    while len(left):
        for part in np.split(left, np.arange(length, len(left), length)):
            place[part] = aligned(pattern.exact[its], exact[part])
        found_share, left = (place[left] >= 0).mean(), left[place[left] < 0]
        if found_share < LEAST_FOUND:
            break
    return place, place >= 0


def _described(patterns: Sequence[_Pattern], observed: ObservedCalls) -> list[_Pattern]:
    """Return the patterns of each thread whose operators PyTorch described; all of a thread where it described none.

    Of an X-ray step that repeats one before it, the capture has the ranges alone.
    """
    known = {
        each.at.start
        for each in patterns
        if any(observed.calls[call].dtypes for call in np.unique(observed.call[each.at]).tolist())
    }
    threads = {each.thread for each in patterns if each.at.start in known}
    return [each for each in patterns if each.at.start in known or each.thread not in threads]


def _counterpart(thread: int, found: _Sequences, group: slice, patterns: Sequence[_Pattern]) -> _Pattern | None:
    """Return the X-ray step of a thread that launches most of the same; None where no thread launches any of it.

    A thread without an X-ray step takes that of another one of its process.

    Args:
        thread: Global id of the thread.
        found: The launches of all steps.
        group: Those of the thread in a step.
        patterns: The X-ray steps of all threads.
    """
    process = thread & ~tables.THREAD_MASK
    own = [each for each in patterns if each.thread == thread]
    candidates = own or [each for each in patterns if each.thread & ~tables.THREAD_MASK == process]
    if len(own) == 1 or not candidates:
        return own[0] if own else None
    this = _Pattern.of(found, group)
    # The first one of those that are equally alike.
    best = max(candidates, key=lambda each: each.likeness(this))
    return best if best.likeness(this)[0] else None


def _sequences(context: TraceContext, observed: ObservedCalls) -> tuple[_Sequences, _Sequences]:
    """Return the launches of the X-ray steps, and those of all steps."""
    operations = context.operations
    step = np.full(len(operations.start), -1, np.intp)
    launched = np.flatnonzero(operations.call >= 0)
    at = array(context.trace[tables.CALLS], "start")[operations.call[launched]]
    process, start, end = (array(context.steps.frame, name) for name in ("process", "start", "end"))
    for each in tables.distinct(process).tolist():
        steps, mine = np.flatnonzero(process == each), np.flatnonzero(operations.process[launched] == each)
        place = containing(Spans(start[steps], end[steps]), at[mine])
        before = np.searchsorted(start[steps], at[mine], side="right") - 1
        is_between = (before >= 0) & (before < len(steps) - 1)
        step[launched[mine]] = np.where(place >= 0, steps[place], np.where(is_between, -2 - steps[before], -1))
    chosen = np.flatnonzero(step != -1)
    thread = coded(context.trace[tables.CALLS], "thread")[operations.call[chosen]]
    order = np.lexsort((chosen, operations.call[chosen], step[chosen], thread))
    chosen, thread = chosen[order], thread[order]
    parts = (
        _content(observed.trace, observed.operations, observed.operation),
        _content(context.trace, operations, chosen),
    )
    name, size, kind = (np.concatenate(each) for each in zip(*parts, strict=True))
    name, exact, kind = (
        tables.groups(each)[0].astype(np.int64) if len(name) else name for each in ([name], [name, size], [kind])
    )
    count = len(observed.operation)
    return (
        _Sequences(observed.operation, observed.thread, observed.step, name[:count], exact[:count], kind[:count]),
        _Sequences(chosen, thread, step[chosen], name[count:], exact[count:], kind[count:]),
    )


def _content(trace: Trace, operations: Operations, rows: Indices) -> tuple[Codes, Codes, Codes]:
    """Return what each of some operations is; its size, the grid and the block of a kernel; and its kind."""
    name, size = operations.table[rows].astype(np.int64), np.zeros(len(rows), np.int64)
    for index, spec in enumerate(SOURCES):
        mine = np.flatnonzero(operations.table[rows] == index)
        at, frame = operations.row[rows[mine]], trace[spec]
        if spec is tables.KERNELS:
            name[mine] = coded(frame, "name_id")[at] * len(SOURCES)
            size[mine] = coded(frame, "grid_blocks")[at] << 11 | coded(frame, "block_threads")[at]
        elif spec is tables.COPIES:
            name[mine] += array(frame, "copy_kind")[at].astype(np.int64) * len(SOURCES)
    # Ids of names are not negative, so the kinds of other operations are.
    name[operations.table[rows] != 0] = -1 - name[operations.table[rows] != 0]
    known, code = np.unique(name, return_inverse=True)
    kinds = [each if each < 0 else _kind(trace.text(each // len(SOURCES)), each) for each in known.tolist()]
    return name, size, np.array(kinds, np.int64)[code]


def _kind(kernel: str, name: int) -> int:
    """Return a code for the operation of a product, else that of the name."""
    found = classify(kernel)
    is_product = found.verdict in {Verdict.TENSOR, Verdict.SIMT_ELIGIBLE}
    return -(1 << 32) - zlib.crc32(found.op.encode()) if is_product else name
