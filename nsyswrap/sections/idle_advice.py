"""The headline and the advice of each rule of idle time, adapted to what the capture shows."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from nsyswrap import tables, units
from nsyswrap.attribution.attribution import Attribution
from nsyswrap.attribution.copy_table import DOWNLOAD, UPLOAD
from nsyswrap.attribution.root_causes import blocking_waits
from nsyswrap.compiled.rows import taken
from nsyswrap.events.api_calls import MODULE_LOAD, is_launch, library_of, overhead_kind
from nsyswrap.events.operations import SOURCES
from nsyswrap.events.thread_states import ThreadStates
from nsyswrap.intervals import Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.sections.file_advice import HEADLINE_OF_STREAMS, RULE, file_advice, may_be_stream
from nsyswrap.tables import array


@dataclass(frozen=True, slots=True)
class Advice:
    """The headline and the advice of one rule.

    Attributes:
        headline: One sentence; {share} is filled in, and {range} with the range in which most of the time lies.
        advice: The change to make, in PyTorch's terms.
        can_save: Whether a fix can save the time; False where the capture itself is the cause.
        is_slight: Whether some of it is always there: a note below 20 % of the window if less than 5 % is sure to be
            saved, never more than a warning.
    """

    headline: str
    advice: str
    can_save: bool = True
    is_slight: bool = False


ADVICE = {
    "idle/data_wait": Advice(
        "The GPU starves for {share} of the time while the training loop waits for the data loader.",
        "Give the DataLoader more workers (num_workers), pin_memory=True, persistent_workers=True and a larger "
        "prefetch_factor, or make the transform cheaper.",
    ),
    "idle/data_work": Advice(
        "The GPU starves for {share} of the time while the training process prepares the data itself.",
        "Load in the background: DataLoader(num_workers=4, pin_memory=True, persistent_workers=True); with workers "
        "already there, move collating and unpacking into them.",
    ),
    "idle/cpu": Advice(
        "The GPU waits {share} of the time for Python and other CPU code outside CUDA calls.",
        "Find what the CPU does in the step (nsyswrap profile --python-sampling shows its Python line), and move it "
        "out of the step or into another process.",
    ),
    "idle/launch": Advice(
        "The GPU waits {share} of the time for launch calls: the kernels are too short for the host to keep ahead.",
        "Launch less: CUDA graphs or torch.compile, a fused optimizer (fused=True), a larger batch.",
    ),
    "idle/queued": Advice(
        "Operations were launched but had not begun for {share} of the time.",
        "Look at dependencies between streams and at launch latency in the timeline.",
    ),
    "idle/synchronization": Advice(
        "The GPU is idle for {share} of the time because the host waits for it in a synchronizing call.",
        "Keep .item(), .cpu(), print(loss) and torch.cuda.synchronize() out of the step; log every n steps.",
    ),
    "idle/peer_wait": Advice(
        "The GPU is idle for {share} of the time while the launching thread is in {library}, which waits for other "
        "ranks.",
        "Profile all ranks: the one that spends least time in these calls is the late one. Where all wait alike, the "
        "messages take the time: start them before the kernels that do not need them (MPI_Isend, MPI_Iallreduce), wait "
        "after these, and give a CUDA-aware MPI the memory of the GPU instead of copies on the host.",
    ),
    "idle/blocking_copy": Advice(
        "The GPU is idle for {share} of the time while the host is blocked in a copy.",
        "Copy from pinned memory without blocking: pin_memory=True and tensor.to(device, non_blocking=True).",
    ),
    "idle/allocation": Advice(
        "The GPU is idle for {share} of the time while memory is allocated or freed.",
        "Keep shapes stable so that the caching allocator can reuse blocks; allocate before the loop; "
        "try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
    ),
    "idle/module_load": Advice(
        "The GPU is idle for {share} of the time while modules are loaded or code is compiled.",
        "Warm up before measuring; set CUDA_MODULE_LOADING=EAGER to load everything before the first step.",
    ),
    "idle/lock": Advice(
        "The GPU is idle for {share} of the time while the launching thread waits for the GIL or a lock.",
        "Move Python work of other threads into processes (DataLoader workers instead of threads).",
    ),
    "idle/off_cpu": Advice(
        "The GPU is idle for {share} of the time because the launching thread waits for a CPU core.",
        "Free CPU cores: fewer workers, torch.set_num_threads, or pin the process to cores of its own.",
    ),
    "idle/garbage_collection": Advice(
        "The GPU is idle for {share} of the time while Python collects garbage.",
        "Take gc.collect() out of the step. Call gc.collect() and gc.freeze() once before the loop; or gc.disable(), "
        "and collect every n steps.",
    ),
    "idle/file_io": Advice(
        "The GPU is idle for {share} of the time while the launching thread reads or writes files.",
        "Move reading and writing files to another thread or process, do it less often, or use a faster disk.",
    ),
    "host/checkpoint": Advice(
        "The GPU is idle for {share} of the time while the step writes or reads a checkpoint.",
        "Save in the background: copy the state to the host and write it in another thread or process "
        "(torch.distributed.checkpoint.async_save); save less often; let one rank save.",
    ),
    "host/cpu_quota": Advice(
        "The GPU is idle for {share} of the time because the program used up its CPU quota and was stopped.",
        "Raise the CPU limit of the container, or use fewer threads: OMP_NUM_THREADS, torch.set_num_threads, fewer "
        "loader workers.",
    ),
    "host/tokenizer": Advice(
        "The GPU is idle for {share} of the time while the training process tokenizes text.",
        "Tokenize once before the training (datasets.map), or in the workers of the DataLoader; use a fast tokenizer.",
    ),
    "host/outside_wait": Advice(
        "The GPU is idle for {share} of the time while the step waits for another process, the network or a timer.",
        "Take the wait out of the step: send requests and logs from another thread or process, ask for the next answer "
        "before this step needs it, and remove sleeps; print less to a slow terminal. The evidence names the call.",
    ),
    "host/untraced_wait": Advice(
        "The GPU is idle for {share} of the time while the launching thread waits, off the CPU{range}; which call, "
        "operating system calls would tell.",
        "Capture again with osrt among the traces (--trace cuda,nvtx,osrt): it names the call that waits. Then take "
        "the wait out of the step, or begin it earlier.",
    ),
    "host/file_reads": Advice(
        "The GPU starves for {share} of the time while the training process reads files for the next batch.",
        "Read in the background: DataLoader(num_workers=4, persistent_workers=True). Keep the files on a local disk or "
        "in memory, and read few large files instead of many small ones.",
    ),
    "host/page_faults": Advice(
        "The GPU is idle for {share} of the time while the step waits for pages of memory that are read from disk.",
        "If the step reads a memory-mapped file (np.memmap, safetensors, Arrow), read it in loader workers, or the "
        "parts of a batch at once instead of page by page. If the machine swaps (VmSwap in /proc/PID/status), give the "
        "program more memory or use fewer workers.",
    ),
    "idle/profiler": Advice(
        "The profiler itself accounts for {share} of the time as idle GPU.",
        "The program alone is faster: the section on the profiler's own cost has its step. nsyswrap profile --light "
        "records less, and --baseline measures the step without nsys.",
        can_save=False,
    ),
    "idle/not_traced": Advice(
        "For {share} of the time the capture cannot show what ran.",
        "Capture again with --cuda-graph-trace=node and complete CUDA traces.",
        can_save=False,
    ),
    "idle/unknown": Advice(
        "For {share} of the time the GPU is idle and the capture cannot show why.",
        "Capture again with osrt among the traces, with --sample-cpu, and with NVTX ranges around the phases.",
        can_save=False,
    ),
    "capture/overhead": Advice(
        "The host records NVTX ranges for {share} of the time while the GPU waits: without the profiler the program is "
        "faster.",
        "Take ranges out of inner loops, or profile with --trace cuda,osrt; the saving is one of profiled runs alone.",
    ),
    "modules/in_window": Advice(
        "The GPU is idle for {share} of the time while kernels are compiled and loaded{warm}.",
        "Compile once, before the loop: pass numbers that change as tensors or arguments instead of writing them into "
        "code, mark changing sizes with torch.compile(dynamic=True), and run each shape once before the first step.",
    ),
    "memory/churn": Advice(
        "The GPU is idle for {share} of the time while steps ask the driver for memory and give it back.",
        "Take torch.cuda.empty_cache() out of the step and keep shapes stable (pad, bucket, drop_last=True), so that "
        "the allocator reuses its blocks; or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
    ),
    "data/worker_start": Advice(
        "The GPU starves for {share} of the time while loader processes are started again for another epoch.",
        "Keep them: DataLoader(persistent_workers=True); or make epochs longer.",
    ),
    "gpu/between_operations": Advice(
        "The GPU runs many short operations: it goes from one to the next for {share} of the time, some microseconds "
        "for each.",
        "Let fewer operations do the same: torch.compile fuses elementwise ones, and a larger batch makes all longer.",
        is_slight=True,
    ),
    "synchronization/in_step": Advice(
        "The GPU goes idle for {share} of the time because the host waits for it inside the step and then has to "
        "launch again.",
        "Keep .item(), .cpu(), .tolist(), print(loss) and torch.cuda.synchronize() out of the step: collect tensors "
        "and read them together every n steps.",
    ),
}
"""Advice by rule, for the rules whose findings are part of the section on idle time."""

WARM = " in steps that should be warm"
SHORT_CODE = (
    "Give the GPU more work per launch: a larger batch, torch.compile(model), or CUDA graphs "
    '(torch.compile(mode="reduce-overhead")); move CPU work out of the step.'
)
HEADLINE_OF_LIBRARIES = "The GPU is idle for {share} of the time while the program opens libraries."
ADVICE_OF_LIBRARIES = (
    "Open a library once and keep its handle: ctypes.CDLL opens it again at each call, also for a kernel that "
    "torch.cuda compiles from source."
)
HEADLINE_OF_FIRST_LAUNCHES = "The GPU is idle for {share} of the time while CUDA loads kernels at their first launch."
ADVICE_OF_FIRST_LAUNCHES = (
    "Launch each kernel once, to warm up, before the part that counts. Where loading in that part hurts all the same, "
    "set CUDA_MODULE_LOADING=EAGER: CUDA then loads everything at the start, not at the first launch."
)
SMALL_COPIES = (
    "Copy to the GPU once instead of many times: collect the values in one tensor on the host (torch.stack, or the "
    "collate function of the DataLoader), pin it, and copy it with non_blocking=True."
)
# Where the program's own threads use this share of its cores, they are too many for them; else other programs use the
# cores. Source: ours; two equally busy programs leave one half to each.
OWN_SHARE = 0.75
OWN_THREADS = (
    "The program's own threads are more than its cores: set OMP_NUM_THREADS and torch.set_num_threads lower, use fewer "
    "loader workers, or give the program more cores."
)
OTHER_PROGRAMS = (
    "Other programs use the cores: give this one cores of its own (taskset, cpuset, the CPU request of the container), "
    "or move the others away."
)
# The advice on unknown causes where OS calls were traced already.
STILL_UNKNOWN = "Capture again with --sample-cpu, and with NVTX ranges around the phases."


def advice_for(context: TraceContext, states: ThreadStates, attribution: Attribution, rule: str) -> Advice:
    """Return the advice on a rule, adapted to what the capture shows.

    Args:
        context: The trace, its events and its loop.
        states: What the threads do inside the window.
        attribution: The idle time of the device that the finding is about.
        rule: One of ``ADVICE``.
    """
    advice = ADVICE[rule]
    headline = advice.headline.replace("{warm}", WARM if context.steps.measured_count else "")
    fitted = _FITTED.get(rule)
    text = fitted(context, attribution) if fitted else ""
    if rule == RULE:
        times = _time_of_calls(states, attribution, rule)
        text, headline = file_advice(times), HEADLINE_OF_STREAMS if may_be_stream(times) else headline
    if rule == "idle/peer_wait":
        times = _time_of_calls(states, attribution, rule)
        whose = sorted({library_of(name) for name in times})
        headline = headline.replace("{library}", " and ".join(whose))
    if rule == "idle/module_load":
        times = _time_of_calls(states, attribution, rule)
        if _is_most(times, lambda name: overhead_kind(name) == MODULE_LOAD):
            text, headline = ADVICE_OF_LIBRARIES, HEADLINE_OF_LIBRARIES
        elif _is_most(times, is_launch):
            text, headline = ADVICE_OF_FIRST_LAUNCHES, HEADLINE_OF_FIRST_LAUNCHES
    return replace(advice, headline=headline, advice=text or advice.advice)


def _time_of_calls(states: ThreadStates, attribution: Attribution, rule: str) -> dict[str, int]:
    """Return the idle time of a rule by the call that explains it, in ns."""
    pieces = attribution.pieces.of(attribution.of_rule(rule))
    named = pieces.name < len(states.names)
    spent = np.zeros(len(states.names), np.int64)
    np.add.at(spent, pieces.name[named], pieces.length_of(named))
    return {states.names[each]: int(spent[each]) for each in np.flatnonzero(spent).tolist()}


def _is_most(times: dict[str, int], wanted: Callable[[str], bool]) -> bool:
    """Return whether calls with wanted names take more than half of some time."""
    return 2 * sum(ns for name, ns in times.items() if wanted(name)) > sum(times.values())


def _of_cpu(_context: TraceContext, attribution: Attribution) -> str:
    """Return advice to launch less where most of the CPU time is between launches at their usual pace; else empty."""
    length = attribution.pieces.length_of(attribution.of_rule("idle/cpu"))
    usual = length <= attribution.usual_gap_ns
    return SHORT_CODE if taken(length, usual).sum() > length.sum() / 2 else ""


def _of_waits(context: TraceContext, attribution: Attribution) -> str:
    """Return advice to copy less often where most of the idle time follows copies to the GPU; else empty."""
    chosen = attribution.of_rule(blocking_waits.RULE)
    to_gpu, to_host = (_behind(context, attribution, direction) & chosen for direction in _DIRECTIONS)
    gpu_ns, host_ns, every_ns = (attribution.pieces.length_of(each).sum() for each in (to_gpu, to_host, chosen))
    return SMALL_COPIES if gpu_ns > max(host_ns, every_ns / 2) else ""


_DIRECTIONS = (UPLOAD, DOWNLOAD)


def _behind(
    context: TraceContext, attribution: Attribution, direction: str
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return the pieces whose gap follows a copy of this direction on the device."""
    operations, trace, pieces = context.operations, context.trace, attribution.pieces
    mine = operations.on(attribution.device_id)
    ends = np.sort(taken(operations.end, mine))
    order = np.argsort(taken(operations.end, mine), kind="stable")
    first = np.append(True, pieces.gap[1:] != pieces.gap[:-1])[: len(pieces.gap)]
    before = np.searchsorted(ends, pieces.start[first], side="right") - 1
    last = mine[order[np.maximum(before, 0)]]
    kinds = [kind for kind, label in trace.copy_kinds.items() if label == direction]
    is_copy = (before >= 0) & (operations.table[last] == SOURCES.index(tables.COPIES))
    found = np.zeros(len(last), bool)
    copy_kind = array(trace[tables.COPIES], "copy_kind")
    found[is_copy] = np.isin(copy_kind[operations.row[last[is_copy]]], kinds)
    return np.repeat(found, np.diff(np.append(np.flatnonzero(first), len(pieces.gap))))


