"""Advice on idle time: for each cause what it means and the change to make."""

from dataclasses import dataclass

import pandas as pd

from nsyswrap.analyses.base import Study
from nsyswrap.intervals import Window
from nsyswrap.model import Finding, Severity
from nsyswrap import units

# A cause is worth a sentence from 2 % of the window on, a warning from 5 %, a problem from 20 %.
# Source: torch_tb_profiler advises from 5 % of the step on; the other two are ours, so that CI is not told of noise.
NOTE_SHARE, WARNING_SHARE, PROBLEM_SHARE = 0.02, 0.05, 0.20

WORST_GAPS = 3


@dataclass(frozen=True, slots=True)
class Advice:
    """What to say of one cause.

    Attributes:
        headline: One sentence; {share} and {time} are filled in.
        advice: The change to make, in PyTorch's terms.
        can_gain: Whether mending it can win the time back; False where the cause is the capture itself.
    """

    headline: str
    advice: str
    can_gain: bool = True


ADVICE = {
    "input_wait": Advice(
        "The GPU starves for {share} of the time while the training loop waits for the data loader.",
        "Give the DataLoader more workers (num_workers), pin_memory=True, persistent_workers=True and a larger "
        "prefetch_factor, or make the transform cheaper.",
    ),
    "input_work": Advice(
        "The GPU starves for {share} of the time while the training process prepares the data itself.",
        "Load in the background: DataLoader(num_workers=4, pin_memory=True, persistent_workers=True); with workers "
        "already there, move collating and unpacking into them.",
    ),
    "host": Advice(
        "The GPU waits {share} of the time for host code that runs between launches.",
        "Give the GPU more work per launch: a larger batch, torch.compile(model), or CUDA graphs "
        '(torch.compile(mode="reduce-overhead")); move host work out of the step.',
    ),
    "launch": Advice(
        "The GPU waits {share} of the time for launch calls: the kernels are too short for the host to keep ahead.",
        "Launch less: CUDA graphs or torch.compile, a fused optimizer (fused=True), a larger batch.",
    ),
    "queued": Advice(
        "Work was launched but had not begun for {share} of the time.",
        "Look at dependencies between streams and at launch latency in the timeline.",
    ),
    "synchronization": Advice(
        "The GPU runs dry for {share} of the time because the host waits for it in a synchronizing call.",
        "Keep .item(), .cpu(), print(loss) and torch.cuda.synchronize() out of the step; log every n steps.",
    ),
    "blocking_copy": Advice(
        "The GPU is idle for {share} of the time while a blocking copy holds the host.",
        "Copy from pinned memory without blocking: pin_memory=True and tensor.to(device, non_blocking=True).",
    ),
    "allocation": Advice(
        "The GPU is idle for {share} of the time while memory is allocated or freed.",
        "Keep shapes stable so that the caching allocator can reuse blocks; allocate before the loop; "
        "try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
    ),
    "module_load": Advice(
        "The GPU is idle for {share} of the time while modules are loaded or code is compiled.",
        "Warm up before measuring; set CUDA_MODULE_LOADING=EAGER to load everything before the first step.",
    ),
    "lock": Advice(
        "The GPU is idle for {share} of the time while the feeding thread waits for the GIL or a lock.",
        "Move Python work of other threads into processes (DataLoader workers instead of threads).",
    ),
    "descheduled": Advice(
        "The GPU is idle for {share} of the time because the feeding thread is off the CPU.",
        "Free CPU cores: fewer workers, torch.set_num_threads, or pin the process to cores of its own.",
    ),
    "profiler": Advice(
        "The profiler itself accounts for {share} of the time as idle GPU.",
        "Trace less (fewer -t options) or profile a shorter stretch; the program is faster than it looks here.",
        can_gain=False,
    ),
    "blind": Advice(
        "For {share} of the time the capture cannot show what ran.",
        "Capture again with --cuda-graph-trace=node and complete CUDA traces.",
        can_gain=False,
    ),
    "unknown": Advice(
        "For {share} of the time no cause can be shown.",
        "Capture again with osrt among the traces and NVTX ranges around the phases.",
        can_gain=False,
    ),
}


def findings(study: Study, by_cause: pd.DataFrame, gaps: pd.DataFrame, window: Window) -> tuple[Finding, ...]:
    """Return one finding for each device and cause that costs at least 2 % of the window."""
    found = []
    for (device, cause), mine in by_cause.groupby(["device_id", "cause"]):
        cost = int(mine["idle_ns"].sum())
        share = cost / window.length_ns
        if share < NOTE_SHARE or cause not in ADVICE:
            continue
        advice = ADVICE[str(cause)]
        severity = Severity.NOTE
        if advice.can_gain and share >= WARNING_SHARE:
            severity = Severity.PROBLEM if share >= PROBLEM_SHARE else Severity.WARNING
        found.append(
            Finding(
                rule=f"idle/{cause}",
                severity=severity,
                headline=advice.headline.format(share=units.share(share)),
                cost_ns=cost,
                gain_low_ns=0,
                gain_high_ns=cost if advice.can_gain else 0,
                advice=advice.advice,
                evidence=_evidence(mine, gaps, int(device), str(cause), window, study),
                device_id=int(device),
                window=window,
            )
        )
    return tuple(sorted(found, key=lambda finding: finding.order))


def _evidence(
    mine: pd.DataFrame, gaps: pd.DataFrame, device: int, cause: str, window: Window, study: Study
) -> tuple[str, ...]:
    lines = []
    steps = len(study.steps.frame) - int(study.steps.frame["warm_up"].sum())
    cost = int(mine["idle_ns"].sum())
    if window.source == "steps" and steps:
        lines.append(f"{units.duration(cost // steps)} of each step, in {window.label}")
    for phase, idle, count in zip(mine["phase"], mine["idle_ns"], mine["gap_count"], strict=True):
        lines.append(f"{units.duration(int(idle))} in phase {phase}, {count} gaps")
    rows = gaps[(gaps["device_id"] == device) & (gaps["cause"] == cause)]
    length = rows["end_ns"] - rows["start_ns"]
    for row in length.sort_values(ascending=False, kind="stable").index[:WORST_GAPS]:
        start, evidence = int(rows.at[row, "start_ns"]), str(rows.at[row, "evidence"])
        lines.append(f"{units.duration(int(length[row]))} at {start / 1e9:.6f} s: {evidence}")
    return tuple(lines)
