"""The idle time of one device by cause, rule and phase."""

from typing import NamedTuple

import numpy as np

from nsyswrap.attribution.attribution import RULES, Attribution
from nsyswrap.attribution.causes import CAUSES
from nsyswrap.attribution.idle_codes import numbered, sums_by_gap
from nsyswrap.loop.phase_detection import Phases


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
