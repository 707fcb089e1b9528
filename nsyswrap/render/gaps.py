"""Joins the rows of the table ``gaps`` into whole idle gaps, and orders the gaps by length.

The table ``gaps`` cuts a gap where its cause changes::

    gap     |------------------------|
    rows    |data_wait|cpu|  launch |      same GPU, each starts where the one before ends
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

COLUMNS = ("device_id", "start_ns", "end_ns", "rule", "cause", "phase", "evidence")


class Piece(NamedTuple):
    """A part of a gap that has one rule, cause and phase."""

    rule: str
    cause: str
    phase: str
    ns: int
    evidence: str


class Gap(NamedTuple):
    """One unbroken idle span of one GPU, ns since capture start, and its parts in order of time.

    The parts are the columns of ``Piece``, since a gap before the first step may have 100,000.
    """

    device_id: int
    start_ns: int
    end_ns: int
    columns: tuple[list[str], list[str], list[str], list[int], list[str]]

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Its parts."""
        return tuple(map(Piece, *self.columns))

    @property
    def length_ns(self) -> int:
        """Length in nanoseconds."""
        return self.end_ns - self.start_ns

    def by_rule(self) -> tuple[Piece, ...]:
        """Return one piece for each rule and phase, largest first, with cause and evidence of its longest part."""
        # Of each rule and phase: the time of all parts, that of the longest one, its cause and its evidence.
        found: dict[tuple[str, str], tuple[int, int, str, str]] = {}
        for rule, cause, phase, ns, evidence in zip(*self.columns, strict=True):
            total, most, *texts = found.get((rule, phase), (0, -1, "", ""))
            chosen = (cause, evidence) if ns > most else texts
            found[rule, phase] = (total + ns, max(ns, most), *chosen)
        whole = (Piece(rule, cause, phase, ns, text) for (rule, phase), (ns, _, cause, text) in found.items())
        return tuple(sorted(whole, key=lambda piece: (-piece.ns, piece.rule, piece.phase)))


class RankedGaps(NamedTuple):
    """The rows of a table of gaps, the gap of each row, and the gaps in order of length.

    Attributes:
        rows: The table, sorted by GPU and start.
        gap: For each row the number of its gap, shape (rows,).
        first: For each gap its first row, shape (gaps,).
        length_ns: For each gap its length, shape (gaps,).
        longest: Numbers of the longest gaps, longest first; equal ones in order of GPU and start.
    """

    rows: pd.DataFrame
    gap: npt.NDArray[np.int64]
    first: npt.NDArray[np.intp]
    length_ns: npt.NDArray[np.int64]
    longest: npt.NDArray[np.intp]


def rank(table: pd.DataFrame, most: int) -> RankedGaps:
    """Return the rows of ``gaps`` with the gap of each, and the longest gaps in order of length.

    Args:
        table: At least the columns ``device_id start_ns end_ns``; rows in any order.
        most: How many of the longest gaps are wanted.
    """
    rows = _in_order(table)
    device, start, end = (rows[name].to_numpy(np.int64) for name in COLUMNS[:3])
    opens = np.ones(len(rows), bool)
    opens[1:] = (device[1:] != device[:-1]) | (start[1:] != end[:-1])
    first = np.flatnonzero(opens)
    last = np.append(first[1:], len(rows))[: len(first)] - 1
    length = end[last] - start[first]
    least = np.partition(length, -most)[-most] if 0 < most < len(length) else np.iinfo(np.int64).min
    places = np.flatnonzero(length >= least)
    return RankedGaps(
        rows, np.cumsum(opens) - 1, first, length, places[np.argsort(-length[places], kind="stable")][:most]
    )


def _in_order(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows in order of GPU and start. The report's table is in that order already, and may be long."""
    device, start = table["device_id"].to_numpy(), table["start_ns"].to_numpy()
    later = (device[1:] > device[:-1]) | ((device[1:] == device[:-1]) & (start[1:] >= start[:-1]))
    return table if later.all() else table.iloc[np.lexsort((start, device))]


class Longest(NamedTuple):
    """The longest gaps, longest first, with the number of all gaps and their total length."""

    gaps: tuple[Gap, ...]
    gap_count: int
    total_ns: int


def longest(table: pd.DataFrame, most: int) -> Longest:
    """Return the longest gaps of all GPUs.

    Args:
        table: The table ``gaps``.
        most: Largest number of gaps.
    """
    ranked = rank(table, most)
    found = tuple(_gap(ranked, int(number)) for number in ranked.longest)
    return Longest(found, len(ranked.first), int(ranked.length_ns.sum(dtype=np.int64)))


class Cut(NamedTuple):
    """The rows of the longest gaps, and the length of the gaps that were left out."""

    rows: pd.DataFrame
    left_out_ns: int


def cut(table: pd.DataFrame, most_rows: int) -> Cut:
    """Return the rows of the longest gaps, whole gaps only, in order of GPU and time.

    Args:
        table: The table ``gaps``.
        most_rows: Largest number of rows that are kept.
    """
    if len(table) <= most_rows:
        return Cut(table, 0)
    # A gap has at least one row.
    ranked = rank(table, most_rows)
    size = np.diff(np.append(ranked.first, len(ranked.rows)))[ranked.longest]
    kept = ranked.longest[np.cumsum(size) <= most_rows]
    stays = np.zeros(len(ranked.first), bool)
    stays[kept] = True
    left_out = int(ranked.length_ns[~stays].sum(dtype=np.int64))
    return Cut(ranked.rows[stays[ranked.gap]], left_out)


def _gap(ranked: RankedGaps, number: int) -> Gap:
    begin = int(ranked.first[number])
    stop = int(ranked.first[number + 1]) if number + 1 < len(ranked.first) else len(ranked.rows)
    rows = ranked.rows.iloc[begin:stop]
    start, end = rows["start_ns"].to_numpy(np.int64), rows["end_ns"].to_numpy(np.int64)
    rule, cause, phase, evidence = (_texts(rows, name) for name in COLUMNS[3:])
    columns = (rule, cause, phase, (end - start).tolist(), evidence)
    return Gap(int(rows["device_id"].iloc[0]), int(start[0]), int(end[-1]), columns)


def _texts(rows: pd.DataFrame, name: str) -> list[str]:
    if name not in rows:
        return [""] * len(rows)
    values = rows[name]
    if isinstance(values.dtype, pd.CategoricalDtype):
        texts = [*map(str, values.cat.categories), ""]  # a missing value has code -1
        return [texts[code] for code in values.cat.codes.tolist()]
    return ["" if pd.isna(value) else str(value) for value in values.tolist()]
