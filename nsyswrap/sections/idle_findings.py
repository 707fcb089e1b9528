"""Advice on idle time: for each cause what it means and the change to make."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from nsyswrap import tables, units
from nsyswrap.intervals import Spans, Window, merge
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import MOST_SAMPLES, Finding, Severity
from nsyswrap.sections.idle_lines import spelled
from nsyswrap.tables import Frame, array
from nsyswrap.what_if.changes import (
    NO_GAIN,
    OF_CAUSE,
    Gains,
    allocation,
    gains,
    idle_host,
    reads,
    worker_starts,
)

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
        is_note: Whether it is never more than a note, however much it is.
    """

    headline: str
    advice: str
    can_gain: bool = True
    is_note: bool = False


ADVICE = {
    "data_wait": Advice(
        "The GPU starves for {share} of the time while the training loop waits for the data loader.",
        "Give the DataLoader more workers (num_workers), pin_memory=True, persistent_workers=True and a larger "
        "prefetch_factor, or make the transform cheaper.",
    ),
    "data_work": Advice(
        "The GPU starves for {share} of the time while the training process prepares the data itself.",
        "Load in the background: DataLoader(num_workers=4, pin_memory=True, persistent_workers=True); with workers "
        "already there, move collating and unpacking into them.",
    ),
    "cpu": Advice(
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
    "off_cpu": Advice(
        "The GPU is idle for {share} of the time because the feeding thread is off the CPU.",
        "Free CPU cores: fewer workers, torch.set_num_threads, or pin the process to cores of its own.",
    ),
    "profiler": Advice(
        "The profiler itself accounts for {share} of the time as idle GPU.",
        "Trace less (fewer -t options) or profile a shorter stretch; the program is faster than it looks here.",
        can_gain=False,
    ),
    "not_traced": Advice(
        "For {share} of the time the capture cannot show what ran.",
        "Capture again with --cuda-graph-trace=node and complete CUDA traces.",
        can_gain=False,
    ),
    "unknown": Advice(
        "For {share} of the time no cause can be shown.",
        "Capture again with osrt among the traces, with --sample-cpu, and with NVTX ranges around the phases.",
        can_gain=False,
    ),
}


# What to say where OS calls were traced already.
STILL_UNKNOWN = replace(
    ADVICE["unknown"], advice="Capture again with --sample-cpu, and with NVTX ranges around the phases."
)
CHURN, WORKER_START = "memory/churn", "data/worker_start"
IN_STEP, BETWEEN = "synchronization/in_step", "gpu/between_operations"
ROOT_ADVICE = {
    "capture/overhead": Advice(
        "The host writes down NVTX ranges for {share} of the time, and the GPU waits: the program is faster than it "
        "looks here.",
        "Take ranges out of inner loops, or profile with --trace cuda,osrt; the gain is one of profiles alone.",
    ),
    "modules/in_window": Advice(
        "The GPU is idle for {share} of the time while kernels are compiled and loaded in steps that should be warm.",
        "Compile once, before the loop: pass numbers that change as tensors or arguments instead of writing them into "
        "code, mark changing sizes with torch.compile(dynamic=True), and run each shape once before the first step.",
    ),
    CHURN: Advice(
        "The GPU is idle for {share} of the time while steps ask the driver for memory and give it back.",
        "Take torch.cuda.empty_cache() out of the step and keep shapes stable (pad, bucket, drop_last=True), so that "
        "the allocator reuses its blocks; or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
    ),
    WORKER_START: Advice(
        "The GPU starves for {share} of the time while loader processes are started again for another epoch.",
        "Keep them: DataLoader(persistent_workers=True); or make epochs longer.",
    ),
    BETWEEN: Advice(
        "The GPU goes from one operation to the next for {share} of the time, some microseconds for each.",
        "Let fewer operations do the same: torch.compile fuses elementwise ones, and a larger batch makes all longer.",
        is_note=True,
    ),
    IN_STEP: Advice(
        "The GPU runs dry for {share} of the time because the host waits for it inside the step and then has to launch "
        "anew.",
        "Keep .item(), .cpu(), .tolist(), print(loss) and torch.cuda.synchronize() out of the step: collect tensors "
        "and read them together every n steps.",
    ),
}
"""Advice on what stands behind several causes, by the name of its finding."""


class IdleTables(NamedTuple):
    """Idle time of devices by root or cause: with phase, as gaps (and whose), and the lines of Python sampled in it."""

    by_cause: pd.DataFrame
    gaps: pd.DataFrame
    lines: pd.DataFrame


def findings(context: TraceContext, idle: IdleTables, everywhere: pd.DataFrame, window: Window) -> tuple[Finding, ...]:
    """Return one finding for each device and cause that costs at least 2 % of the window.

    Args:
        context: The trace and its steps.
        idle: Its idle time.
        everywhere: That of all devices, as gaps: ranks run the same program, and a change is made in all of them.
        window: Stretch it is about.
    """
    found, told = [], _told(context)
    for device in idle.by_cause["device_id"].unique():
        for rule, advice in told.items():
            cause = rule.removeprefix("idle/")
            mine = _of(idle.by_cause, device, cause)
            cost = int(mine["idle_ns"].sum())
            if cost < NOTE_SHARE * window.length_ns:
                continue
            gaps = _of(idle.gaps, device, cause)
            gained, share = NO_GAIN, cost / window.length_ns
            if advice.can_gain:
                gained = _gains(context, gaps, everywhere, cause, window)
            lines = (*_per_step(context, cost, window), *most_sampled(_of(idle.lines, device, cause)))
            found.append(
                Finding(
                    rule=rule,
                    severity=_severity(advice, share),
                    headline=advice.headline.format(share=units.share(share)),
                    lost_ns=cost,
                    saving_low_ns=gained.low_ns,
                    saving_high_ns=gained.high_ns,
                    advice=advice.advice,
                    evidence=(*lines, *_by_phase(mine), *_longest(gaps), *gained.said),
                    device_id=int(device),
                    window=window,
                )
            )
    return tuple(sorted(found, key=lambda finding: finding.order))


def _told(context: TraceContext) -> dict[str, Advice]:
    """Return what may be said of a trace, by rule."""
    roots = {key: each for key, each in ROOT_ADVICE.items() if key != CHURN or not len(context.trace[tables.MEMORY])}
    told = {**{f"idle/{cause}": each for cause, each in ADVICE.items()}, **roots}
    return {**told, "idle/unknown": STILL_UNKNOWN} if len(context.trace[tables.OS_CALLS]) else told


def _gains(context: TraceContext, mine: pd.DataFrame, everywhere: pd.DataFrame, cause: str, window: Window) -> Gains:
    """Return what mending a cause or a root gains, of which some gaps are one device's."""
    if cause in OF_CAUSE:
        return gains(context, window, OF_CAUSE[cause])
    if cause == BETWEEN:
        return Gains(0, int((mine["end_ns"] - mine["start_ns"]).sum()), ())
    own = everywhere["cause"] == cause
    saved = _host_spans(context, everywhere.loc[own, ["start_ns", "end_ns", "process"]], window)
    of_root = {CHURN: allocation, IN_STEP: reads, WORKER_START: lambda *_: worker_starts(saved)}
    return gains(context, window, of_root.get(cause, lambda *_: idle_host(saved)))


def _host_spans(context: TraceContext, idle: pd.DataFrame, window: Window) -> dict[int, Spans]:
    """Return when each feeding thread would save time: in the idle time that its own process explains."""
    found = {}
    for thread in context.replay(window).threads:
        own = idle[idle["process"] == thread & ~tables.THREAD_MASK]
        found[thread] = merge(array(own, "start_ns"), array(own, "end_ns"))
    return found


def _of(table: pd.DataFrame, device: int, cause: str) -> pd.DataFrame:
    return table[(table["device_id"] == device) & (table["cause"] == cause)]


def _severity(advice: Advice, share: float) -> Severity:
    if not advice.can_gain or advice.is_note or share < WARNING_SHARE:
        return Severity.NOTE
    return Severity.PROBLEM if share >= PROBLEM_SHARE else Severity.WARNING


def _per_step(context: TraceContext, cost: int, window: Window) -> tuple[str, ...]:
    # Of one process: ranks take the same steps side by side.
    steps = context.steps.measured_count
    if window.source != "steps" or not steps:
        return ()
    return (f"{units.duration(cost // steps)} a step, in {window.label}",)


def _by_phase(mine: pd.DataFrame) -> tuple[str, ...]:
    rows = zip(mine["phase"], mine["idle_ns"], mine["gap_count"], strict=True)
    return tuple(f"{units.duration(int(idle))} in phase {phase}, {count} gaps" for phase, idle, count in rows)


def most_sampled(lines: pd.DataFrame) -> tuple[str, ...]:
    """Return the line of Python with most samples, all phases together; nothing where there is no sample."""
    if not len(lines):
        return ()
    by_line = lines.groupby(["file", "line", "function"], as_index=False)["sample_count"].sum()
    most = by_line.iloc[int(by_line["sample_count"].argmax())]
    where = spelled(Frame(str(most["function"]), str(most["file"]), int(most["line"])))
    return (f"{MOST_SAMPLES}{where}, {most['sample_count']} of {by_line['sample_count'].sum()}",)


def _longest(gaps: pd.DataFrame) -> tuple[str, ...]:
    """Return the longest pieces of gaps with their evidence."""
    length = array(gaps, "end_ns") - array(gaps, "start_ns")
    rows = np.argsort(-length, kind="stable")[:WORST_GAPS]
    start, evidence = array(gaps, "start_ns"), gaps["evidence"].to_numpy()
    return tuple(f"{units.duration(int(length[r]))} at {start[r] / 1e9:.6f} s: {evidence[r]}" for r in rows)
