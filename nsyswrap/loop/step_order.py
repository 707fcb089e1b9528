"""The usual order of the calls in a step, and the position in it at which a step begins."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nsyswrap.base.intervals import Indices
from nsyswrap.loop.work_pattern import TOLERANCE, Pattern, row_keys
from nsyswrap.loop.work_sequence import KERNEL, TO_DEVICE, TO_HOST, WAIT, Codes, Flags, WorkSequence

# Repetitions that are compared to find the usual order of the calls.
MOST_ALIKE = 64


@dataclass(frozen=True)
class StepOrder:
    """The usual order of the items of the loop's thread in a repetition, shape (k,); the first follows the last.

    Attributes:
        items: The items of the loop's thread, ascending, shape (n,): its launches; its waits too if no launch occurs
            once in a step.
        marks: The mark of each repetition as index into ``items``.
        codes: Code ``named`` of each in the usual order.
        kind: KERNEL, TO_DEVICE, TO_HOST, OTHER or WAIT.
        optimizer: Whether it is a kernel of an optimizer.
        collective: Whether it is a collective.
        gap: Median time from the end of the last call or wait of the thread before it to its start, in ns.
        waited: Whether the thread waited just before it.
        after_backward: Whether other threads launched kernels just before it.
    """

    items: Indices
    marks: Indices
    codes: Codes
    kind: npt.NDArray[np.int8]
    optimizer: Flags
    collective: Flags
    gap: npt.NDArray[np.float64]
    waited: Flags
    after_backward: Flags

    def once(self, repetitions: int, codes: Codes) -> Flags:
        """Return which items occur once, in most repetitions; a log after each second step is in half of them."""
        often: Flags = np.bincount(codes)[self.codes] >= (1 - TOLERANCE) * repetitions
        is_once: Flags = (np.bincount(self.codes)[self.codes] == 1) & often
        return is_once


def usual_order(sequence: WorkSequence, pattern: Pattern, items: Indices) -> StepOrder | None:
    """Return the most frequent order of some items of the loop's thread; None where a repetition has none."""
    marks = np.searchsorted(items, pattern.marks)
    length = np.diff(marks)
    rows = np.flatnonzero(pattern.usual & (length > 0))
    if not len(rows):
        return None
    sizes, counts = np.unique(length[rows], return_counts=True)
    size = int(sizes[np.argmax(counts)])
    rows = rows[length[rows] == size]
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, MOST_ALIKE).astype(np.intp))]
    at = marks[rows][:, None] + np.arange(size)
    _, which, times = np.unique(row_keys(sequence.named[items[at]]), return_inverse=True, return_counts=True)
    alike = at[which.ravel() == np.argmax(times)]
    own = np.flatnonzero(sequence.own)
    chosen = items[alike]
    last_call = own[np.maximum(np.searchsorted(own, chosen) - 1, 0)]
    before = items[np.maximum(alike - 1, 0)]
    foreign = np.concatenate([[0], np.cumsum(sequence.foreign)])
    model = chosen[0]
    return StepOrder(
        items=items,
        marks=marks,
        codes=sequence.named[model],
        kind=sequence.kind[model],
        optimizer=sequence.optimizer[model],
        collective=sequence.collective[model],
        gap=np.median(sequence.start[chosen] - sequence.end[last_call], axis=0),
        waited=np.median(sequence.kind[last_call] == WAIT, axis=0) > 0,
        after_backward=np.median(foreign[chosen] - foreign[before], axis=0) > 0,
    )


def first_position(order: StepOrder) -> int:
    """Return the position in the usual order at which a step begins.

    After the optimizer, or where its kernels have no name after the longest part without a backward pass: at the first
    copy to the device, else at the first kernel. Without a backward pass: at the copy, or after the wait or the copy to
    the host, that follows the longest time without a call.
    """
    size = len(order.codes)
    backward = np.flatnonzero(order.after_backward)
    if len(backward):
        length = np.diff(np.append(backward, backward[0] + size))
        parts = [np.arange(b, b + n) % size for b, n in zip(backward, length, strict=True)]
        part = max(parts, key=lambda each: (order.optimizer[each].any(), _turns(order, each), len(each)))
    elif order.optimizer.any():
        part = (np.flatnonzero(order.optimizer)[-1] + 1 + np.arange(size)) % size
    else:
        return _longest_gap(order, np.arange(size))
    last = np.flatnonzero(order.optimizer[part])
    return _after_optimizer(order, part, int(last[-1])) if len(last) else _longest_gap(order, part)


def _turns(order: StepOrder, part: Indices) -> int:
    """Return whether a part copies to the device (2), copies to the host or waits (1), or neither."""
    return int(
        max(2 * (order.kind[part] == TO_DEVICE).any(), ((order.kind[part] == TO_HOST) | order.waited[part]).any())
    )


def _after_optimizer(order: StepOrder, part: Indices, last: int) -> int:
    """Return the position at which a step begins, in a part whose last kernel of the optimizer is known."""
    rest = part[last + 1 :]
    if not len(rest):
        return int((part[-1] + 1) % len(order.codes))
    kernels = np.cumsum(order.kind[rest] == KERNEL)
    # A copy in the middle of the forward pass is not a batch.
    batches = rest[(order.kind[rest] == TO_DEVICE) & (kernels <= TOLERANCE * max(int(kernels[-1]), 1))]
    working = rest[~np.isin(order.kind[rest], (WAIT, TO_HOST))]
    if not len(batches):
        return int(working[0] if len(working) else rest[0])
    # The copy is the batch, unless it comes in the middle of the forward pass. This is so after a collective, with
    # which sharded weights are gathered. It is also so if the host took longer before another launch that follows a
    # wait: in this time, the loop turns.
    copy = int(batches[0])
    working = working[: int(np.flatnonzero(working == copy)[0]) + 1]
    turned = np.flatnonzero(order.waited[working] | (order.kind[working - 1] == TO_HOST))
    since = working[turned[-1] :] if len(turned) else working
    if order.collective[since].any():
        return int(since[0])
    return int(since[0]) if len(turned) and order.gap[since[0]] > order.gap[copy] else copy


def _longest_gap(order: StepOrder, part: Indices) -> int:
    """Return the position of a part before which the host made no call for longest; copies of batches come first."""
    kind, before = order.kind[part], order.kind[part - 1]
    begins = (kind == TO_DEVICE) & (before != TO_DEVICE)
    if not begins.any():
        begins = ((before == TO_HOST) | order.waited[part]) & ~np.isin(kind, (WAIT, TO_HOST))
    if not begins.any():
        begins = np.ones(len(part), bool)
    return int(part[begins][np.argmax(order.gap[part][begins])])
