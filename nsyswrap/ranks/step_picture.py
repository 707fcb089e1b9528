"""One step of a job as a picture: what each rank did, and its collectives from arrival to end.

The axis of the step is cut into equal bins. A rank's bin belongs to what takes most of it: waiting, transfer, or else a
phase. Neighbouring bins that belong together are one segment, which has the exact time of each kind of work in it::

    rank 0    |forward |   backward   |.... wait ....|transfer|opt|
    rank 1    |.. data ..|forward |    backward      |transfer|opt|
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Indices, Times
from nsyswrap.loop.context import TraceContext
from nsyswrap.ranks.activity import (
    CLEARS,
    COMPUTES,
    COPIES,
    TRANSFERS,
    USUAL,
    WAITS,
    Activity,
)
from nsyswrap.ranks.collectives import Collectives
from nsyswrap.ranks.identity import Rank
from nsyswrap.ranks.job_steps import JobSteps
from nsyswrap.ranks.lateness import Lateness

# Bins of the axis of a step. Ours: 4 pixels each on a wide page, which is the narrowest bar that shows a colour.
BINS = 240
# Collectives of a step with a row for each rank, the longest first. Ours: a step of many layers has hundreds.
MOST_COLLECTIVES = 24

COMPUTE, COPY, WAIT, TRANSFER, IDLE = "compute", "copies", "wait", "transfer", "idle"
KINDS = (COMPUTE, COPY, TRANSFER, WAIT, IDLE)
"""The kinds of a rank's time in a segment, in the order of a stack from its bottom."""

SEGMENTS = (
    *("step", "rank", "start_ns", "end_ns", "what", "phase", *(f"{kind}_ns" for kind in KINDS)),
    *("rule", "waits_for_rank"),
)
COLLECTIVES = ("step", "collective", "rank", "start_ns", "arrival_ns", "end_ns", "kind", "is_last")
_KIND_OF = {COMPUTES: COMPUTE, WAITS: WAIT, TRANSFERS: TRANSFER, COPIES: COPY, CLEARS: COPY}
PHASE = "phase"
NO_RANK = -1


@dataclass(frozen=True)
class Accounts:
    """The accounts of one rank in a step: arrays of one value for each account.

    Attributes:
        kind: Index into ``KINDS``.
        rule: Rule of its idle time; empty for other time.
        phase: Phase code; -1 for none.
        time: Time in each bin in ns, shape (bins, accounts).
    """

    kind: Indices
    rule: tuple[str, ...]
    phase: Indices
    time: npt.NDArray[np.int64]

    def of_kinds(self, first: int, last: int) -> list[int]:
        """Return the time of each of ``KINDS`` in the bins from one to before another, in ns."""
        sums = self.time[first:last].sum(axis=0)
        return [int(sums[self.kind == kind].sum()) for kind in range(len(KINDS))]

    def idle_rule(self, first: int, last: int) -> str:
        """Return the rule of most of the idle time in the same bins; empty without idle time."""
        sums: dict[str, int] = {}
        for rule, ns in zip(self.rule, self.time[first:last].sum(axis=0).tolist(), strict=True):
            if rule and ns:
                sums[rule] = sums.get(rule, 0) + ns
        return max(sorted(sums), key=lambda rule: sums[rule], default="")


def find_segments(  # noqa: PLR0913, PLR0917 - one argument a source
    context: TraceContext,
    collectives: Collectives,
    lateness: Lateness,
    steps: JobSteps,
    step: int,
    shown: Sequence[Rank],
) -> pd.DataFrame:
    """Return what some ranks did in one step: a row for each segment, with the columns ``SEGMENTS``.

    Args:
        context: The trace, its events and its loop.
        collectives: The collectives of all ranks.
        lateness: What each rank did.
        steps: The steps of the job.
        step: Number of the step among them.
        shown: The ranks.
    """
    axis = np.linspace(int(steps.begin[step].min()), int(steps.end[step].max()), BINS + 1).round().astype(np.int64)
    rows: list[tuple[object, ...]] = []
    for rank in shown:
        place, activity = steps.ranks.index(rank), lateness.activities.get(rank.device_id)
        if activity is None:
            continue
        begin, end = int(steps.begin[step, place]), int(steps.end[step, place])
        inner = axis[(axis > begin) & (axis < end)]
        edges = np.concatenate([[begin], inner, [end]]).astype(np.int64)
        accounts = _accounts(activity, edges, len(context.phases.names))
        about = (steps.names[step], rank.number)
        for segment in _segments(context, accounts, edges):
            late = _last_rank(collectives, rank.device_id, segment[0], segment[1]) if segment[2] == WAIT else NO_RANK
            rows.append((*about, *segment, late))
    return pd.DataFrame(rows, columns=list(SEGMENTS))


