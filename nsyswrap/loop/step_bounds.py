"""Where each step begins in a pattern that repeats: after the optimizer and the waits, at the copy of the next batch.

::

    main thread      ... adam  loss to host  wait |      copy of a batch  kernels ... backward ... adam  wait |
                                                  ^ the step begins where the last call before its first one ends
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nsyswrap.base.intervals import Indices, Times
from nsyswrap.loop.work_pattern import CONTEXT, MOST_COMPARED, TOLERANCE, Pattern, contents, row_keys
from nsyswrap.loop.work_sequence import KERNEL, TO_DEVICE, TO_HOST, UNFINISHED, WAIT, Codes, Flags, WorkSequence

# A repetition that lacks more than this share of the usual items is no step: an evaluation lacks the backward pass.
MOST_MISSING = 0.5
# Kernels are in every step; a wait or a copy may not be in the first. So another item is only taken if it is this much
# nearer.
NO_KERNEL = 4
# Number of counts in memory at a time.
MOST_COUNTS = 1 << 22


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
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, MOST_COMPARED).astype(np.intp))]
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


class StepParts(NamedTuple):
    """The steps of one process; arrays with one entry for each step, in order.

    Attributes:
        start: When it starts on the host, in ns.
        end: When it ends.
        first: Its first item of the sequence.
        after: The item after its last one.
        alike: Whether it holds the usual items, except a few.
        begun: Whether a step before the first one had begun, whose end is all that the capture holds of it, or that is
            as usual.
    """

    start: Times
    end: Times
    first: Indices
    after: Indices
    alike: Flags
    begun: bool = False


def find_parts(sequence: WorkSequence, pattern: Pattern) -> StepParts:
    """Return the steps of one process."""
    order = usual_order(sequence, pattern, np.flatnonzero(sequence.own & (sequence.kind != WAIT)))
    if order is None or not order.once(pattern.repetitions, sequence.named[order.items]).any():
        order = usual_order(sequence, pattern, np.flatnonzero(sequence.own))
    own = np.flatnonzero(sequence.own)
    if order is not None:
        position = first_position(order)
        parts = _parts(sequence, pattern, own, _first_items(sequence, pattern, order, position))
        if len(parts.start) >= pattern.repetitions / 2:
            ends = np.roll(order.codes, -position)[-CONTEXT:]
            at = int(np.searchsorted(order.items, int(parts.first[0])))
            before = sequence.named[order.items[max(at - CONTEXT, 0) : at]]
            return parts._replace(begun=len(order.codes) > CONTEXT and np.array_equal(before, ends))
    # Marks are less exact, but they are always there.
    return _parts(sequence, pattern, own, pattern.marks)


def _first_items(sequence: WorkSequence, pattern: Pattern, order: StepOrder, first: int) -> Indices:
    """Return the first item of each step, ascending.

    The item at the position ``first`` may occur more than once in a step. So the search begins at the nearest items
    that occur once, one before the position and one after it. From each, it goes to the position as far as the items
    match the usual order. The nearer one counts. The other one finds the first step, which has no step before it, and
    the steps after other work.
    """
    size, codes = len(order.codes), sequence.named[order.items]
    once = order.once(pattern.repetitions, codes)
    if not once.any():
        marks = order.marks[order.marks < len(order.items)]
        begins = _followed(codes, order.codes, marks, 0, first)
        return _with_earlier(order, codes, np.unique(order.items[begins[begins < len(codes)]]), first)
    candidates: list[tuple[int, Indices]] = []
    position = np.arange(size)
    for sign, distance in ((-1, (position - first) % size), (1, (first - 1 - position) % size)):
        reluctance = distance + np.where(order.kind == KERNEL, 0, NO_KERNEL) + np.where(once, 0, 2 * size + NO_KERNEL)
        anchor = int(np.argmin(reluctance))
        at = np.flatnonzero(codes == order.codes[anchor])
        begins = _followed(codes, order.codes, at, anchor, sign * int(distance[anchor])) + (sign > 0)
        candidates.append((int(reluctance[anchor]), np.unique(begins[begins < len(codes)])))
    heads, tails = candidates[0][1], candidates[1][1]
    heads = heads[codes[heads] == order.codes[first]]
    # A checkpoint or a log may follow the end of a step; then the next step begins at the usual first item.
    until = np.append(tails[1:], np.iinfo(np.int64).max)[: len(tails)]
    following = np.append(heads, np.iinfo(np.int64).max)[np.searchsorted(heads, tails)]
    tails = np.where((codes[tails] != order.codes[first]) & (following < until), following, tails)
    candidates = [candidates[0], (candidates[1][0], tails)]
    (_, chosen), (_, other) = sorted(candidates, key=lambda each: each[0])
    begins = _with_lone(order.items[chosen], order.items[other]) if len(chosen) and len(other) else order.items[chosen]
    return _with_earlier(order, codes, begins, first)


def _with_earlier(order: StepOrder, codes: Codes, begins: Indices, first: int) -> Indices:
    """Return where steps begin, together with the steps before the first one that no wait separates from it.

    The first step has no step before it, so what a step usually ends with may be the only item that occurs once.
    """
    size = len(order.codes)
    usual = np.bincount(order.codes, minlength=int(codes.max()) + 1)
    while len(begins):
        at = int(np.searchsorted(order.items, begins[0]))
        before = max(at - size, 0)
        held = np.bincount(codes[before:at], minlength=len(usual))
        if np.minimum(held, usual).sum() < (1 - TOLERANCE) * size or order.items[before] >= begins[0]:
            break
        same = before + np.flatnonzero(codes[before:at] == order.codes[first])
        begins = np.append(order.items[same[0] if len(same) else before], begins)
    return begins


def _with_lone(chosen: Indices, other: Indices) -> Indices:
    """Return the chosen items, and the other items that are more than half a step away from them, ascending."""
    half = float(np.median(np.diff(chosen))) / 2 if len(chosen) > 1 else 0.0
    at = np.searchsorted(chosen, other)
    before = other - np.append(chosen, 0)[at - 1]
    after = np.append(chosen, 0)[at] - other
    alone = ((at == 0) | (before > half)) & ((at == len(chosen)) | (after > half))
    return np.sort(np.concatenate([chosen, other[alone]]))


def _followed(codes: Codes, usual: Codes, at: Indices, anchor: int, away: int) -> Indices:
    """Return the item reached from each of some items by going on as far as the items match the usual order.

    Args:
        codes: Codes of all items.
        usual: Codes in the usual order; the first follows the last.
        at: The items to begin with.
        anchor: Their position in the usual order.
        away: How far to go at most; negative for back.
    """
    sign, size = int(np.sign(away)), len(usual)
    matched, same = np.zeros(len(at), np.intp), np.ones(len(at), bool)
    for distance in range(1, abs(away) + 1):
        next_one = at + sign * distance
        inside = (next_one >= 0) & (next_one < len(codes))
        same &= inside & (codes[np.where(inside, next_one, 0)] == usual[(anchor + sign * distance) % size])
        if not same.any():
            break
        matched += same
    return at + sign * matched


def _parts(sequence: WorkSequence, pattern: Pattern, own: Indices, first: Indices) -> StepParts:
    """Return the steps that begin with some items.

    A part that lacks too much of the usual content is no step. A small part is the beginning of the step after it, for
    example where a batch of two tensors is two copies.

    A step ends where the next one begins; one that is followed by other work ends with its usual number of items.
    """
    items = pattern.items
    after = np.append(first[1:], len(sequence.start))[: len(first)]
    missing, more = _differences(sequence, pattern, first, after)
    whole = missing <= MOST_MISSING
    until = _with_other_work(sequence, first, after, whole)
    more, after = np.where(until > after, np.inf, more), until
    # A small part just before a step is its beginning.
    begin = first.copy()
    for number in np.flatnonzero(whole).tolist():
        small = number - 1
        while small >= 0 and not whole[small] and first[number] - first[small] <= TOLERANCE * items:
            begin[number] = first[small]
            small -= 1
    # The first part may begin with set-up.
    whole[: int(np.argmax(whole & (more <= 1)))] = False
    begin, after, missing, more = begin[whole], after[whole], missing[whole], more[whole]
    if not len(begin):
        none = np.empty(0, np.int64)
        return StepParts(none, none, none, none, np.empty(0, bool))
    alike = (missing <= TOLERANCE) & (more <= TOLERANCE)
    # The last step has no next one, and an evaluation or a barrier may follow. It is no longer than the others.
    others = (after - begin)[:-1][alike[:-1]]
    after[-1] = min(after[-1], begin[-1] + int(others.max(initial=items)))
    start, end = _times(sequence, own, begin, after, alike)
    return StepParts(start, end, begin, after, alike)


def _times(sequence: WorkSequence, own: Indices, begin: Indices, after: Indices, alike: Flags) -> tuple[Times, Times]:
    """Return when each step starts and ends: where the last call of the step before ends, so that waits for data count.

    ``own`` are the items of the loop's thread, the others columns of ``StepParts``.
    """
    before = np.searchsorted(own, begin) - 1
    start = np.minimum(sequence.end[own[np.maximum(before, 0)]], sequence.start[begin])
    start = _after_sleeps(sequence, start, sequence.start[begin])
    # A checkpoint writes its file after its last copy, and its step ends then.
    lead = sequence.start[begin] - start
    late = np.append(False, ~alike[:-1] & (begin[1:] == after[:-1]))
    if late.any() and not late.all():
        start[late] = (sequence.start[begin] - np.minimum(lead, np.median(lead[~late]).astype(np.int64)))[late]
    # What came before the first step is set-up.
    start[0] = sequence.start[begin[0]]
    end = np.append(start[1:], 0)
    last = np.append(begin[1:] != after[:-1], True)
    calls, waits = own[sequence.kind[own] != WAIT], own[sequence.kind[own] == WAIT]
    final = calls[np.maximum(np.searchsorted(calls, after) - 1, 0)]
    # The waits after the last call of a step. After the loop there may be more of them.
    first_wait = np.searchsorted(waits, final)
    following = np.searchsorted(waits, np.append(begin[1:], len(sequence.start))) - first_wait
    usual = int(np.median(following[~last])) if not last.all() else 0
    ends = np.where(
        (following > 0) & (usual > 0), np.append(waits, 0)[first_wait + np.minimum(following, usual) - 1], final
    )
    end[last] = np.maximum(sequence.end[ends], sequence.start[begin])[last]
    # Where the capture ends in a backward pass, the last launches are on autograd's thread.
    end[-1] = max(
        end[-1], int(sequence.end[begin[-1] : after[-1]][~sequence.own[begin[-1] : after[-1]]].max(initial=0))
    )
    return start, end


def _with_other_work(sequence: WorkSequence, first: Indices, after: Indices, whole: Flags) -> Indices:
    """Return the item after each part, together with the parts after it that are no steps and compute little.

    A checkpoint copies, and a log computes a few numbers; an evaluation computes as much as a step, so it does not.
    """
    extended = after.copy()
    if not whole.any():
        return extended
    computed = np.concatenate([[0], np.cumsum(np.where(sequence.kind == KERNEL, sequence.length, 0))])
    time = computed[after] - computed[first]
    little = ~whole & (time <= MOST_MISSING * np.median(time[whole]))
    steps = np.flatnonzero(whole)
    for each, following in zip(steps[:-1].tolist(), steps[1:].tolist(), strict=True):
        if little[each + 1 : following].all():
            extended[each] = first[following]
    return extended


def _after_sleeps(sequence: WorkSequence, start: Times, first: Times) -> Times:
    """Return when each step starts. A sleep at the beginning of only some steps belongs to the step before.

    A loader that sleeps does so in each step.

    Args:
        sequence: What the process launched, and when its thread sleeps.
        start: End of the last call of the step before each step, in ns.
        first: Start of the first call of each step.
    """
    sleeps = sequence.sleeps
    if not len(sleeps.end):
        return start
    last = np.searchsorted(sleeps.end, first, side="right") - 1
    slept = (last >= 0) & (sleeps.start[np.maximum(last, 0)] >= start)
    return start if slept.mean() > MOST_MISSING else np.where(slept, sleeps.end[np.maximum(last, 0)], start)


def _differences(
    sequence: WorkSequence, pattern: Pattern, first: Indices, after: Indices
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the share of the usual items that each part lacks, and the share that it has in addition.

    The first is the largest of three shares: of all items, of kernels, and of kernels of the backward pass.
    """
    kernel, backward, unfinished = np.zeros((3, len(pattern.content)), bool)
    kernel[sequence.named[sequence.kind == KERNEL]] = True
    backward[sequence.named[sequence.foreign]] = True
    unfinished[sequence.named[sequence.kind == UNFINISHED]] = True
    masks = (np.ones_like(kernel), kernel, backward)
    sizes = [max(pattern.content[mask].sum(), 1) for mask in masks]
    missing, more = np.empty(len(first)), np.empty(len(first))
    step = max(1, MOST_COUNTS // len(pattern.content))
    for begin in range(0, len(first), step):
        some = slice(begin, begin + step)
        counts = contents(sequence.named, first[some], after[some], len(pattern.content))
        lacking = np.maximum(pattern.content - counts, 0)
        # An item that has not run may be any of the usual items.
        unknown = counts[:, unfinished].sum(axis=1)
        shares = [(lacking[:, mask].sum(axis=1) - unknown) / size for mask, size in zip(masks, sizes, strict=True)]
        missing[some] = np.maximum.reduce(shares)
        more[some] = np.maximum(counts - pattern.content, 0).sum(axis=1) / sizes[0]
    return missing, more
