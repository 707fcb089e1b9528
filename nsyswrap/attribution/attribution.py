"""The attribution of a GPU's idle time, computed once and read by all sections.

Each piece of idle time has a cause (what the host did), a rule (the finding that counts it: a root cause, or the cause
itself where no root cause explains it), a phase and a thread. Where Python was sampled, it also has lines.

nsys adds some microseconds to each call that it records. While the GPU waits for the host, they are idle time that the
program alone does not have. The cost of a call is known only as measured on the machine, so each piece in which a
thread runs loses the usual cost of the calls that begin in it::

    GPU      ####|..............gap..............|####
    T            |   cpu    |       launch       |
    calls           ^event   ^launch
    pieces       | cpu |prof|  launch |   prof   |

The part is put at the end of the piece. Where a call costs more than its piece is long, the rest is taken from the
piece before it, in the same gap on the same thread.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import rules
from nsyswrap.attribution.causes import CAUSES, CODE, find_causes
from nsyswrap.attribution.gaps import find_gaps
from nsyswrap.attribution.idle_pieces import GENERIC, IdlePieces, Mask
from nsyswrap.attribution.launch_pace import LaunchTimes
from nsyswrap.attribution.pieces import Pieces
from nsyswrap.attribution.root_causes import ROOT_CAUSES
from nsyswrap.attribution.sampled_lines import find_sampled_lines
from nsyswrap.attribution.sampled_stacks import find_sampled_stacks
from nsyswrap.base.intervals import Indices, Times, Window
from nsyswrap.events.recorded_calls import RecordedCalls
from nsyswrap.events.thread_states import NO_NAME, ThreadStates
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.own_windows import find_own_windows
from nsyswrap.rules import steps
from nsyswrap.trace.tables import array, blocks, distinct

# Causes in which the thread runs code of the program, which the recording of its calls delays. In the other causes it
# waits, or it is in a call that takes far longer than its recording.
RUNNING_CAUSES = ("cpu", "launch", "data_work", "garbage_collection", "file_io")


# One rule for each cause, with the same code, then one for each root cause.
RULES = (*(rules.CAUSES[cause].key for cause in CAUSES), *(each.rule.key for each in ROOT_CAUSES))
RULE_CODE: Mapping[str, int] = {rule: code for code, rule in enumerate(RULES)}


def with_profiler_time(pieces: Pieces, calls: RecordedCalls) -> Pieces:
    """Return the pieces of idle time, with the part that recording took as pieces of their own.

    Returns:
        Pieces whose lengths add up to the same idle time. They are unchanged where the cost was not measured.
    """
    taken = _taken(pieces, calls)
    if not taken.any():
        return pieces
    # A piece that loses a part is there twice, then each half gets its bound; a piece that loses all is there once.
    length = pieces.length
    split = (taken > 0) & (taken < length)
    row = np.repeat(np.arange(len(length)), 1 + split)
    second = np.append(False, row[1:] == row[:-1])[: len(row)]
    found, lost = pieces.of(row), taken[row]
    profiler = second | (lost == length[row])
    border = found.end - lost
    return Pieces(
        np.where(second, border, found.start),
        np.where(split[row] & ~second, border, found.end),
        found.gap,
        np.where(profiler, np.int8(CODE["profiler"]), found.cause),
        found.phase,
        found.owner,
        np.where(profiler, np.int32(NO_NAME), found.name),
        found.threads,
    )


def _taken(pieces: Pieces, calls: RecordedCalls) -> Times:
    """Return how much of each piece recording took, in ns: the usual cost of the calls in it."""
    cost = np.zeros(len(pieces.start), np.int64)
    if calls.cost is None or not len(cost):
        return cost
    running = np.isin(pieces.cause, [CODE[cause] for cause in RUNNING_CAUSES])
    for owner in distinct(pieces.owner).tolist():
        mine = np.flatnonzero(running & (pieces.owner == owner))
        added = calls.usual(int(pieces.threads[owner]), pieces.start[mine], pieces.end[mine])
        cost[mine] = np.rint(added).astype(np.int64)
    room = np.where(running, pieces.length, 0)
    same = (pieces.gap[1:] == pieces.gap[:-1]) & (pieces.owner[1:] == pieces.owner[:-1])
    spilled = np.append(np.where(same, np.maximum(cost - room, 0)[1:], 0), 0)
    taken: Times = np.minimum(cost + spilled, room)
    return taken


@dataclass(frozen=True, slots=True)
class Attribution:
    """The idle time of one device inside a window; each nanosecond is counted once.

    Attributes:
        device_id: The GPU.
        window: Interval of time.
        pieces: The idle time with causes, phases and threads; the lengths add up to the device's idle time.
        rule: Code of the rule of each piece, index into ``RULES``, int8.
        idle_ns: Idle time of each rule, shape (rules,).
        steps_by_rule: Idle time by rule and row of the context's steps, clipped to the window, shape (rules, steps).
        steps_by_cause: The same by cause, shape (causes, steps).
        lines: Sampled lines of Python by cause, rule and phase, as ``find_sampled_lines`` returns them.
        stacks: Sampled stacks of Python by rule, as ``find_sampled_stacks`` returns them.
        ender: Row in the context's operations of what ends each gap; -1 for none.
        usual_gap_ns: The longest gap that the usual pace of launches explains, in ns.
    """

    device_id: int
    window: Window
    pieces: Pieces
    rule: npt.NDArray[np.int8]
    idle_ns: Times
    steps_by_rule: npt.NDArray[np.int64]
    steps_by_cause: npt.NDArray[np.int64]
    lines: pd.DataFrame
    stacks: pd.DataFrame
    ender: Indices
    usual_gap_ns: float

    def of_rule(self, rule: str) -> Mask:
        """Return a mask of the pieces that are attributed to a rule."""
        found: Mask = self.rule == RULE_CODE[rule]
        return found

    def idle_of(self, rule: str) -> int:
        """Return the idle time that is attributed to a rule, in ns."""
        return int(self.idle_ns[RULE_CODE[rule]])

    def of_specific_rules(self) -> Times:
        """Return the idle time of each step that a specific rule explains, in ns.

        Generic causes, time that is not traced and uneven steps do not count.
        """
        rest = {*(rules.CAUSES[cause].key for cause in (*GENERIC, "not_traced")), steps.UNEVEN.key}
        found: Times = self.steps_by_rule[[code for code, rule in enumerate(RULES) if rule not in rest]].sum(axis=0)
        return found


def find_attributions(  # noqa: PLR0913, PLR0917 - one argument a value
    context: TraceContext,
    states: ThreadStates,
    window: Window,
    recorded_calls: RecordedCalls,
    copies: pd.DataFrame,
    launches: LaunchTimes,
) -> tuple[Attribution, ...]:
    """Return the attribution of each device that is in use in a window, for its own part of it, by device id."""
    found = []
    for device in context.operations.used_in(window):
        own = find_own_windows(context, window).on(device)
        gaps = find_gaps(context, states, device, own)
        pieces = with_profiler_time(find_causes(context, states, gaps), recorded_calls)
        found.append(_attribution(IdlePieces(context, states, device, own, gaps, pieces, copies, launches)))
    return tuple(found)


def _attribution(idle: IdlePieces) -> Attribution:
    """Return the attribution of the idle time of one device."""
    context, pieces, rule = idle.context, idle.pieces, _rules(idle)
    return Attribution(
        device_id=idle.device_id,
        window=idle.window,
        pieces=pieces,
        rule=rule,
        idle_ns=pieces.sums(rule, len(RULES)),
        steps_by_rule=_by_step(context, pieces, rule, len(RULES)),
        steps_by_cause=_by_step(context, pieces, pieces.cause, len(CAUSES)),
        lines=find_sampled_lines(context, pieces, rule, (CAUSES, RULES)),
        stacks=find_sampled_stacks(context, pieces, rule, RULES),
        ender=idle.gaps.ender,
        usual_gap_ns=idle.usual_gap_ns,
    )


def _rules(idle: IdlePieces) -> npt.NDArray[np.int8]:
    """Return the code of each piece's rule: the first root cause that explains it, else its cause."""
    rule = idle.pieces.cause.astype(np.int8, copy=True)
    if not len(rule):
        return rule
    free = np.ones(len(rule), bool)
    for each in ROOT_CAUSES:
        found = each.find(idle, free)
        found &= free
        if found.any():
            rule[found] = RULE_CODE[each.rule.key]
            free ^= found
    return rule


