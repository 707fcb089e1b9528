"""Whether a pattern repeats a whole step or a part of one: a layer, a micro-batch, or one network of two.

A repetition that is a part of a step has more work after each k-th one, and k is constant. So does a step with a log
after each k-th one. What this work holds shows which of both it is::

    layers        H2D embed | layer wait | layer wait | layer wait | head D2H embed | layer wait | ...
    with a log    H2D net wait | H2D net wait | H2D net wait | mean D2H | H2D net wait | ...
    with prompts  H2D prompt D2H | token D2H | token D2H | token D2H | H2D prompt D2H | token D2H | ...

A benchmark may run a network again and again and neither copy nor wait. Then nothing but these runs shows a step: all
kernels of the process repeat without exception, and a repetition holds layers itself. In a single run the input and the
output of the network would be such exceptions::

    passes        embed layer layer layer head | embed layer layer layer head | embed layer layer layer head | ...
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nsyswrap.loop.work_pattern import (
    LEAST_REPETITIONS,
    TOLERANCE,
    Kinds,
    Pattern,
    contents,
    find_pattern,
    kinds_of_codes,
    may_update,
    pattern_of,
    row_keys,
)
from nsyswrap.loop.work_sequence import KERNEL, TO_DEVICE, Codes, WorkSequence

# The largest networks have at most about this many layers. Source: 126 layers of Llama 3.1 405B, 201 of DenseNet-201.
MOST_LAYERS = 256
# A copy to the host and the wait for it.
ONE_ROUND = 2
# Number of counts in memory at a time.
MOST_COUNTS = 1 << 22


def find_step_pattern(sequence: WorkSequence) -> Pattern | None:
    """Return the pattern whose repetitions are the steps of one process; None where it is not clear that they are."""
    pattern, kinds = find_pattern(sequence), kinds_of_codes(sequence)
    if pattern is None:
        return _find_passes(sequence, kinds)
    if not pattern.backward and _is_upload(sequence, pattern, kinds):
        return None
    whole = pattern
    while (more := _regular_work(sequence, whole, kinds)) is not None and _is_part(sequence, whole, more, kinds):
        often = len(more.after) >= LEAST_REPETITIONS - 1
        longer = pattern_of(sequence, whole.marks[more.after], kinds) if often else None
        if whole.backward:
            return longer or whole
        if longer is None:
            return None
        whole = longer
    if whole is not pattern:
        return whole if whole.batches else None
    return None if more is None and _may_be_layers(sequence, pattern, kinds) else pattern


def _find_passes(sequence: WorkSequence, kinds: Kinds) -> Pattern | None:
    """Return the pattern of runs of one network with several equal layers; None where there is any other kernel."""
    kernels = np.flatnonzero(sequence.kind == KERNEL)
    period = _period(sequence.exact[kernels])
    pattern = pattern_of(sequence, kernels[::period], kinds) if period else None
    return pattern if pattern is not None and _repeats(pattern.content, kinds) else None


def _period(codes: Codes) -> int:
    """Return the smallest number of items after which all of them repeat, a whole number of times; 0 if none do."""
    sizes = np.arange(1, len(codes) // LEAST_REPETITIONS + 1)
    for size in sizes[len(codes) % sizes == 0].tolist():
        # Few sizes pass the first comparison, which is short.
        if all(np.array_equal(part[size:], part[:-size]) for part in (codes[: 2 * size], codes)):
            return int(size)
    return 0


@dataclass(frozen=True)
class _RegularWork:
    """The work that each k-th repetition holds in addition, where k is constant.

    Attributes:
        after: The repetitions that hold it, ascending.
        counts: Number of its items of each code ``named`` (the median), shape (codes,).
        is_input: Whether it copies to the device.
    """

    after: npt.NDArray[np.intp]
    counts: npt.NDArray[np.float64]
    is_input: bool


def _regular_work(sequence: WorkSequence, pattern: Pattern, kinds: Kinds) -> _RegularWork | None:
    """Return what each k-th repetition holds in addition to a whole usual one; None where there is no such k > 1.

    Where an outer repetition ends, k may differ: the last layer of a network is followed by more than the others.
    """
    marks = pattern.marks[: MOST_COUNTS // len(kinds.kernel) + 2]
    counts = contents(sequence.named, marks[:-1], marks[1:], len(kinds.kernel))
    more, lacking = np.maximum(counts - pattern.content, 0), np.maximum(pattern.content - counts, 0)
    holds = more[:, kinds.kernel].sum(axis=1) > 0
    # The work may be spread over two repetitions in a row.
    after = np.flatnonzero(holds & ~np.append(False, holds[:-1]))
    distance = np.diff(after)
    if len(after) < LEAST_REPETITIONS - 2 or (distance == np.median(distance)).mean() < 1 - TOLERANCE:
        return None
    runs = np.add.reduceat(more, after, axis=0)[: len(after) - 1]
    # A prompt is computed by other kernels than a token, and takes the place of a repetition.
    replaced = lacking[holds][:, kinds.kernel].any(axis=1).mean() > TOLERANCE and not pattern.backward
    usual = np.median(runs, axis=0)
    alike = np.unique(row_keys(runs[:, kinds.kernel]), return_counts=True)[1].max(initial=0)
    if replaced or alike < (1 - TOLERANCE) * len(runs):
        return None
    return _RegularWork(after, usual, bool(usual[kinds.batches].sum()))


def _is_part(sequence: WorkSequence, pattern: Pattern, more: _RegularWork, kinds: Kinds) -> bool:
    """Return whether a step consists of several repetitions and more work.

    A second network has a backward pass. The optimizer after accumulated gradients computes, and neither reads nor
    waits, unless the usual repetition cannot update the weights: then it may, as for the norm of the gradients.
    Without a backward pass, attention may come before several experts, and the input and output of a network before
    and after several layers. A prompt runs through layers itself, so its kernels repeat; then a repetition is whole.
    So it is if it copies a batch and the other work does not, as a log.
    """
    if pattern.backward:
        if pattern.optimizer:
            return bool(more.counts[kinds.backward].sum())
        reads = more.counts[kinds.rounds].sum() > 0 and may_update(sequence, pattern)
        return not reads and not more.counts[kinds.backward].sum()
    return not _repeats(more.counts, kinds) and (more.is_input or not pattern.batches)


def _repeats(counts: npt.NDArray[np.float64], kinds: Kinds) -> bool:
    """Return whether the kernels of some work repeat, as those of a whole network with several equal layers do."""
    kernels = counts[kinds.kernel]
    return bool(kernels.sum() >= LEAST_REPETITIONS * np.count_nonzero(kernels))


def _may_be_layers(sequence: WorkSequence, pattern: Pattern, kinds: Kinds) -> bool:
    """Return whether the repetitions may be the layers of one pass, where each layer waits.

    They are at most as many as a network has layers. Nothing is copied to the device in them. Other kernels run just
    before the first one and just after the last one: the input and the output of the network. A repetition that holds
    layers itself, and reads or waits once, is a pass.
    """
    is_pass = _repeats(pattern.content, kinds) and pattern.rounds <= ONE_ROUND
    if pattern.is_whole or pattern.repetitions > MOST_LAYERS or is_pass:
        return False
    usual = np.flatnonzero(pattern.usual)
    first, last = int(pattern.marks[usual[0]]), int(pattern.marks[usual[-1]])

    def others(begin: int, end: int) -> bool:
        inside = slice(max(begin, 0), end)
        codes = sequence.named[inside][sequence.kind[inside] == KERNEL]
        return bool((pattern.content[codes] == 0).any()) if len(codes) else False

    return others(first - pattern.items, first) and others(last, last + 3 * pattern.items)


def _is_upload(sequence: WorkSequence, pattern: Pattern, kinds: Kinds) -> bool:
    """Return whether the repetitions copy weights to the device: nothing comes back, and copies take longest.

    Kernels that only convert what was copied run at the speed of the GPU's memory, which is many times that of a copy.
    """
    if not pattern.batches or pattern.content[kinds.to_host].sum():
        return False
    inside = slice(int(pattern.marks[0]), int(pattern.marks[-1]))
    kind, length = sequence.kind[inside], sequence.length[inside]
    return bool(length[kind == TO_DEVICE].sum() > length[kind == KERNEL].sum())
