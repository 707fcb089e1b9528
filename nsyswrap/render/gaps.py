"""Joins the rows of the table ``gaps`` into whole idle gaps, and orders the gaps by length.

The table ``gaps`` cuts a gap where its cause changes::

    gap     |------------------------|
    rows    |data_wait|cpu|  launch |      same GPU, each starts where the one before ends
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from nsyswrap.base.intervals import Indices, Times


class Piece(NamedTuple):
    """A part of a gap that has one rule, cause and phase."""

    rule: str
    cause: str
    phase: str
    ns: int
    evidence: str


class Gap(NamedTuple):
    """One unbroken idle span of one GPU, ns since capture start.

    Attributes:
        start_ns, end_ns: The span.
        pieces: One for each rule and phase, largest first, with cause and evidence of its longest part.
    """

    device_id: int
    start_ns: int
    end_ns: int
    pieces: tuple[Piece, ...]

    @property
    def length_ns(self) -> int:
        """Length in nanoseconds."""
        return self.end_ns - self.start_ns


class Longest(NamedTuple):
    """The longest gaps, longest first, with the number of all gaps and their total length."""

    gaps: tuple[Gap, ...]
    gap_count: int
    total_ns: int


def longest(table: pd.DataFrame, most: int) -> Longest:
    """Return the longest gaps of all GPUs; equal ones in order of GPU and start."""
    rows, first, length = _joined(table)
    bounds = [*first.tolist(), len(rows)]
    numbers = _longest_first(length, most).tolist()
    found = tuple(_gap(rows.iloc[bounds[number] : bounds[number + 1]]) for number in numbers)
    return Longest(found, len(first), int(length.sum(dtype=np.int64)))


def cut(table: pd.DataFrame, most_rows: int) -> tuple[pd.DataFrame, int]:
    """Return the rows of the longest gaps, whole gaps only, in order of GPU and time, and the length of all others."""
    if len(table) <= most_rows:
        return table, 0
    rows, first, length = _joined(table)
    size = np.diff(np.append(first, len(rows)))
    ranked = _longest_first(length, most_rows)
    stays = np.zeros(len(first), bool)
    stays[ranked[np.cumsum(size[ranked]) <= most_rows]] = True
    return rows[np.repeat(stays, size)], int(length[~stays].sum(dtype=np.int64))


def _longest_first(length: Times, most: int) -> Indices:
    """Return the numbers of the longest gaps, longest first, equal ones in order; ``most`` of them."""
    at = max(len(length) - most, 0)
    rows = np.flatnonzero(length >= np.partition(length, at)[at]) if at and most else np.arange(len(length))
    return rows[np.argsort(-length[rows], kind="stable")][:most]


def _joined(table: pd.DataFrame) -> tuple[pd.DataFrame, Indices, Times]:
    """Return the rows in order of GPU and start, and the first row and the length of each gap."""
    device, start, end = (table[name].to_numpy(np.int64) for name in ("device_id", "start_ns", "end_ns"))
    # The report's table is in that order already, and may be long.
    if not ((device[1:] > device[:-1]) | ((device[1:] == device[:-1]) & (start[1:] >= start[:-1]))).all():
        return _joined(table.iloc[np.lexsort((start, device))])
    opens = (device[1:] != device[:-1]) | (start[1:] != end[:-1])
    first = np.flatnonzero(np.append(len(table) > 0, opens))
    return table, first, end[np.append(first[1:], len(table))[: len(first)] - 1] - start[first]


def _gap(rows: pd.DataFrame) -> Gap:
    start, end = rows["start_ns"].to_numpy(np.int64), rows["end_ns"].to_numpy(np.int64)
    # Of each rule and phase: the time of all parts, that of the longest one, its cause and its evidence.
    found: dict[tuple[str, str], tuple[int, int, str, str]] = {}
    texts = (_texts(rows, name) for name in ("rule", "phase", "cause", "evidence"))
    for rule, phase, cause, evidence, ns in zip(*texts, (end - start).tolist(), strict=True):
        total, most, *those = found.get((rule, phase), (0, -1, "", ""))
        chosen = (cause, evidence) if ns > most else those
        found[rule, phase] = (total + ns, max(ns, most), *chosen)
    pieces = [Piece(rule, cause, phase, ns, text) for (rule, phase), (ns, _, cause, text) in found.items()]
    pieces.sort(key=lambda piece: (-piece.ns, piece.rule, piece.phase))
    return Gap(int(rows["device_id"].iloc[0]), int(start[0]), int(end[-1]), tuple(pieces))


def _texts(rows: pd.DataFrame, name: str) -> list[str]:
    if name not in rows:
        return [""] * len(rows)
    values = rows[name]
    if isinstance(values.dtype, pd.CategoricalDtype):
        texts = [*map(str, values.cat.categories), ""]  # a missing value has code -1
        return [texts[code] for code in values.cat.codes.tolist()]
    return ["" if pd.isna(value) else str(value) for value in values.tolist()]
