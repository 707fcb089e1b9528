"""The time of a step now, and in words what would make it shorter."""

from collections.abc import Mapping
from dataclasses import dataclass

from nsyswrap.intervals import Window
from nsyswrap.model import StepTimes
from nsyswrap.program_kind import ProgramKind, Wording

IF_FIXED: Mapping[str, str] = {
    "idle/data_wait": Wording(
        "if the data loader kept up", "if its data came in time", server="if requests came in time"
    ),
    "idle/data_work": Wording("if worker processes prepared the data", "if the data were prepared before"),
    "idle/cpu": "with less CPU work between launches",
    "idle/launch": "with fewer launches",
    "idle/queued": "if operations began at once",
    "idle/synchronization": "without waits for the GPU",
    "idle/peer_wait": "without waits for other ranks",
    "idle/blocking_copy": "if copies did not block",
    "idle/allocation": "without allocations in the step",
    "idle/module_load": "if everything were loaded before",
    "idle/lock": "without waits for locks",
    "idle/off_cpu": "with enough CPU cores",
    "idle/garbage_collection": "without garbage collection in the step",
    "idle/file_io": "without file reads and writes",
    "host/checkpoint": "if checkpoints were written in the background",
    "host/cpu_quota": "without the CPU quota",
    "host/tokenizer": "if the text were tokenized before",
    "host/outside_wait": "without waits for others",
    "host/untraced_wait": "without this wait",
    "host/file_reads": Wording("if worker processes read the files", "if the files were read before"),
    "host/page_faults": "if all pages were in memory",
    "capture/overhead": "without the ranges in inner loops",
    "modules/in_window": "if everything were compiled before",
    "memory/churn": "without allocations in the step",
    "memory/migrations": "if pages moved before they are needed",
    "data/worker_start": "if loader processes were kept",
    "gpu/between_operations": "with fewer operations",
    "gpu/slowed": "with the GPU at full clocks",
    "synchronization/in_step": "without waits inside the step",
    "launches/launch_bound": "with fewer launches",
    "optimizer/many_kernels": Wording("with a fused optimizer", "with fewer kernels for the weights"),
    "steps/uneven": "if all steps were alike",
    "copies/pageable": "with pinned memory",
    "copies/exposed": "if the copies overlapped with kernels",
    "ranks/late": "if the late rank were in time",
    "communication/exposed": "if the communication overlapped with kernels",
    "communication/slow_links": "with faster links",
    "ranks/pipeline": "without pipeline bubbles",
    "tensor_cores/not_used": "on tensor cores",
    "tensor_cores/layout": "with channels last",
    "compute/kernels": "with faster kernels",
    "compute/unfused": "with fused kernels",
    "compute/batch_norm": "with faster batch norms",
    "compute/depthwise": "with faster depthwise convolutions",
    "compute/small_matrices": "with batched products",
    "occupancy/small_grid": "with larger grids",
    "occupancy/low": "with more warps",
}
"""End of the sentence on the time of a step with the fix, by rule of the finding."""


def if_fixed(rule: str, kind: ProgramKind) -> str:
    """Return the end of the sentence on the time of a step with the fix, in the words for a program."""
    return kind.fitted(IF_FIXED.get(rule, "if fixed"))


# Where the mean step is more than this many times the median step, a few long steps hold much of the time. Source:
# ours.
UNEVEN_FACTOR = 1.25


@dataclass(frozen=True, slots=True)
class TypicalStep:
    """The time of a step now.

    Attributes:
        length_ns: Its length.
        window_ns: Time of all steps of the window.
        is_mean: Whether it is the mean of the window; the median otherwise.
    """

    length_ns: int
    window_ns: int
    is_mean: bool = False

    def after(self, saving_ns: float) -> int:
        """Return its length where some time of the window is saved: each step gets shorter by the same share."""
        return max(round(self.length_ns * (1 - saving_ns / self.window_ns)), 0)


def typical(step: StepTimes, window: Window, rule: str | None) -> TypicalStep | None:
    """Return the time of a step to which savings refer; None where there are no steps.

    Args:
        step: The measured steps of the window.
        window: Interval of the findings.
        rule: Rule of the first finding.
    """
    if not step.count or not step.median_ns:
        return None
    mean_ns = step.mean_in(window)
    # The median does not change where a few long steps get shorter.
    uneven = rule == "steps/uneven" or mean_ns > UNEVEN_FACTOR * step.median_ns
    return TypicalStep(mean_ns if uneven else step.median_ns, step.total_in(window), uneven)
