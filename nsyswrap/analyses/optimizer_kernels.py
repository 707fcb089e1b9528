"""Does the optimizer go through the parameters one by one? Then it launches very many short kernels in each step."""

from dataclasses import dataclass

from nsyswrap import units
from nsyswrap.analyses.base import Study
from nsyswrap.analyses.idle_findings import NOTE_SHARE, PROBLEM_SHARE, WARNING_SHARE
from nsyswrap.analyses.operations import COMPUTE
from nsyswrap.intervals import Indices, Times, Window
from nsyswrap.model import Finding, Severity

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


def find_pass(study: Study, device_id: int, window: Window) -> Pass | None:
    """Return the optimizer's kernels on one device; None where no step, phase or kernel of it is known."""
    steps = study.steps.steady_count
    code = study.phases.code(PHASE)
    if not steps or code < 0:
        return None
    rows = _kernels(study, device_id, window, code)
    if not len(rows):
        return None
    length: Times = study.operations.end[rows] - study.operations.start[rows]
    short = length < SHORT_NS
    return Pass(len(rows) / steps, float(short.mean()), int(length.sum()), int(length[short].sum()))


def _kernels(study: Study, device_id: int, window: Window, code: int) -> Indices:
    operations = study.operations
    rows = operations.on(device_id)
    inside = (operations.start[rows] >= window.start_ns) & (operations.end[rows] <= window.end_ns)
    rows = rows[inside & (operations.kind[rows] == COMPUTE)]
    found: Indices = rows[study.phase_of_operations[rows] == code]
    return found


def is_many(study: Study, device_id: int, window: Window) -> bool:
    """Return whether the optimizer launches very many kernels in each step, most of them short."""
    found = find_pass(study, device_id, window)
    return found is not None and found.per_step >= MANY and found.short_share > 1 / 2


def finding(study: Study, device_id: int, window: Window, idle_ns: int) -> Finding | None:
    """Return advice on the optimizer of one device; None where it costs less than 2 % of the window.

    Args:
        study: The trace and its operations.
        device_id: The GPU.
        window: Stretch it is about.
        idle_ns: What the GPU idles for the optimizer's launches.
    """
    found = find_pass(study, device_id, window)
    if found is None or not is_many(study, device_id, window):
        return None
    cost = idle_ns + found.short_ns
    share = cost / window.length_ns
    if share < NOTE_SHARE:
        return None
    grave = Severity.PROBLEM if share >= PROBLEM_SHARE else Severity.WARNING
    return Finding(
        rule="optimizer/many_kernels",
        severity=grave if share >= WARNING_SHARE else Severity.NOTE,
        headline="The optimizer's many short kernels, and the waits between them, "
        f"take {units.share(share)} of the time.",
        cost_ns=cost,
        gain_low_ns=idle_ns,
        gain_high_ns=cost + round(FEWER_PASSES * (found.kernel_ns - found.short_ns)),
        advice="Update all parameters together: fused=True, or foreach=True where an optimizer has no fused form, "
        "as in torch.optim.AdamW(parameters, fused=True).",
        evidence=(
            f"{units.count(round(found.per_step))} kernels a step in phase {PHASE}",
            f"{units.share(found.short_share)} of them shorter than {units.duration(SHORT_NS)}",
            f"{units.duration(found.short_ns)} in the short ones, {units.duration(idle_ns)} idle between them",
            "gain: the idle time; at most also the short kernels, and of the long ones what one pass over memory saves",
        ),
        device_id=device_id,
        window=window,
    )
