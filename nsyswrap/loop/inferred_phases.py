"""The phases of a program that marks none, from what its threads launch in each step.

::

    main thread      |     copy of a batch   kernels              adam  loss to host |
    autograd thread  |                               kernels                         |
    inferred         |data|     copy     |  forward | backward | optimizer | (batch) |

Where one thread launches both passes, they cannot be distinguished: such time has only the phase "batch".
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from nsyswrap.base.intervals import Indices, Times, times
from nsyswrap.loop.work_sequence import KERNEL, TO_DEVICE, TO_HOST, UNFINISHED, WAIT, Flags, WorkSequence

DATA, COPY, FORWARD, BACKWARD, OPTIMIZER = "data", "copy", "forward", "backward", "optimizer"
# Autograd keeps its threads; the threads of DataParallel's replicas live for one step. So a thread that launches
# kernels in this share of the steps is autograd's. Source: ours; torch/csrc/autograd/engine.cpp, torch/nn/parallel.
MOST_STEPS = 0.5


class StepSpans(NamedTuple):
    """The steps of one process in order, without overlap; arrays of shape (steps,).

    Attributes:
        start: When each starts on the host, in ns.
        end: When it ends.
        alike: Whether it holds what a step usually holds.
    """

    start: Times
    end: Times
    alike: Flags


class _Runs(NamedTuple):
    """Kernels that follow one another in a step, all of the backward pass or all of other passes; shape (runs,).

    Attributes:
        step: The step.
        backward: Whether autograd's threads launched them.
        start: End of the call of the loop's thread before the first of them, or start of the step, in ns.
        end: End of the last launch.
        optimizer: Whether some are of an optimizer.
        optimized: End of the launch of the last of these.
        gathered: End of the launch of the last collective before the first of these and before the first matrix
            product or convolution; ``start`` without one.
        scaled: End of the launch of the last kernel that measures or scales gradients, before the first of an optimizer
            and before the first product; ``start`` without one.
        read: End of the last copy to the host or wait before the first kernel of an optimizer; where no kernel names
            one, before the most kernels without a read between them; 0 without one.
    """

    step: Indices
    backward: Flags
    start: Times
    end: Times
    optimizer: Flags
    optimized: Times
    gathered: Times
    scaled: Times
    read: Times


Spans = tuple[str, Times, Times]


def infer_phases(sequence: WorkSequence, steps: StepSpans, codes: Mapping[str, int]) -> pd.DataFrame:
    """Return the phases of one process: start, end (ns), thread, process, phase (code).

    A loop that waits for requests in most steps is one of a server, and has none.
    """
    step = np.searchsorted(steps.start, sequence.start, side="right") - 1
    inside = (step >= 0) & (sequence.start < steps.end[np.maximum(step, 0)])
    rows = np.flatnonzero(inside)
    phases: list[Spans] = []
    begins = np.searchsorted(sequence.requests.start, steps.start)
    ends = np.searchsorted(sequence.requests.start, steps.end)
    waits_for_requests = (ends > begins).sum() > MOST_STEPS * len(steps.start)
    if not waits_for_requests:
        copied, phases = _batches(sequence, rows, step, steps)
        phases += _passes(sequence, _runs(sequence, rows, step, np.maximum(copied, steps.start)), copied)
    parts = [
        pd.DataFrame({"start": start, "end": end, "phase": np.int32(codes[phase])}) for phase, start, end in phases
    ]
    frame = pd.concat([pd.DataFrame({"start": times([]), "end": times([]), "phase": np.empty(0, np.int32)}), *parts])
    frame = frame[frame["end"] > frame["start"]].assign(thread=sequence.thread, process=sequence.process)
    return frame.reset_index(drop=True)


def _batches(sequence: WorkSequence, rows: Indices, step: Indices, steps: StepSpans) -> tuple[Times, list[Spans]]:
    """Return when the batch of each step has been copied, its start where none is, and the phases data and copy.

    The batch is what is copied to the device before the first kernel. What the host does before that copy is data: from
    the start of the step, or from the last thing that the thread launched or waited for in it, such as the barrier
    after a checkpoint. After a step with other work, that work may have lasted until then. Where most steps copy none,
    data lasts until the batch is made.
    """
    own = rows[sequence.own[rows]]
    kernels = own[sequence.kind[own] == KERNEL]
    begins = np.searchsorted(sequence.start, steps.start)
    first_kernel = np.append(kernels, len(sequence.start))[np.searchsorted(kernels, begins)]
    copies = own[(sequence.kind[own] == TO_DEVICE) & (own < first_kernel[step[own]])]
    which, first, number = np.unique(step[copies], return_index=True, return_counts=True)
    last = copies[first + number - 1]
    following = np.append(own, own[-1:])[np.searchsorted(own, last) + 1] if len(own) else last
    waited = (sequence.kind[following] == WAIT) & (step[following] == which)
    start, end = sequence.start[copies[first]], sequence.end[np.where(waited, following, last)]
    received = _received(sequence, end, sequence.start[np.minimum(first_kernel[which], len(sequence.start) - 1)])
    copied = steps.start.copy()
    copied[which] = received
    known = (which > 0) & steps.alike[np.maximum(which - 1, 0)]
    before = np.append(own, -1)[np.searchsorted(own, copies[first]) - 1]
    begin = np.where(step[before] == which, sequence.end[before], steps.start[which])
    phases = [(DATA, begin[known], start[known]), (COPY, start, end), (DATA, end, received)]
    if len(which) < MOST_STEPS * len(copied):
        without = np.setdiff1d(np.arange(len(copied)), which)
        copied[without] = _made(sequence, own, step, steps)[without]
        known = without[(without > 0) & steps.alike[np.maximum(without - 1, 0)]]
        phases.append((DATA, steps.start[known], copied[known]))
    return copied, phases


def _made(sequence: WorkSequence, own: Indices, step: Indices, steps: StepSpans) -> Times:
    """Return when the batch of each step that copies none is made, in ns; its start where that is not known.

    The thread reads or receives it before its first kernel, or it is on the GPU: then kernels draw whole numbers before
    the first matrix product, to choose rows. Where most steps do neither, the batch may always be the same.
    """
    made, receives = steps.start.copy(), sequence.receives
    kernels = own[sequence.kind[own] == KERNEL]
    products = kernels[sequence.product[kernels]]
    which, first = np.unique(step[products], return_index=True)
    first_product = np.zeros(len(made), np.intp)
    first_product[which] = products[first]
    draws = kernels[sequence.draws[kernels]]
    draws = draws[draws < first_product[step[draws]]]
    made[step[draws]] = sequence.end[draws]
    if len(receives.end):
        which, first = np.unique(step[kernels], return_index=True)
        last = np.searchsorted(receives.end, sequence.start[kernels[first]], side="right") - 1
        inside = (last >= 0) & (receives.start[np.maximum(last, 0)] >= steps.start[which])
        made[which[inside]] = np.maximum(made[which[inside]], receives.end[last[inside]])
    return made if (made > steps.start).sum() >= MOST_STEPS * len(made) else steps.start


def _received(sequence: WorkSequence, copied: Times, kernel: Times) -> Times:
    """Return when the thread has received the batch after the one that it copied; else when that was copied, in ns.

    Accelerate, with which transformers train, takes the next batch from the loader before the step of this one::

        |  wait for batch 2  |  copy of batch 2  |  wait for batch 3  | forward ...
    """
    receives = sequence.receives
    last = np.searchsorted(receives.end, kernel, side="right") - 1
    later = (last >= 0) & (receives.start[np.maximum(last, 0)] >= copied) if len(receives.end) else last >= 0
    if not len(later) or later.mean() < MOST_STEPS:
        return copied
    return np.where(later, receives.end[np.maximum(last, 0)], copied)


def _runs(sequence: WorkSequence, rows: Indices, step: Indices, begin: Times) -> _Runs:
    """Return the runs of kernels in the steps; ``begin`` is when the passes of each step begin, in ns."""
    rows = rows[np.isin(sequence.kind[rows], (KERNEL, UNFINISHED))]
    # The threads, other than the loop's, that launch kernels in most steps.
    foreign = sequence.foreign[rows]
    pairs = pd.DataFrame({"thread": sequence.launcher[rows][foreign], "step": step[rows][foreign]}).drop_duplicates()
    count = pairs["thread"].value_counts()
    autograd = count.index[count.to_numpy() >= MOST_STEPS * len(begin)].to_numpy(np.int64)
    backward = np.isin(sequence.launcher[rows], autograd)
    change = np.append(True, (step[rows][1:] != step[rows][:-1]) | (backward[1:] != backward[:-1]))[: len(rows)]
    first = np.flatnonzero(change)
    last = np.append(first[1:], len(rows))[: len(first)] - 1
    own = np.flatnonzero(sequence.own)
    before = np.searchsorted(own, rows[first]) - 1
    called = np.where(before >= 0, sequence.end[own[np.maximum(before, 0)]], 0) if len(own) else np.zeros(len(first))
    named = sequence.optimizer[rows] & ~backward
    latest = _latest(named)
    start = np.maximum(called.astype(np.int64), begin[step[rows[first]]])
    other = np.flatnonzero(named | (sequence.product[rows] & ~backward))
    until = np.append(other, len(rows))[np.searchsorted(other, first)]

    def end_of_last(flags: Flags) -> Times:
        latest = np.append(-1, _latest(flags[rows] & ~backward))[np.minimum(until, last + 1)]
        return np.where(latest >= first, sequence.end[rows[np.maximum(latest, 0)]], start)

    first_named = np.append(np.flatnonzero(named), len(rows))[np.searchsorted(np.flatnonzero(named), first)]
    reads = np.flatnonzero(sequence.own & np.isin(sequence.kind, (WAIT, TO_HOST)))
    begins = np.where(first_named <= last, first_named, _without_reads(np.searchsorted(reads, rows), first, last))
    return _Runs(
        step=step[rows[first]],
        backward=backward[first],
        start=start,
        end=sequence.end[rows[last]],
        optimizer=latest[last] >= first,
        optimized=sequence.end[rows[np.maximum(latest[last], 0)]],
        gathered=end_of_last(sequence.collective),
        scaled=end_of_last(sequence.gradients),
        read=np.append(sequence.end[reads], 0)[np.searchsorted(reads, rows[begins]) - 1],
    )


def _without_reads(before: Indices, first: Indices, last: Indices) -> Indices:
    """Return where more than half of the kernels of each run begin that have no read between them; else its first one.

    An optimizer reads nothing between its kernels, but a loop may read the norm of each gradient before it::

        backward |  norm  read  norm  read  norm  read  lerp addcmul sqrt addcdiv lerp addcmul ...
                                                        ^

    Args:
        before: Number of reads before each kernel.
        first: First kernel of each run.
        last: Last kernel of each run.
    """
    begins = first.copy()
    change = np.append(True, before[1:] != before[:-1])[: len(before)]
    change[first] = True
    starts = np.flatnonzero(change)
    count = np.append(starts[1:], len(before)) - starts
    run = np.searchsorted(first, starts, side="right") - 1
    most = 2 * count > (last - first + 1)[run]
    begins[run[most]] = starts[most]
    return begins


def _latest(flags: Flags) -> Indices:
    """Return for each item the last one up to it that is flagged, -1 for none."""
    latest: Indices = (
        np.maximum.accumulate(np.where(flags, np.arange(len(flags)), -1)) if len(flags) else np.empty(0, np.intp)
    )
    return latest


def _passes(sequence: WorkSequence, runs: _Runs, begin: Times) -> Iterator[Spans]:
    """Yield the phases forward, backward and optimizer; ``begin`` is when the passes of each step begin, in ns."""
    size = len(runs.step)
    same = runs.step[1:] == runs.step[:-1]
    after = np.append(False, same & runs.backward[:-1])[:size] & ~runs.backward
    before = np.append(same & runs.backward[1:], False)[:size] & ~runs.backward
    ended = np.append(0, runs.end)[:size]
    # Gradients that the loop's thread sums over ranks belong to the backward pass. What a pipeline's stage sends after
    # its next microbatch does not.
    ended = np.where(after & (runs.gathered > runs.start), runs.gathered, ended)
    yield (
        BACKWARD,
        runs.start[runs.backward],
        np.maximum(runs.end, np.append(ended, 0)[1:] * np.append(after, False)[1:])[runs.backward],
    )
    next_start = np.append(runs.start, 0)[1:]
    named = runs.optimizer & after
    # Where no kernel names an optimizer, the kernels after the last backward pass of a step update the weights.
    by_hand = after & ~before & ~runs.optimizer.any()
    # What clips gradients comes before the optimizer, and so does a loss or a norm that the loop reads.
    updates = np.maximum(np.where(runs.scaled > runs.start, np.maximum(ended, runs.scaled), ended), runs.read)
    yield OPTIMIZER, updates[named], runs.optimized[named]
    yield OPTIMIZER, updates[by_hand], runs.end[by_hand]
    starts = np.where(named, runs.optimized, np.where(after, ended, begin[runs.step]))
    yield FORWARD, starts[before], next_start[before]
    everywhere = len(np.unique(runs.step)) >= MOST_STEPS * len(begin)
    training = runs.backward.any() or runs.optimizer.any() or sequence.backward_name.any()
    # Ranks that communicate may sum gradients of a backward pass on the same thread. A solver has no forward pass.
    if everywhere and sequence.network.any() and not (training or sequence.collective.any()):
        first = np.append(True, ~same)[:size]
        yield FORWARD, begin[runs.step][first], runs.end[first]