def _by_step(context: TraceContext, pieces: Pieces, code: npt.NDArray[np.int8], count: int) -> npt.NDArray[np.int64]:
    """Return idle time by code and step, shape (count, steps)."""
    start, end = array(context.steps.frame, "start"), array(context.steps.frame, "end")
    edge = np.unique(np.concatenate([start, end]))
    if not len(edge) or not len(code):
        return np.zeros((count, len(start)), np.int64)
    # The idle time of each code before each edge, shape (edges, count).
    begun = np.searchsorted(pieces.start, edge, side="left")
    sums = np.zeros((len(edge) + 1, count), np.int64)
    for some in blocks(len(code)):
        low, high = np.searchsorted(begun, (some.start, some.stop), side="right")
        # The number of times up to the start of each piece.
        place = np.repeat(np.arange(high - low + 1), np.diff(begun[low:high], prepend=some.start, append=some.stop))
        key = place * count + code[some]
        np.add.at(sums[low : high + 1].reshape(-1), key, pieces.end[some] - pieces.start[some])
    before = np.cumsum(sums[:-1], axis=0)
    # A piece that ends after the time counts up to it.
    last = begun - 1
    beyond = np.where(last >= 0, np.maximum(pieces.end[last] - edge, 0), 0)
    before[np.arange(len(edge)), code[last]] -= beyond
    found = before[np.searchsorted(edge, np.maximum(start, end))] - before[np.searchsorted(edge, start)]
    return np.ascontiguousarray(found.T)