def _accounts(activity: Activity, edges: Times, phases: int) -> Accounts:
    """Return the accounts of one rank in the bins between some edges."""
    named = activity.named(phases)
    kinds = [_KIND_OF.get(rule, IDLE) for rule, _ in named]
    rules = (rule.removeprefix(USUAL) for rule, _ in named)
    return Accounts(
        np.array([KINDS.index(kind) for kind in kinds], np.intp),
        tuple(rule if kind == IDLE else "" for rule, kind in zip(rules, kinds, strict=True)),
        np.array([phase for _, phase in named], np.intp),
        np.diff(activity.until(int(edges[0]), edges), axis=0),
    )


def _last_rank(collectives: Collectives, device: int, start: int, end: int) -> int:
    """Return the rank that arrived last at the collective in which a GPU waits longest between two times, in ns."""
    mine = collectives.on(device)
    waits = np.minimum(collectives.arrival[mine], end) - np.maximum(collectives.start[mine], start)
    if not len(waits) or waits.max() <= 0:
        return NO_RANK
    last = collectives.last[mine[np.argmax(waits)]]
    number = collectives.ranks.number(int(collectives.device_id[last]))
    return NO_RANK if number is None else number


def _segments(context: TraceContext, accounts: Accounts, edges: Times) -> Iterator[tuple[Any, ...]]:
    """Yield the segments of one rank: start, end, what it is, phase, time of each kind, and rule."""
    if not accounts.time.shape[1]:
        return
    # Waiting and transfer are one thing each, in whatever phase; all other time belongs to its phase.
    alone = np.isin(accounts.kind, [KINDS.index(WAIT), KINDS.index(TRANSFER)])
    key = np.where(alone, -1 - len(KINDS) + accounts.kind, accounts.phase + 1)
    keys, codes = np.unique(key, return_inverse=True)
    sums = np.zeros((len(accounts.time), len(keys)), np.int64)
    for account, code in enumerate(codes.tolist()):
        sums[:, code] += accounts.time[:, account]
    most = keys[np.argmax(sums, axis=1)]
    firsts = np.flatnonzero(np.append(True, most[1:] != most[:-1]))
    for first, last in zip(firsts.tolist(), [*firsts[1:].tolist(), len(most)], strict=True):
        its = int(most[first])
        what = KINDS[its + len(KINDS) + 1] if its < 0 else PHASE
        phase = context.phases.name(its - 1) if its >= 0 else ""
        times = accounts.of_kinds(first, last)
        yield int(edges[first]), int(edges[last]), what, phase, *times, accounts.idle_rule(first, last)


def find_collectives_of(
    collectives: Collectives, steps: JobSteps, step: int, shown: Sequence[Rank]
) -> tuple[pd.DataFrame, int]:
    """Return the longest collectives of one step on some ranks, with the columns ``COLLECTIVES``; and how many it has.

    A collective belongs to the step in which it ends on a rank. ``arrival_ns`` is when its last rank had arrived.

    Args:
        collectives: The collectives of all ranks.
        steps: The steps of the job.
        step: Number of the step among them.
        shown: The ranks.
    """
    parts = []
    for rank in shown:
        place = steps.ranks.index(rank)
        mine = collectives.on(rank.device_id)
        mine = mine[collectives.matched[mine]]
        ended = collectives.end[mine]
        mine = mine[(ended > steps.begin[step, place]) & (ended <= steps.end[step, place])]
        parts.append(
            pd.DataFrame(
                {
                    "step": steps.names[step],
                    "collective": collectives.group[mine],
                    "rank": rank.number,
                    "start_ns": collectives.start[mine],
                    "arrival_ns": collectives.arrival[mine],
                    "end_ns": collectives.end[mine],
                    "kind": np.array(collectives.kinds, object)[collectives.kind[mine]],
                    "is_last": collectives.last[mine] == mine,
                }
            )
        )
    whole = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(COLLECTIVES))
    length = (whole["end_ns"] - whole["start_ns"]).groupby(whole["collective"]).sum()
    longest = length.sort_values(ascending=False, kind="stable").index[:MOST_COLLECTIVES]
    kept = whole[whole["collective"].isin(longest)].sort_values(["collective", "rank"], kind="stable")
    return kept.reset_index(drop=True), len(length)
