"""The idle time of one device by cause, rule and phase."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.attribution.attribution import RULES, Attribution
from nsyswrap.attribution.causes import CAUSES
from nsyswrap.attribution.pieces import Pieces
from nsyswrap.base.intervals import Times
from nsyswrap.base.rows import taken
from nsyswrap.loop.phase_detection import Phases
from nsyswrap.trace import tables
from nsyswrap.trace.tables import DENSE_IDS, blocks

Codes = npt.NDArray[np.integer[Any]]


def numbered(key_of: Callable[[slice], Times], count: int, limit: int) -> tuple[Codes, Times]:
    """Return a code for each row and the key of each code, in the order in which the keys first occur.

    This is ``pd.factorize`` without the keys of all rows at once.

    Args:
        key_of: Returns the keys of a block of rows: whole numbers from 0 to ``limit`` - 1.
        count: Number of rows.
        limit: One more than the largest possible key.
    """
    if limit > DENSE_IDS:
        found, keys = pd.factorize(np.concatenate([np.empty(0, np.int64), *map(key_of, blocks(count))]))
        return found.astype(np.min_scalar_type(len(keys))), keys
    number, unique = np.full(limit, -1, np.int32), [np.empty(0, np.int64)]
    codes = np.empty(count, np.min_scalar_type(limit))
    known = 0
    for some in blocks(count):
        key = key_of(some)
        code = taken(number, key)
        fresh = pd.unique(taken(key, code < 0))
        if len(fresh):
            number[fresh] = np.arange(known, known + len(fresh))
            unique.append(fresh)
            known += len(fresh)
            code = taken(number, key)
        codes[some] = code
    return codes.astype(np.min_scalar_type(known)), np.concatenate(unique)


def sums_by_gap(codes: Codes, pieces: Pieces) -> Iterator[tuple[Codes, Times]]:
    """Yield the code and the total length of all pieces of one code in one gap, some gaps at a time."""
    first, count = 0, len(codes)
    while first < count:
        # A gap is never divided between two blocks.
        last = min(first + tables.BLOCK, count)
        last = int(np.searchsorted(pieces.gap, pieces.gap[last - 1], side="right"))
        order = first + np.argsort(codes[first:last], kind="stable")
        code, gap = taken(codes, order), taken(pieces.gap, order)
        begin = np.flatnonzero(np.append(True, (code[1:] != code[:-1]) | (gap[1:] != gap[:-1])))
        yield code[begin], np.add.reduceat(pieces.length_of(order), begin)
        first = last


class IdleAccount(NamedTuple):
    """Idle time of one cause, rule and phase, in ns, and the number of gaps that it is in."""

    cause: str
    rule: str
    phase: str
    idle_ns: int
    gap_count: int


def idle_accounts(attribution: Attribution, phases: Phases) -> tuple[IdleAccount, ...]:
    """Return the idle time of a device by cause, rule and phase, largest first."""
    pieces = attribution.pieces
    width = len(phases.names) + 1
    codes, unique = numbered(
        lambda some: (
            (attribution.rule[some].astype(np.int64) * len(CAUSES) + pieces.cause[some]) * width
            + pieces.phase[some]
            + 1
        ),
        len(pieces.start),
        len(RULES) * len(CAUSES) * width,
    )
    idle, gap_count = np.zeros(len(unique), np.int64), np.zeros(len(unique), np.intp)
    for code, length in sums_by_gap(codes, pieces):
        np.add.at(idle, code, length)
        gap_count += np.bincount(code, minlength=len(unique))
    rows = []
    for each, idle_ns, count in zip(unique.tolist(), idle.tolist(), gap_count.tolist(), strict=True):
        account, phase = divmod(each, width)
        rule, cause = divmod(account, len(CAUSES))
        rows.append(IdleAccount(CAUSES[cause], RULES[rule], phases.name(phase - 1), idle_ns, count))
    return tuple(sorted(rows, key=lambda row: (-row.idle_ns, row.rule, row.cause, row.phase)))
