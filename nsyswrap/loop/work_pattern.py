"""The pattern that a process's work repeats: which item begins each repetition, and what a repetition holds.

A mark is an item that occurs once in each repetition. Its occurrences lie nearly the same number of items apart, and
what lies between two of them is nearly the same set of items. Where several patterns lie inside one another, as layers
in steps, the one that contains a round of the host is taken: a backward pass and an optimizer, a copy from or to the
host, or a wait.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Indices
from nsyswrap.loop.work_sequence import KERNEL, TO_DEVICE, TO_HOST, WAIT, Codes, Flags, WorkSequence

# Fewer repetitions are not a pattern, since a network may have as many equal layers. Source: ours.
LEAST_REPETITIONS = 4
# All repetitions together hold at least this many items: a few kernels and waits in turn may be chance. Source: ours.
LEAST_ITEMS = 40
# Distances and contents may differ by this share: a log, a skipped optimizer, another algorithm. Source: ours.
TOLERANCE = 0.25
# Share of the items, from the first repetition to the last, that the pattern explains. Source: ours: half would leave
# room for a second pattern of the same weight.
LEAST_EXPLAINED = 0.6
# Share of the items that can be predicted: the same three items before them have the same item after them elsewhere. A
# loop in which each fifth item varies still passes; items drawn at random do not. Source: ours.
LEAST_FORETOLD, CONTEXT = 0.8, 3
# A pattern is as good as the best one if it explains at most this share less of the kernels. The kernels that it does
# not explain are different work. Where each repetition has a backward pass and an optimizer, this work is an
# evaluation, however long. Where each copies to the device, it is a log. Otherwise it may be the reading of a prompt,
# or the optimizer after accumulated gradients. Source: ours.
AS_GOOD_BATCHES, AS_GOOD_ROUNDS = 0.25, 0.05
# A repetition of fewer kinds of items repeats its grids and sizes too: the upload of weights is a copy and a cast each.
FEW_KINDS = 8
# Number of patterns that are tried, largest cover first, and number of repetitions that are compared.
MOST_TRIED, MOST_COMPARED = 24, 256


@dataclass(frozen=True)
class Pattern:
    """A pattern in the work of one process.

    Attributes:
        marks: Item that begins each repetition, ascending, shape (m,); the last one ends the last repetition.
        usual: Which repetitions have about the usual number of items, shape (m - 1,).
        items: Usual number of items in a repetition.
        content: How many items of each code ``named`` a repetition holds (the median), shape (codes,).
        start_ns: When the first usual repetition begins on the host.
        end_ns: When the last one ends.
        explained: Share of the items, from the first to the last usual repetition, that it explains.
        covered: Share of the kernels there that it explains.
        backward: Number of kernels that another thread launches in a repetition.
        optimizer: Number of kernels of an optimizer in a repetition; 0 unless nearly all repetitions have some.
        batches: Number of copies to the device in a repetition.
        rounds: Number of copies from and to the host and of waits in a repetition.
    """

    marks: Indices
    usual: npt.NDArray[np.bool_]
    items: int
    content: npt.NDArray[np.float64]
    start_ns: int
    end_ns: int
    explained: float
    covered: float
    backward: float
    optimizer: float
    batches: float
    rounds: float

    @property
    def repetitions(self) -> int:
        """Return the number of usual repetitions."""
        return int(self.usual.sum())

    @property
    def is_whole(self) -> bool:
        """Return whether a repetition trains or copies a batch, which shows that it is a whole step."""
        return bool(self.backward or self.optimizer or self.batches)

    @property
    def as_good(self) -> float:
        """Return how much smaller its share of explained kernels may be than that of the best pattern."""
        if self.backward and self.optimizer:
            return 1.0
        return AS_GOOD_BATCHES if self.batches and not self.backward else AS_GOOD_ROUNDS


def find_pattern(sequence: WorkSequence) -> Pattern | None:
    """Return the pattern that one process repeats for each step; None where it repeats nothing, or it is not clear."""
    kinds = kinds_of_codes(sequence)
    patterns = [pattern for marks in _marks(sequence) if (pattern := pattern_of(sequence, marks, kinds)) is not None]
    patterns = [each for each in patterns if each.backward or each.optimizer or each.rounds]
    patterns = [each for each in patterns if each.backward] or patterns
    patterns = [each for each in patterns if each.optimizer] or patterns
    if not patterns:
        return None
    longest = max(patterns, key=lambda each: each.end_ns - each.start_ns)
    patterns = [each for each in patterns if _of_same_loop(each, longest)]
    most = max(each.covered for each in patterns)
    good = [each for each in patterns if each.covered >= (1 - each.as_good) * most]
    best = max(good, key=lambda each: (each.repetitions, each.explained))
    return best if _is_foretold(sequence, best) else None


def _of_same_loop(one: Pattern, other: Pattern) -> bool:
    """Return whether two patterns are of one loop: most of the shorter one lies in the longer one."""
    common = min(one.end_ns, other.end_ns) - max(one.start_ns, other.start_ns)
    return common > min(one.end_ns - one.start_ns, other.end_ns - other.start_ns) / 2


def _is_foretold(sequence: WorkSequence, pattern: Pattern) -> bool:
    """Return whether most items of the loop's thread follow from the three items before them."""
    inside = slice(pattern.marks[0], pattern.marks[-1])
    codes = sequence.named[inside][sequence.own[inside]]
    if len(codes) <= CONTEXT:
        return False
    size = np.int64(codes.max()) + 1
    context = pd.factorize(codes[:-2] * size + codes[1:-1])[0] * size + codes[2:]
    context = pd.factorize(context[:-1])[0].astype(np.int64)
    pairs, times = np.unique(context * size + codes[3:], return_counts=True)
    # An item that occurs once predicts nothing.
    most = np.zeros(int(context.max()) + 1, np.int64)
    np.maximum.at(most, pairs // size, np.where(times > 1, times, 0))
    return bool(most.sum() >= LEAST_FORETOLD * len(context))


@dataclass(frozen=True)
class Kinds:
    """What the items of each code ``named`` are: masks of shape (codes,)."""

    kernel: npt.NDArray[np.bool_]
    backward: npt.NDArray[np.bool_]
    optimizer: npt.NDArray[np.bool_]
    batches: npt.NDArray[np.bool_]
    to_host: npt.NDArray[np.bool_]
    rounds: npt.NDArray[np.bool_]


def kinds_of_codes(sequence: WorkSequence) -> Kinds:
    """Return what the items of each code ``named`` are."""
    codes = int(sequence.named.max()) + 1 if len(sequence.named) else 0
    first = np.zeros(codes, np.intp)
    first[sequence.named[::-1]] = np.arange(len(sequence.named))[::-1]
    kind = sequence.kind[first]
    return Kinds(
        kernel=kind == KERNEL,
        backward=sequence.foreign[first],
        optimizer=sequence.optimizer[first],
        batches=(kind == TO_DEVICE) & sequence.own[first],
        to_host=kind == TO_HOST,
        rounds=((kind == TO_DEVICE) | (kind == TO_HOST) | (kind == WAIT)) & sequence.own[first],
    )


def may_update(sequence: WorkSequence, pattern: Pattern) -> bool:
    """Return whether a repetition has kernels between its backward pass and the next batch, which may be an update."""
    between = _after_passes(sequence, slice(int(pattern.marks[0]), int(pattern.marks[-1])))[1]
    return not len(between) or bool(np.median(between) > 0)


def unnamed_updates(sequence: WorkSequence) -> Flags:
    """Return which kernels are updates of the weights by an optimizer of no known name, shape (items,).

    They lie between each backward pass and the next batch. None where their number differs.
    """
    follows, between = _after_passes(sequence, slice(0, len(sequence.start)))
    # After accumulated gradients only each k-th backward pass is followed by an update, the others by few kernels.
    more = np.maximum(between - np.median(between), 0).sum() if len(between) else 0
    return follows if more < TOLERANCE * between.sum() else np.zeros(len(follows), bool)


def _after_passes(sequence: WorkSequence, inside: slice) -> tuple[Flags, npt.NDArray[np.int64]]:
    """Return which kernels of the loop's thread lie between a backward pass and the next batch, and how many do."""
    kind, own = sequence.kind[inside], sequence.own[inside]
    kernel, follows = own & (kind == KERNEL), np.zeros(len(kind) + 1, np.int64)
    backward, batches = np.flatnonzero(sequence.foreign[inside]), np.flatnonzero(own & (kind == TO_DEVICE))
    if not len(backward) or not len(batches):
        return np.zeros(len(kind), bool), np.empty(0, np.int64)
    last = backward[np.searchsorted(backward, batches) - 1]
    is_next = (last < batches) & np.append(True, last[1:] != last[:-1])
    last, batches = last[is_next], batches[is_next]
    follows[last], follows[batches] = 1, -1
    before = np.append(0, np.cumsum(kernel))
    return kernel & (np.cumsum(follows)[:-1] > 0), before[batches] - before[last]


def _marks(sequence: WorkSequence) -> Iterator[Indices]:
    """Yield the occurrences of items that may be marks; those whose regular distances cover most items come first.

    Of several items with the same distance and number, one is enough.
    """
    own = np.flatnonzero(sequence.own)
    tried: list[tuple[float, int, int, Indices]] = []
    for codes in (sequence.exact, sequence.named):
        tried += _regular(own, codes[own])
    seen: set[tuple[int, int]] = set()
    for _, distance, count, marks in sorted(tried, key=lambda each: -each[0]):
        if (distance, count) in seen:
            continue
        seen.add((distance, count))
        yield marks
        if len(seen) == MOST_TRIED:
            return


def _regular(own: Indices, codes: Codes) -> list[tuple[float, int, int, Indices]]:
    """Return the items with nearly constant distances: covered items, median distance, number, and occurrences."""
    order = np.argsort(codes, kind="stable")
    code, at = codes[order], own[order]
    same = code[1:] == code[:-1]
    distance, group = np.diff(at)[same], code[1:][same]
    if not len(group):
        return []
    sizes = np.bincount(group)
    first = np.cumsum(sizes) - sizes
    by_length = distance[np.lexsort((distance, group))]
    middle = by_length[np.minimum(first + sizes // 2, len(by_length) - 1)]
    near = np.abs(distance - middle[group]) <= np.maximum(TOLERANCE * middle[group], 1)
    covered = np.bincount(group, weights=distance * near)
    repeated = np.bincount(group, weights=near)
    begins = np.searchsorted(code, np.arange(len(sizes) + 1))
    good = np.flatnonzero(repeated >= LEAST_REPETITIONS - 1)
    best = good[np.argsort(-covered[good], kind="stable")][: 4 * MOST_TRIED]
    return [
        (float(covered[each]), int(middle[each]), int(sizes[each]), at[begins[each] : begins[each + 1]])
        for each in best.tolist()
    ]


def pattern_of(sequence: WorkSequence, marks: Indices, kinds: Kinds) -> Pattern | None:
    """Return the pattern that begins with some marks; None where too little repeats."""
    length = np.diff(marks)
    # A mark may occur several times at the beginning of a step, as the wait for each of several copies does.
    marks = marks[np.append(length >= (1 - TOLERANCE) * _weighted_median(length), True)]
    length = np.diff(marks)
    middle = _weighted_median(length)
    usual = np.abs(length - middle) <= max(TOLERANCE * middle, 1)
    rows = np.flatnonzero(usual)
    if len(rows) < LEAST_REPETITIONS - 1:
        return None
    compared = rows[0] + np.unique(np.linspace(0, rows[-1] - rows[0], MOST_COMPARED).astype(np.intp))
    counts = contents(sequence.named, marks[compared], marks[compared + 1], len(kinds.backward))
    like = counts[usual[compared]] if usual[compared].any() else counts
    content = np.percentile(like, 50, axis=0, method="lower")
    if (len(rows) + 1) * content.sum() < LEAST_ITEMS:
        return None
    if (content > 0).sum() < FEW_KINDS and not _same_shapes(sequence, marks, rows, middle):
        return None
    explained, covered, optimizer = _explained(counts, content, kinds)
    if explained < LEAST_EXPLAINED:
        return None
    return Pattern(
        marks=marks,
        usual=usual,
        items=middle,
        content=content,
        start_ns=int(sequence.start[marks[rows[0]]]),
        end_ns=int(sequence.start[marks[rows[-1] + 1]]),
        explained=explained,
        covered=min(1.0, covered * middle / float(content.sum())),
        backward=float(content[kinds.backward].sum()),
        optimizer=optimizer,
        batches=float(content[kinds.batches].sum()),
        rounds=float(content[kinds.rounds].sum()),
    )


def _explained(
    counts: npt.NDArray[np.int64], content: npt.NDArray[np.float64], kinds: Kinds
) -> tuple[float, float, float]:
    """Return which share of all items and of the kernels a content explains, and the kernels of an optimizer in it.

    ``counts`` has the number of items of each code in each repetition, shape (repetitions, codes).
    """
    items, kernels = content.sum(), content[kinds.kernel].sum()
    of_kernels = counts[:, kinds.kernel].sum(axis=1)
    if not kernels:
        return 0.0, 0.0, 0.0
    matched = np.minimum(counts, content)
    whole = matched.sum(axis=1) >= items - max(TOLERANCE * items, 1)
    whole &= matched[:, kinds.kernel].sum(axis=1) >= (1 - TOLERANCE) * kernels
    with_optimizer = float((counts[whole][:, kinds.optimizer].sum(axis=1) > 0).mean()) if whole.any() else 0.0
    optimizer = float(content[kinds.optimizer].sum()) if with_optimizer > 1 - TOLERANCE else 0.0
    # Where each repetition has an optimizer, more work in some of them is a log, a checkpoint or an evaluation.
    size = np.where(whole & (optimizer > 0), matched.sum(axis=1), counts.sum(axis=1))
    covered = matched[whole][:, kinds.kernel].sum() / of_kernels.sum()
    return float(matched[whole].sum() / size.sum()), float(covered), optimizer


def _same_shapes(sequence: WorkSequence, marks: Indices, rows: Indices, items: int) -> bool:
    """Return whether most repetitions have the same shapes: the grids of kernels, the sizes of copies."""
    exact = sequence.exact[marks[rows[np.diff(marks)[rows] == items]][:, None] + np.arange(items)]
    alike = np.unique(row_keys(exact), return_counts=True)[1].max(initial=0)
    return bool(alike >= max(LEAST_EXPLAINED * len(rows), LEAST_REPETITIONS - 1))


def row_keys(rows: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
    """Return a number for each row of a matrix; equal rows have equal numbers, and others almost surely do not."""
    # Products wrap around; sorting whole rows instead took 3 s of a large export.
    weights = np.random.default_rng(0).integers(1, 1 << 62, rows.shape[1]) * 2 + 1
    keys: npt.NDArray[np.int64] = (rows.astype(np.int64) * weights).sum(axis=1)
    return keys


def _weighted_median(length: Indices) -> int:
    """Return the median length of the parts, weighted by length, so that many short parts hardly count."""
    order = np.sort(length)
    weight = np.cumsum(order)
    return int(order[np.searchsorted(weight, weight[-1] / 2)])


def contents(codes: Codes, first: Indices, after: Indices, size: int) -> npt.NDArray[np.int64]:
    """Return how many items of each code lie in each of some disjoint parts, shape (parts, size).

    Args:
        codes: Code of each item.
        first: First item of each part, ascending.
        after: Item after the last one of each part.
        size: Number of codes.
    """
    length = after - first
    part = np.repeat(np.arange(len(first)), length)
    at = np.arange(len(part)) - np.repeat(np.cumsum(length) - length, length) + np.repeat(first, length)
    counts = np.bincount(part * size + codes[at], minlength=len(first) * size)
    return counts.reshape(len(first), size)
