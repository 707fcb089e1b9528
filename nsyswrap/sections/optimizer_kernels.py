"""Does the optimizer go through the parameters one by one? Then it launches very many short kernels in each step."""

from dataclasses import dataclass

import numpy as np

from nsyswrap import tables, units
from nsyswrap.events.operations import COMPUTE
from nsyswrap.intervals import Indices, Times, Window, containing, merge
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Finding, Severity
from nsyswrap.sections.idle_findings import NOTE_SHARE, PROBLEM_SHARE, WARNING_SHARE
from nsyswrap.tables import array
from nsyswrap.what_if.changes import CANNOT, Gains

PHASE = "optimizer"
# A fused optimizer takes some kernels for all parameters together and one with foreach some dozens; one that takes the
# tensors one by one needs about ten for each. Source: torch.optim's Adam, counted in tests/captures and
# workloads/faults.
MANY = 100
# Kernels shorter than the launch of one do not keep the GPU busy. Source: launches take 5 to 10 us in all captures of
# tests/captures.
SHORT_NS = 10_000
# Of the time of kernels that are long enough to move memory, so much goes with one pass over it. Source: torch.optim's
# Adam, counted: one by one it reads or writes each tensor's size 18 times, fused 7 times.
FEWER_PASSES = 1 - 7 / 18


@dataclass(frozen=True, slots=True)
class Pass:
    """The kernels of the optimizer in a window.

    Attributes:
        per_step: How many it launches in a step.
        short_share: Share of them that are shorter than a launch.
        kernel_ns: How long they run.
        short_ns: How long the short ones of them run.
    """

    per_step: float
    short_share: float
    kernel_ns: int
    short_ns: int

    @property
    def is_many(self) -> bool:
        """Return whether it launches very many kernels in each step, most of them short."""
        return self.per_step >= MANY and self.short_share > 1 / 2


def find_pass(context: TraceContext, device_id: int, window: Window) -> Pass | None:
    """Return the optimizer's kernels on one device; None without such a kernel or a whole step in the window."""
    operations, code = context.operations, context.phases.code(PHASE)
    if code < 0:
        return None
    rows = operations.on(device_id)
    rows = rows[context.phase_of_operations[rows] == code]
    rows = rows[operations.kind[rows] == COMPUTE]
    per_step = _per_step(context, rows, window)
    rows = rows[(operations.start[rows] >= window.start_ns) & (operations.end[rows] <= window.end_ns)]
    if per_step is None or not len(rows):
        return None
    length: Times = operations.end[rows] - operations.start[rows]
    short = length < SHORT_NS
    return Pass(per_step, float(short.mean()), int(length.sum()), int(length[short].sum()))


def _per_step(context: TraceContext, rows: Indices, window: Window) -> float | None:
    """Return how many of some operations are launched in a measured step of the window; None where it holds no step."""
    steps = context.steps.measured_inside(window)
    own = np.isin(array(steps, "process"), tables.distinct(context.operations.process[rows]))
    # Ranks take the same steps side by side, so another's stand in where a process marks none.
    steps = steps[own] if own.any() else steps
    if not len(steps):
        return None
    launched = array(context.trace[tables.CALLS], "start")[context.operations.call[rows]]
    inside = containing(merge(array(steps, "start"), array(steps, "end")), launched) >= 0
    return int(inside.sum()) * steps["process"].nunique() / len(steps)


def is_many(context: TraceContext, device_id: int, window: Window) -> bool:
    """Return whether the optimizer launches very many kernels in each step, most of them short."""
    found = find_pass(context, device_id, window)
    return found is not None and found.is_many


def finding(context: TraceContext, device_id: int, window: Window, idle_ns: int) -> Finding | None:
    """Return advice on the optimizer of one device; None where it costs less than 2 % of the window.

    Args:
        context: The trace and its operations.
        device_id: The GPU.
        window: Stretch it is about.
        idle_ns: What the GPU idles for the optimizer's launches.
    """
    found = find_pass(context, device_id, window)
    if found is None or not found.is_many:
        return None
    cost = idle_ns + found.short_ns
    share = cost / window.length_ns
    if share < NOTE_SHARE:
        return None
    grave = Severity.PROBLEM if share >= PROBLEM_SHARE else Severity.WARNING
    gained = _gains(context, found, idle_ns, window)
    return Finding(
        rule="optimizer/many_kernels",
        severity=grave if share >= WARNING_SHARE else Severity.NOTE,
        headline="The optimizer's many short kernels, and the waits between them, "
        f"take {units.share(share)} of the time.",
        lost_ns=cost,
        saving_low_ns=gained.low_ns,
        saving_high_ns=gained.high_ns,
        advice="Update all parameters together: fused=True, or foreach=True where an optimizer has no fused form, "
        "as in torch.optim.AdamW(parameters, fused=True).",
        evidence=(
            f"{units.count(round(found.per_step))} kernels a step in phase {PHASE}",
            f"{units.share(found.short_share)} of them shorter than {units.duration(SHORT_NS)}",
            f"{units.duration(found.short_ns)} in the short ones, {units.duration(idle_ns)} idle between them",
            *gained.said,
        ),
        device_id=device_id,
        window=window,
    )


def _gains(context: TraceContext, found: Pass, idle_ns: int, window: Window) -> Gains:
    """Return what one pass over all parameters gains; nothing where the replay does not know how the run came about."""
    if not context.replay(window).predicts:
        return Gains(None, None, (CANNOT,))
    longest = idle_ns + found.short_ns + round(FEWER_PASSES * (found.kernel_ns - found.short_ns))
    said = "gain: the idle time; at most also the short kernels, and of the long ones what one pass over memory saves"
    return Gains(idle_ns, longest, (said,))
