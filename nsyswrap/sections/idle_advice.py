"""The headline and the advice of each rule of idle time, adapted to what the capture shows."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from nsyswrap import tables, units
from nsyswrap.attribution.attribution import Attribution
from nsyswrap.attribution.copy_table import DOWNLOAD, UPLOAD
from nsyswrap.attribution.root_causes import blocking_waits
from nsyswrap.events.api_calls import MODULE_LOAD, is_launch, library_of, overhead_kind
from nsyswrap.events.operations import SOURCES
from nsyswrap.events.thread_states import ThreadStates
from nsyswrap.intervals import Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.program_kind import Wording
from nsyswrap.ranks.identity import ranks_of_mpi
from nsyswrap.ranks.mpi_collectives import find_last_rank
from nsyswrap.rows import taken
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


# What to do about waits for the GPU, blocking copies and allocations, in programs that are not PyTorch's: in general,
# and for some kinds.
WAIT_LESS = (
    "Wait less often: keep cudaDeviceSynchronize and cudaStreamSynchronize out of the loop, queue the next kernels "
    "first, and wait with an event for what the host really reads."
)
WAIT_LESS_BY_KIND = {
    "jax": "Keep block_until_ready, float(), np.asarray and prints of device arrays out of the step: dispatch the "
    "next step first, and read values every n steps.",
    "server": "Each step's tokens are read back. Let the engine prepare the next step meanwhile (vLLM: "
    "--async-scheduling), and ask for less: log probabilities only where they are needed.",
    "openacc": "Wait less often: async on regions and updates, and one wait where the host needs the result; keep "
    "data on the GPU in data regions.",
}
COPY_PINNED = (
    "Copy from pinned memory without blocking: cudaMallocHost or cudaHostRegister, and cudaMemcpyAsync on a stream of "
    "its own. To the host, less often."
)
COPY_PINNED_BY_KIND = {
    "jax": "Put the next batch on the device (jax.device_put) while this step runs, and read results less often.",
    "openacc": "Pin the host's memory (the compiler's option for pinned memory, or cudaHostRegister), update with "
    "async, and keep data on the GPU in data regions.",
}
ALLOCATE_ONCE = (
    "Allocate once, before the loop; or from a pool that keeps what is freed: cudaMallocAsync with a release threshold "
    "(cudaMemPoolAttrReleaseThreshold)."
)
ALLOCATE_ONCE_BY_KIND = {
    "jax": "Let JAX keep its memory: unset XLA_PYTHON_CLIENT_ALLOCATOR=platform and "
    "XLA_PYTHON_CLIENT_PREALLOCATE=false.",
    "openacc": "Allocate once: a data region, or enter data create, around the loop instead of copies in each region.",
}

ADVICE = {
    "idle/data_wait": Advice(
        Wording(
            "The GPU starves for {share} of the time while the training loop waits for the data loader.",
            "The GPU starves for {share} of the time while the program waits for its data.",
            server="The GPU starves for {share} of the time while the engine waits for requests, or for "
            "another of its processes.",
        ),
        Wording(
            "Give the DataLoader more workers (num_workers), pin_memory=True, persistent_workers=True and a larger "
            "prefetch_factor, or make the transform cheaper.",
            "Read and prepare the next data in threads or processes of their own while the GPU computes, enough of "
            "them to keep up, or make the preparation cheaper.",
            server="Profile it under the load of a real service: more requests at once. Where they wait all the same, "
            "the processes before the engine (HTTP, tokenizer) hold them up: give these more cores, or run more of "
            "them.",
            jax="Prefetch: more workers and a larger buffer in tf.data or grain, and the next batch on the device "
            "(jax.device_put) while this step runs.",
        ),
    ),
    "idle/data_work": Advice(
        Wording(
            "The GPU starves for {share} of the time while the training process prepares the data itself.",
            "The GPU starves for {share} of the time while the launching thread prepares the data itself.",
        ),
        Wording(
            "Load in the background: DataLoader(num_workers=4, pin_memory=True, persistent_workers=True); with workers "
            "already there, move collating and unpacking into them.",
            "Prepare the next data in another thread or process while the GPU computes on this one.",
            jax="Load in the background: tf.data or grain with workers and prefetch, and the next batch on the device "
            "(jax.device_put) while this step runs.",
        ),
    ),
    "idle/cpu": Advice(
        Wording(
            "The GPU waits {share} of the time for Python and other CPU code outside CUDA calls.",
            "The GPU waits {share} of the time for CPU code outside CUDA calls.",
        ),
        Wording(
            "Find what the CPU does in the step (nsyswrap profile --python-sampling shows its Python line), and move "
            "it out of the step or into another process.",
            "Find what the CPU does between the launches (samples of its call stacks in Nsight Systems show it), and "
            "move it out of the loop, into another thread, or to the GPU.",
            jax="Find what the CPU does between the steps (nsyswrap profile --python-sampling shows its Python line), "
            "and move it out of the loop, or under jax.jit.",
            server="The engine's own work between steps (scheduling, sampling, turning tokens into text) sets the "
            "pace. Let it prepare the next step while this one runs (vLLM: --async-scheduling), batch more requests, "
            "and give it cores of its own.",
        ),
    ),
    "idle/launch": Advice(
        "The GPU waits {share} of the time for launch calls: the kernels are too short for the host to keep ahead.",
        Wording(
            "Launch less: CUDA graphs or torch.compile, a fused optimizer (fused=True), a larger batch.",
            "Launch less: fuse small kernels, give each more work, or use CUDA graphs.",
            jax="Launch less: more of the step under one jax.jit, so that XLA fuses it. XLA's command buffers are "
            "CUDA graphs.",
            server="Launch less: let the engine use CUDA graphs (vLLM: without --enforce-eager), and batch more "
            "requests.",
            openacc="Launch less: merge small regions, collapse loops so that each kernel does more, and queue "
            "regions with async.",
        ),
    ),
    "idle/queued": Advice(
        "Operations were launched but had not begun for {share} of the time.",
        "Look at dependencies between streams and at launch latency in the timeline.",
    ),
    "idle/synchronization": Advice(
        "The GPU is idle for {share} of the time because the host waits for it in a synchronizing call.",
        Wording(
            "Keep .item(), .cpu(), print(loss) and torch.cuda.synchronize() out of the step; log every n steps.",
            WAIT_LESS,
            **WAIT_LESS_BY_KIND,
        ),
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
        Wording(
            "Copy from pinned memory without blocking: pin_memory=True and tensor.to(device, non_blocking=True).",
            COPY_PINNED,
            **COPY_PINNED_BY_KIND,
        ),
    ),
    "idle/allocation": Advice(
        "The GPU is idle for {share} of the time while memory is allocated or freed.",
        Wording(
            "Keep shapes stable so that the caching allocator can reuse blocks; allocate before the loop; "
            "try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
            ALLOCATE_ONCE,
            **ALLOCATE_ONCE_BY_KIND,
        ),
    ),
    "idle/module_load": Advice(
        "The GPU is idle for {share} of the time while modules are loaded or code is compiled.",
        "Warm up before measuring; set CUDA_MODULE_LOADING=EAGER to load everything before the first step.",
    ),
    "idle/lock": Advice(
        Wording(
            "The GPU is idle for {share} of the time while the launching thread waits for the GIL or a lock.",
            "The GPU is idle for {share} of the time while the launching thread waits for a lock.",
        ),
        Wording(
            "Move Python work of other threads into processes (DataLoader workers instead of threads).",
            "Find what holds the lock: the evidence names the call. Hold it for shorter, give each thread data of its "
            "own, or launch from one thread.",
            jax="Move Python work of other threads into processes: threads of Python share one lock, the GIL.",
            server="Move work of other threads (tokenizing, HTTP) into processes of its own: threads of Python share "
            "one lock, the GIL.",
        ),
    ),
    "idle/off_cpu": Advice(
        "The GPU is idle for {share} of the time because the launching thread waits for a CPU core.",
        Wording(
            "Free CPU cores: fewer workers, torch.set_num_threads, or pin the process to cores of its own.",
            "Free CPU cores: fewer threads (OMP_NUM_THREADS), or pin the process to cores of its own.",
        ),
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
        Wording(
            "Raise the CPU limit of the container, or use fewer threads: OMP_NUM_THREADS, torch.set_num_threads, fewer "
            "loader workers.",
            "Raise the CPU limit of the container, or use fewer threads: OMP_NUM_THREADS.",
        ),
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
        Wording(
            "The GPU starves for {share} of the time while the training process reads files for the next batch.",
            "The GPU starves for {share} of the time while the launching thread reads files.",
        ),
        Wording(
            "Read in the background: DataLoader(num_workers=4, persistent_workers=True). Keep the files on a local "
            "disk or in memory, and read few large files instead of many small ones.",
            "Read in the background: in another thread, before the data is needed. Keep the files on a local disk or "
            "in memory, and read few large files instead of many small ones.",
        ),
    ),
    "host/page_faults": Advice(
        "The GPU is idle for {share} of the time while the step waits for pages of memory that are read from disk.",
        Wording(
            "If the step reads a memory-mapped file (np.memmap, safetensors, Arrow), read it in loader workers, or the "
            "parts of a batch at once instead of page by page. If the machine swaps (VmSwap in /proc/PID/status), give "
            "the program more memory or use fewer workers.",
            "If it reads a memory-mapped file, read it in another thread before it is needed (MAP_POPULATE, madvise), "
            "in large parts instead of page by page. If the machine swaps (VmSwap in /proc/PID/status), give the "
            "program more memory.",
        ),
    ),
    "idle/profiler": Advice(
        "The profiler itself accounts for {share} of the time as idle GPU.",
        "The program alone is faster: the section on the profiler's own cost has its step. nsyswrap profile --light "
        "records less, and --baseline measures the step without nsys.",
        can_save=False,
    ),
    "idle/not_traced": Advice(
        "For {share} of the time the capture cannot show what ran.",
        "Capture again: with --cuda-graph-trace=node if the program launches CUDA graphs, and with an nsys at least as "
        "new as the CUDA driver, since an older one loses launch calls.",
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
        Wording(
            "Compile once, before the loop: pass numbers that change as tensors or arguments instead of writing them "
            "into code, mark changing sizes with torch.compile(dynamic=True), and run each shape once before the first "
            "step.",
            "Compile and load before the loop: build for this GPU (-arch), so that the driver need not compile PTX, "
            "keep what NVRTC compiled, and launch each kernel once to warm up.",
            jax="Compile once, before the loop: the same shapes and static arguments in each call of jax.jit "
            "(jax_log_compiles shows each compilation), and each shape once before the first step.",
            server="Let the engine compile and capture all batch sizes at its start, and keep its compilation cache.",
        ),
    ),
    "memory/churn": Advice(
        "The GPU is idle for {share} of the time while steps ask the driver for memory and give it back.",
        Wording(
            "Take torch.cuda.empty_cache() out of the step and keep shapes stable (pad, bucket, drop_last=True), so "
            "that the allocator reuses its blocks; or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
            ALLOCATE_ONCE,
            **ALLOCATE_ONCE_BY_KIND,
        ),
    ),
    "data/worker_start": Advice(
        Wording(
            "The GPU starves for {share} of the time while loader processes are started again for another epoch.",
            "The GPU starves for {share} of the time while processes that load data are started again.",
        ),
        Wording(
            "Keep them: DataLoader(persistent_workers=True); or make epochs longer.",
            "Start them once and keep them.",
        ),
    ),
    "gpu/between_operations": Advice(
        "The GPU runs many short operations: it goes from one to the next for {share} of the time, some microseconds "
        "for each.",
        Wording(
            "Let fewer operations do the same: torch.compile fuses elementwise ones, and a larger batch makes all "
            "longer.",
            "Let fewer kernels do the same: fuse small ones, and give each more work.",
            jax="Let fewer kernels do the same: more of the step under one jax.jit, and a larger batch.",
            server="Let fewer kernels do the same: batch more requests, and use the engine's fused kernels.",
        ),
        is_slight=True,
    ),
    "synchronization/in_step": Advice(
        Wording(
            "The GPU goes idle for {share} of the time because the host waits for it inside the step and then has to "
            "launch again.",
            "The GPU goes idle for {share} of the time because the host waits for it before it launches more.",
        ),
        Wording(
            "Keep .item(), .cpu(), .tolist(), print(loss) and torch.cuda.synchronize() out of the step: collect "
            "tensors and read them together every n steps.",
            WAIT_LESS,
            **WAIT_LESS_BY_KIND,
        ),
    ),
}
"""Advice by rule, for the rules whose findings are part of the section on idle time."""

WARM = " in steps that should be warm"
SHORT_CODE = Wording(
    "Give the GPU more work per launch: a larger batch, torch.compile(model), or CUDA graphs "
    '(torch.compile(mode="reduce-overhead")); move CPU work out of the step.',
    "Give the GPU more work per launch: larger kernels, fused ones, or CUDA graphs; move CPU work out of the loop.",
    jax="Give the GPU more work per launch: more of the step under one jax.jit, a larger batch; move CPU work out of "
    "it.",
    server="Give the GPU more work per launch: batch more requests, and let the engine use CUDA graphs (vLLM: without "
    "--enforce-eager).",
    openacc="Give the GPU more work per launch: merge small regions and collapse loops; queue regions with async.",
)
HEADLINE_OF_LIBRARIES = "The GPU is idle for {share} of the time while the program opens libraries."
ADVICE_OF_LIBRARIES = Wording(
    "Open a library once and keep its handle: ctypes.CDLL opens it again at each call, also for a kernel that "
    "torch.cuda compiles from source.",
    "Open a library once and keep its handle (dlopen).",
)
HEADLINE_OF_FIRST_LAUNCHES = "The GPU is idle for {share} of the time while CUDA loads kernels at their first launch."
ADVICE_OF_FIRST_LAUNCHES = (
    "Launch each kernel once, to warm up, before the part that counts. Where loading in that part hurts all the same, "
    "set CUDA_MODULE_LOADING=EAGER: CUDA then loads everything at the start, not at the first launch."
)
SMALL_COPIES = Wording(
    "Copy to the GPU once instead of many times: collect the values in one tensor on the host (torch.stack, or the "
    "collate function of the DataLoader), pin it, and copy it with non_blocking=True.",
    "Copy to the GPU once instead of many times: collect the values in one pinned buffer on the host, and copy it with "
    "cudaMemcpyAsync.",
    jax="Copy to the GPU once instead of many times: one jax.device_put of all values together.",
    openacc="Copy to the GPU once instead of many times: one data region around the loop, and one update of all "
    "values.",
)
# Where the program's own threads use this share of its cores, they are too many for them; else other programs use the
# cores. Source: ours; two equally busy programs leave one half to each.
OWN_SHARE = 0.75
OWN_THREADS = Wording(
    "The program's own threads are more than its cores: set OMP_NUM_THREADS and torch.set_num_threads lower, use fewer "
    "loader workers, or give the program more cores.",
    "The program's own threads are more than its cores: set OMP_NUM_THREADS lower, or give the program more cores.",
)
OTHER_PROGRAMS = (
    "Other programs use the cores: give this one cores of its own (taskset, cpuset, the CPU request of the container), "
    "or move the others away."
)
# The advice on unknown causes where OS calls were traced already.
STILL_UNKNOWN = "Capture again with --sample-cpu, and with NVTX ranges around the phases."


def _of_last_rank(context: TraceContext, attribution: Attribution) -> str:
    """Return advice that names the rank that others wait for in collectives of MPI; empty where none does, or is it."""
    found = find_last_rank(context.trace, attribution.window)
    if found is None or found.process in context.operations.processes_of(attribution.device_id):
        return ""
    number = ranks_of_mpi(context.trace).get(found.process)
    name = f"Process {tables.pid(found.process)}" if number is None else f"Rank {number}"
    return (
        f"{name} is the last to begin in {found.last} of {units.counted(found.collectives, 'collective')}: the others "
        "wait for it. What its host does then, and what its GPU waits for, is to be fixed."
    )


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
        times, text = _time_of_calls(states, attribution, rule), _of_last_rank(context, attribution)
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
