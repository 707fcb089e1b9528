"""What each rank did at each time, as accounts: a rule and a phase for every nanosecond of the window.

Idle time has the rule that the attribution gives it. Busy time is compute, copies, memsets, waiting or transfer, in the
phase that launched it::

    GPU        |#### forward ####|..data loader..|## backward ##|..wait..|==transfer==|
    accounts   |compute, forward |data_wait, data|compute, backw|wait    |transfer    |
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nsyswrap.attribution.attribution import RULES, Attribution
from nsyswrap.attribution.launch_pace import usual_gap_ns
from nsyswrap.base.intervals import NOTHING, LabelledSpans, Spans, Times, covered, innermost, overlay
from nsyswrap.events.operations import COMMUNICATION, COMPUTE, COPY, MEMSET
from nsyswrap.loop.context import TraceContext
from nsyswrap.ranks.collectives import Collectives

COMPUTES, WAITS, TRANSFERS, COPIES, CLEARS = "compute", "wait", "transfer", "copy", "memset"
# Begins the rules of idle time in gaps of at most the usual length between launches: the host launches at its pace.
USUAL = "usual "
# The rules of accounts: first the rules of idle time, then what a busy GPU does, in the order of
# ``Collectives.exclusive``, then the rules of idle time in usual gaps.
ACCOUNT_RULES = (*RULES, COMPUTES, WAITS, TRANSFERS, COPIES, CLEARS, *(f"{USUAL}{rule}" for rule in RULES))
_KINDS = (COMPUTE, COMMUNICATION, COMMUNICATION, COPY, MEMSET)


@dataclass(frozen=True)
class Activity:
    """What one rank did in the window: each nanosecond has one account.

    Attributes:
        device_id: Its GPU.
        accounts: Codes of the accounts that occur, ascending; ``account_of`` splits a code.
        spans: The time of each of them.
    """

    device_id: int
    accounts: npt.NDArray[np.int32]
    spans: tuple[Spans, ...]

    def named(self, phases: int) -> list[tuple[str, int]]:
        """Return the rule and the phase code of each account.

        Args:
            phases: How many phases the capture has.
        """
        return [account_of(code, phases) for code in self.accounts.tolist()]

    def until(self, since: int, at: Times) -> npt.NDArray[np.int64]:
        """Return the time of each account between ``since`` and each time of ``at``, in ns, shape (times, accounts)."""
        times = np.zeros((len(at), len(self.accounts)), np.int64)
        start = np.full(len(at), since, np.int64)
        for place, spans in enumerate(self.spans):
            times[:, place] = covered(spans, start, at)
        return times


def account_of(code: int, phases: int) -> tuple[str, int]:
    """Return the rule and the phase code of an account.

    Args:
        code: The account.
        phases: How many phases the capture has.
    """
    rule, phase = divmod(code, phases + 1)
    return ACCOUNT_RULES[rule], phase - 1


def code_of(rule: str, phase: int, phases: int) -> int:
    """Return the account of a rule and a phase code; ``account_of`` splits it again."""
    return ACCOUNT_RULES.index(rule) * (phases + 1) + phase + 1


def find_activities(
    context: TraceContext, collectives: Collectives, attributions: Sequence[Attribution]
) -> dict[int, Activity]:
    """Return what each rank did in the window of the attributions, by GPU."""
    activities = {}
    for each in attributions:
        spans = collectives.exclusive(context.operations, each.device_id, each.window)
        activities[each.device_id] = activity_of(context, each, spans)
    return activities


def activity_of(context: TraceContext, attribution: Attribution, exclusive: Sequence[Spans]) -> Activity:
    """Return what one rank did in the window of its attribution.

    Args:
        context: The trace, its events and its loop.
        attribution: The idle time of its GPU.
        exclusive: The spans of the GPU in that window, as ``Collectives.exclusive`` returns them.
    """
    width, pieces = len(context.phases.names) + 1, attribution.pieces
    device, window = attribution.device_id, attribution.window
    gap, place = np.unique(pieces.gap, return_inverse=True)
    length = np.bincount(place, weights=pieces.length, minlength=len(gap))[place]
    usual = length <= usual_gap_ns(context, device, window)
    rule = attribution.rule.astype(np.int32) + np.where(usual, ACCOUNT_RULES.index(f"{USUAL}{RULES[0]}"), 0)
    parts = [LabelledSpans(Spans(pieces.start, pieces.end), (rule * width + pieces.phase + 1).astype(np.int32))]
    operations = context.operations
    for number, (kind, spans) in enumerate(zip(_KINDS, exclusive, strict=True)):
        # The spans, cut by the phase of the operation that runs in them.
        rows = operations.on(device)[operations.kind[operations.on(device)] == kind]
        launched = innermost(operations.start[rows], operations.end[rows], context.phase_of_operations[rows])
        which, _, start, end = overlay(launched.spans, spans)
        code = (len(RULES) + number) * width + launched.code[which] + 1
        parts.append(LabelledSpans(Spans(start, end), code.astype(np.int32)))
    codes = np.unique(np.concatenate([part.code for part in parts]))
    return Activity(device, codes, tuple(_spans_of(parts, int(code)) for code in codes))


def _spans_of(parts: Sequence[LabelledSpans], code: int) -> Spans:
    """Return the spans with one label; parts are disjoint, so that sorting them is enough."""
    sides = [(part.spans.start[part.code == code], part.spans.end[part.code == code]) for part in parts]
    start, end = (np.concatenate([each[side] for each in sides]) for side in (0, 1))
    if not len(start):
        return NOTHING
    order = np.argsort(start, kind="stable")
    return Spans(start[order], end[order])
