"""The turns of a training loop: forward pass, backward pass, update of the weights, whatever kernels they run.

Inputs of other shapes have kernels of other names, recurrent networks other numbers of them, and an evaluation or the
games of an agent may lie between any two steps. What stays is the turn: kernels of autograd's thread, then kernels of
an optimizer. So the work is also compared with all kernels of one pass as one item::

    work      H2D cast conv relu conv relu loss | conv_bwd relu_bwd ... | adam adam | D2H wait | H2D cast conv ...
    turns     H2D             kernels           |        backward       | optimizer | D2H wait | H2D     kernels
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Indices
from nsyswrap.loop.nested_pattern import find_step_pattern
from nsyswrap.loop.step_bounds import StepParts, find_parts
from nsyswrap.loop.step_detection import WARM_UP_STEPS
from nsyswrap.loop.work_pattern import (
    LEAST_EXPLAINED,
    LEAST_REPETITIONS,
    TOLERANCE,
    Pattern,
    contents,
    kinds_of_codes,
    row_keys,
    unnamed_updates,
)
from nsyswrap.loop.work_sequence import FLAGS, KERNEL, OTHER, TO_DEVICE, UNFINISHED, Flags, WorkSequence

# Codes of turns beside the kinds of items.
_BACKWARD, _OPTIMIZER = UNFINISHED + 1, UNFINISHED + 2
# The range of sizes that holds most steps.
MOST = (0.05, 0.95)
# At most this share of the steps has more updates than the others: the first may hold set-up. Source: ours.
MOST_UNEVEN = 0.1


@dataclass(frozen=True, slots=True)
class FoundSteps:
    """The steps of one process."""

    pattern: Pattern
    parts: StepParts
    by_turns: bool = False

    @property
    def usual_items(self) -> npt.NDArray[np.int64]:
        """Return how many items a step has: of most steps by turns the fewest and the most, else the usual number."""
        if not self.by_turns:
            return np.array([self.pattern.items], np.int64)
        items: npt.NDArray[np.int64] = np.quantile(self.parts.after - self.parts.first, MOST, method="nearest")
        return items


@dataclass(frozen=True, slots=True)
class Updates:
    """The updates of the weights of one process, in order; arrays of shape (updates,).

    An update is all kernels of an optimizer from one backward pass to the next one.

    Attributes:
        first: The first item after the update before it.
        begin: Its first kernel.
        last: Its last kernel.
        has_batch: Whether a copy to the device lies between the update before it and its last backward pass.
        network: Code of the set of kernels of its backward passes: other networks have other kernels.
    """

    first: Indices
    begin: Indices
    last: Indices
    has_batch: Flags
    network: npt.NDArray[np.intp]


def find_step_parts(sequence: WorkSequence) -> FoundSteps | None:
    """Return the steps of one process; None where it is not clear what a step is.

    Where the steps that kernels with the same names show do not fit the updates of the weights, those by turns count.
    Where there are too few updates for turns, and steps that train lack one, these are parts of a step, such as the
    batches of a pipeline, or those whose gradients are accumulated.
    """
    named = _by_names(sequence)
    updates = find_updates(sequence)
    fits = named is not None and _fits(named.parts, updates)
    if len(updates.last) < LEAST_REPETITIONS:
        return None if named is not None and _has_parts_of_steps(named, sequence, updates) and not fits else named
    if fits and named is not None and not _misses(named.parts, updates):
        return named
    return _by_turns(sequence, updates) or (named if fits else None)


def _by_names(sequence: WorkSequence) -> FoundSteps | None:
    """Return the steps that hold kernels of the same names; None where too few do.

    Where only waits show what a repetition is, it must also be most of the work: a script that tries one function after
    another waits after each call.
    """
    pattern = find_step_pattern(sequence)
    if pattern is None:
        return None
    parts = find_parts(sequence, pattern)
    few = len(parts.start) < LEAST_REPETITIONS or parts.alike.mean() < LEAST_EXPLAINED
    lesser = not pattern.is_whole and (pattern.repetitions + 1) * pattern.items < len(sequence.start) / 2
    return None if few or lesser else FoundSteps(pattern, parts)


def find_updates(sequence: WorkSequence) -> Updates:
    """Return the updates of the weights of one process: kernels of an optimizer after a backward pass.

    None where autograd's threads launch most kernels of the optimizer, for then an update is not a part of its own.
    Where no kernel has the name of an optimizer, the kernels between each backward pass and the next batch count.
    """
    backward, kernels = sequence.foreign & ~sequence.optimizer, sequence.own & sequence.optimizer
    if kernels.sum() <= (sequence.foreign & sequence.optimizer).sum() or not backward.any():
        kernels = np.zeros(len(kernels), bool)
    if not sequence.optimizer.any():
        kernels = unnamed_updates(sequence)
    passes = np.cumsum(backward)
    rows = np.flatnonzero(kernels & (passes > 0))
    is_last = np.append(passes[rows][1:] != passes[rows][:-1], True)[: len(rows)]
    is_first = np.append(True, is_last[:-1])[: len(rows)]
    begin, last = rows[is_first], rows[is_last]
    first = np.append(0, last[:-1] + 1)[: len(last)]
    batches = np.append(0, np.cumsum((sequence.kind == TO_DEVICE) & sequence.own))
    of_backward = np.flatnonzero(backward)
    its_pass = of_backward[np.searchsorted(of_backward, begin) - 1] if len(begin) else begin
    codes = sequence.named[of_backward]
    begins, ends = (np.searchsorted(of_backward, each) for each in (first, last))
    counts = contents(codes, begins, ends, int(codes.max(initial=0)) + 1)
    networks: npt.NDArray[np.intp] = pd.factorize(row_keys((counts > 0).astype(np.int64)))[0]
    return Updates(first, begin, last, batches[its_pass] > batches[first], networks)


class _Placed(NamedTuple):
    """Where the updates of the weights lie relative to some steps.

    Attributes:
        inside: Which updates lie between the begin of the first step and the end of the last one.
        between: How many of these are in no step.
        counts: How many are in each step.
        usual: How many are in most steps.
    """

    inside: Flags
    between: int
    counts: npt.NDArray[np.intp]
    usual: int


def _placed(parts: StepParts, updates: Updates) -> _Placed:
    """Return where the updates lie relative to the steps; at least one step is needed."""
    inside = (updates.last >= parts.first[0]) & (updates.last < parts.after[-1])
    step = np.searchsorted(parts.first, updates.last[inside], side="right") - 1
    taken = updates.last[inside] < parts.after[step]
    count = np.bincount(step[taken], minlength=len(parts.first))
    return _Placed(inside, int((~taken).sum()), count, int(np.bincount(count).argmax()))


def _fits(parts: StepParts, updates: Updates) -> bool:
    """Return whether each step has the same number of updates, and several only where they make up one step.

    They do where networks take turns, or where one trains on the batch of another.
    """
    if not len(parts.first):
        return False
    inside, between, count, usual = _placed(parts, updates)
    if not usual or between + (count > usual).sum() > MOST_UNEVEN * len(count):
        return False
    rows, networks = np.flatnonzero(inside), updates.network
    same_network = networks[rows][1:] == networks[rows][:-1]
    return usual == 1 or not (updates.has_batch[rows].all() and same_network.mean() > 1 - MOST_UNEVEN)


def _has_parts_of_steps(found: FoundSteps, sequence: WorkSequence, updates: Updates) -> bool:
    """Return whether what repeats trains, and some updates lie between the first and the last repetition.

    Updates by an optimizer of no known name are found by the batches after them. Where the repetition has no batch,
    they are found in set-up only, and say nothing.
    """
    known = sequence.optimizer.any() or found.pattern.batches
    return bool(known and found.pattern.backward and _placed(found.parts, updates).inside.any())


def _misses(parts: StepParts, updates: Updates) -> bool:
    """Return whether more than a few updates of the networks in the steps have no step, as have those of a warm-up."""
    inside, between, count, usual = _placed(parts, updates)
    outside = int((~inside & np.isin(updates.network, updates.network[inside])).sum())
    missed = outside + between + int(np.maximum(count - usual, 0).sum())
    return bool(missed > max(MOST_UNEVEN * (outside + inside.sum()), WARM_UP_STEPS))


def _by_turns(sequence: WorkSequence, updates: Updates) -> FoundSteps | None:
    """Return the steps by turns; None where they do not fit the updates either."""
    turns, first = _turns(sequence, updates)
    pattern = _pattern_of_turns(turns)
    if pattern is None:
        return None
    parts = find_parts(turns, pattern)
    first = np.append(first, len(sequence.start))
    whole = parts._replace(first=first[parts.first], after=first[parts.after])
    if not _fits(whole, updates):
        return None
    return FoundSteps(pattern, whole, by_turns=True)


def _pattern_of_turns(turns: WorkSequence) -> Pattern | None:
    """Return the pattern of turns from one update to the next; None where they are too few."""
    marks = np.flatnonzero(turns.optimizer)
    length = np.diff(marks)
    if len(length) < LEAST_REPETITIONS - 1:
        return None
    items = int(np.median(length))
    usual = np.abs(length - items) <= max(TOLERANCE * items, 1)
    rows = np.flatnonzero(usual)
    kinds = kinds_of_codes(turns)
    counts = contents(turns.named, marks[:-1], marks[1:], len(kinds.kernel))
    content = np.percentile(counts[usual] if len(rows) else counts, 50, axis=0, method="lower")
    rows = rows if len(rows) else np.arange(len(length))
    return Pattern(
        marks=marks,
        usual=usual,
        items=items,
        content=content,
        start_ns=int(turns.start[marks[rows[0]]]),
        end_ns=int(turns.start[marks[rows[-1] + 1]]),
        explained=float(usual.mean()),
        covered=float(usual.mean()),
        backward=float(content[kinds.backward].sum()),
        optimizer=float(content[kinds.optimizer].sum()),
        batches=float(content[kinds.batches].sum()),
        rounds=float(content[kinds.rounds].sum()),
    )


def _turns(sequence: WorkSequence, updates: Updates) -> tuple[WorkSequence, Indices]:
    """Return the turns of a process, and the first item of each: items of one code in a row are one item.

    What lies between the kernels of one update is a part of it. Copies on the device, memsets and the work of unrelated
    threads are left out.
    """
    code = np.where(sequence.foreign, _BACKWARD, sequence.kind).astype(np.int32)
    inside = np.zeros(len(code) + 1, np.int64)
    np.add.at(inside, updates.begin, 1)
    np.add.at(inside, updates.last + 1, -1)
    code[np.cumsum(inside)[:-1] > 0] = _OPTIMIZER
    rows = np.flatnonzero((sequence.own & (code != OTHER)) | (code == _BACKWARD) | (code == _OPTIMIZER))
    begins = np.append(True, code[rows][1:] != code[rows][:-1])[: len(rows)]
    at = np.flatnonzero(begins)
    chosen, ends = rows[at], rows[np.append(at[1:], len(rows))[: len(at)] - 1]
    code = code[chosen]
    turns = replace(
        sequence,
        start=sequence.start[chosen],
        end=sequence.end[ends],
        length=np.add.reduceat(sequence.length[rows], at) if len(at) else at,
        operation=sequence.operation[chosen],
        launcher=np.where(code == _BACKWARD, sequence.launcher[chosen], sequence.thread),
        kind=np.where(code >= _BACKWARD, KERNEL, code).astype(np.int8),
        exact=code,
        named=code,
        foreign=code == _BACKWARD,
        **{**dict.fromkeys(FLAGS, np.zeros(len(code), bool)), "optimizer": code == _OPTIMIZER},
    )
    return turns, chosen