def _of_unknown(context: TraceContext, _attribution: Attribution) -> str:
    return STILL_UNKNOWN if len(context.trace[tables.OS_CALLS]) else ""


def core_use(context: TraceContext, window: Window) -> tuple[str, ...]:
    """Return a line of evidence on the cores that the program had and used; empty where that was not sampled."""
    used, had = _cores(context, window)
    if not had:
        return ()
    quota = context.settings.host.quota_cores
    limit = f" (quota {quota:.3g})" if quota else ""
    cores = context.settings.host.cores.get("allowed")
    return (f"the program's threads used {used:.2f} cores on average, of {cores} that they may use{limit}",)


def page_use(context: TraceContext, window: Window) -> tuple[str, ...]:
    """Return a line of evidence on the page faults of the program and on what it read from disk."""
    faults, read = (
        sum(each.growth(name, window.start_ns, window.end_ns) for each in context.settings.host.processes.values())
        for name in ("major_faults", "read_bytes")
    )
    return (f"{units.counted(faults, 'page fault')} read from disk; the program read {units.size(read)} from there",)


def no_core_advice(context: TraceContext, window: Window) -> str:
    """Return advice on waits for a core: who uses the cores, the program's own threads or other programs."""
    used, had = _cores(context, window)
    if not had:
        return ""
    return OWN_THREADS if used >= OWN_SHARE * had else OTHER_PROGRAMS


def _cores(context: TraceContext, window: Window) -> tuple[float, float]:
    """Return how many cores the program's threads used on average, and how many it may use; 0 where unknown."""
    record = context.settings.host
    ran = sum(each.growth("on_cpu_ns", window.start_ns, window.end_ns) for each in record.threads.values())
    had = min(float(record.cores.get("allowed", 0)), record.quota_cores or float("inf"))
    return ran / window.length_ns, had


def _of_off_cpu(context: TraceContext, attribution: Attribution) -> str:
    return no_core_advice(context, attribution.window)


_FITTED: dict[str, Callable[[TraceContext, Attribution], str]] = {
    "idle/cpu": _of_cpu,
    "idle/off_cpu": _of_off_cpu,
    "idle/unknown": _of_unknown,
    blocking_waits.RULE: _of_waits,
}
