"""Programs of many kinds as exports, with all times chosen, so that the ledger, the steps and the verdict follow.

A host thread works, launches, copies and waits one after another. A launch takes ``CALL`` ns. An operation begins
``LATENCY`` ns after its launch has returned, or when the one before it in its stream ends. A wait returns ``WAKE`` ns
after what it waits for::

    thread    work |call|call|call|  wait       |  work
    GPU                   |## 1 ##|## 2 ##|# 3 #|

What ran is kept beside the export, and ``expected_ledger`` adds it up nanosecond by nanosecond.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, Self

from export_builder import DEVICE_TO_HOST, HOST_TO_DEVICE, ExportBuilder, global_id, trace_of

from nsyswrap.trace.tables import Trace

# The value of any column of a table.
Column = Any
US, MS = 1_000, 1_000_000
CALL, LATENCY, WAKE = 5 * US, 3 * US, 4 * US
BEGIN = 100 * MS
STEPS, WARM_UP = 12, 2
MEASURED = STEPS - WARM_UP
COMPUTE, COMMUNICATION, COPY, MEMSET = "compute_ns", "communication_ns", "copy_exposed_ns", "memset_exposed_ns"
PRIORITY = (COMPUTE, COMMUNICATION, COPY, MEMSET)
GEMM = "void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_f16_128x128_32x4_nn_align8>(Params)"
MANAGED = 4
WIDE = {"gridX": 4000, "blockX": 256}
FROM_FAULT_TO_DEVICE, FROM_FAULT_TO_HOST = 11, 12


class Ran(NamedTuple):
    """An operation: the GPU, what the ledger counts it as, and from when to when."""

    device: int
    kind: str
    start: int
    end: int


class Span(NamedTuple):
    """From when to when, in ns."""

    start: int
    end: int


@dataclass
class Machine:
    """GPUs and their streams.

    Attributes:
        built: The export under construction.
        free: When each stream of a process is free again.
        calls: Number of calls that started an operation.
    """

    built: ExportBuilder = field(default_factory=lambda: ExportBuilder().session())
    ran: list[Ran] = field(default_factory=list)
    free: dict[tuple[int, int, int], int] = field(default_factory=dict)
    calls: int = 0

    def thread(self, pid: int = 4711, tid: int | None = None, device: int = 0, at: int = BEGIN) -> "Thread":
        """Return a thread of a process that uses a GPU, from a time on."""
        return Thread(self, global_id(pid), global_id(pid, tid or pid), device, at)

    def begin(self, where: tuple[int, int, int], ready: int, length: int) -> Span:
        """Return when an operation runs that is ready at a time."""
        start = max(ready, self.free.get(where, 0))
        self.free[where] = start + length
        return Span(start, start + length)


@dataclass
class Thread:
    """A thread of the host, at a moment.

    Attributes:
        process: Global id of its process.
        number: Its own global id.
        device: The GPU that it uses, in this machine.
        now: The moment, in ns.
        shift: What to add to the times of its operations in the export: the error of the GPU's clock.
        columns: Columns of its operations in the export, such as the device that the process sees.
    """

    machine: Machine
    process: int
    number: int
    device: int
    now: int
    shift: int = 0
    columns: dict[str, Column] = field(default_factory=dict)

    def work(self, ns: int) -> Self:
        """Let it do something on its own."""
        self.now += ns
        return self

    def call(self, name: str, ns: int, **columns: Column) -> Self:
        """Let it make a CUDA call that starts nothing."""
        self.machine.built.call(name, self.now, self.now + ns, thread=self.number, **columns)
        return self.work(ns)

    def os_call(self, name: str, ns: int) -> Self:
        """Let it make a call of the operating system."""
        self.machine.built.os_call(name, self.now, self.now + ns, thread=self.number)
        return self.work(ns)

    def launch(self, name: str, *lengths: int, stream: int = 7, call: str = "cudaLaunchKernel", **more: Column) -> Self:
        """Launch kernels of these lengths, one after another."""
        for length in lengths:
            span, about = self._started(call, length, stream)
            kind = COMMUNICATION if "nccl" in name else COMPUTE
            self._ran(kind, span)
            at, end = span.start + self.shift, span.end + self.shift
            self.machine.built.kernel(at, end, name, **{**about, **WIDE, **more})
        return self

    def copy(
        self, length: int, kind: int = HOST_TO_DEVICE, *, stream: int = 7, call: str = "cudaMemcpyAsync", **more: Column
    ) -> Self:
        """Copy between pinned memory and the GPU, without waiting for it."""
        span, about = self._started(call, length, stream)
        self._ran(COPY, span)
        self.machine.built.copy(span.start + self.shift, span.end + self.shift, kind, **{**about, **more})
        return self

    def graph(self, *lengths: int, stream: int = 7, nodes: bool = False, call: str = "cudaGraphLaunch") -> Self:
        """Launch a CUDA graph of kernels that run one after another; ``nodes`` traces each of them."""
        span, about = self._started(call, sum(lengths), stream)
        if not nodes:
            self._ran(COMPUTE, span)
            self.machine.built.graph(span.start, span.end, **about)
            return self
        at = span.start
        for node, length in enumerate(lengths):
            self._ran(COMPUTE, Span(at, at + length))
            self.machine.built.kernel(at, at + length, GEMM, **{**about, **WIDE, "graph_node": 100 + node})
            at += length
        return self

    def wait(self, *streams: int, call: str = "cudaStreamSynchronize") -> Self:
        """Wait for some streams of the process on its GPU; for all where none is given."""
        known = {stream: end for (owner, device, stream), end in self.machine.free.items()
                 if (owner, device) == (self.process, self.device)}  # fmt: skip
        ends = [known[each] for each in streams or known if each in known]
        until = max(self.now + CALL, max(ends, default=0) + WAKE)
        self.machine.built.call(call, self.now, until, thread=self.number)
        self.now = until
        return self

    def range(self, text: str, start: int, end: int | None = None, **columns: Column) -> Self:
        """Mark from a moment until now, or until another."""
        self.machine.built.range(text, start, self.now if end is None else end, thread=self.number, **columns)
        return self

    def _started(self, call: str, length: int, stream: int) -> tuple[Span, dict[str, Column]]:
        """Add a call that starts an operation; return when that runs, and the columns of its row."""
        begun, self.now = self.now, self.now + CALL
        self.machine.calls += 1
        is_driver = not call.startswith("cuda")
        about: dict[str, Column] = {"correlation": self.machine.calls, "eventClass": int(is_driver)}
        self.machine.built.call(call, begun, self.now, thread=self.number, **about)
        span = self.machine.begin((self.process, self.device, stream), self.now + LATENCY, length)
        where = {"device": self.device, "stream": stream, "process": self.process, "correlation": self.machine.calls}
        return span, {**where, **self.columns}

    def _ran(self, kind: str, span: Span) -> None:
        self.machine.ran.append(Ran(self.device, kind, span.start + self.shift, span.end + self.shift))


def expected_ledger(ran: Iterable[Ran], device: int, window: Span) -> dict[str, int]:
    """Return how long a GPU does each kind of work in a window, and is idle, by a plain loop, in ns.

    Where operations overlap, a nanosecond belongs to the first kind of ``PRIORITY``.
    """
    mine = [each for each in ran if each.device == device and each.end > window.start and each.start < window.end]
    edges = sorted(
        {window.start, window.end, *(min(max(at, window.start), window.end) for each in mine for at in each[2:])}
    )
    found = dict.fromkeys((*PRIORITY, "idle_ns"), 0)
    for start, end in pairwise(edges):
        kinds = {each.kind for each in mine if each.start <= start and each.end >= end}
        found[next((kind for kind in PRIORITY if kind in kinds), "idle_ns")] += end - start
    return found


@dataclass(frozen=True)
class Made:
    """A program, and what follows from its times.

    Attributes:
        machine: The export, and what ran.
        steps: The measured steps by process id; none where it has no steps.
        verdict: The rule of the verdict; None where only kernels limit the run, or no GPU worked.
        says: What the verdict says, among others.
        idle: Idle time of each GPU by cause, in ns; None where it is not part of the case.
    """

    machine: Machine
    steps: Mapping[int, tuple[Span, ...]]
    verdict: str | None
    says: str = ""
    idle: Mapping[int, Mapping[str, int]] | None = None

    def own(self, pid: int) -> Span:
        """Return from the first measured step of a process to the end of its last."""
        return Span(self.steps[pid][0].start, self.steps[pid][-1].end)

    def trace(self) -> Trace:
        """Return the export as it is read."""
        return trace_of(self.machine.built)


WORK, EACH, LAUNCHES = 8 * MS, 250 * US, 8


def measured(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Return the steps without the warm-up."""
    return tuple(spans[WARM_UP:])


def slow_host(thread: Thread, steps: int = STEPS, *, name: str = "step {}", **launched: Column) -> list[Span]:
    """Let a thread work for 8 ms in each step and launch eight kernels of 0.25 ms; return the steps.

    ::

        host    |....... work 8 ms .......|8 calls|....... work 8 ms .......|8 calls|
        GPU                                 |# 2 ms #|......... idle .......  |# 2 ms #|
    """
    spans = []
    for number in range(steps):
        begin = thread.now
        thread.work(WORK).launch(GEMM, *[EACH] * LAUNCHES, **launched)
        spans.append(Span(begin, thread.now))
        if name:
            thread.range(name.format(number), begin)
    return spans


def slow_host_idle(burst: int = LAUNCHES) -> dict[str, int]:
    """Return the idle time in the measured steps of ``slow_host`` by cause, where a burst has so many launches.

    A gap lasts from the end of the last kernel to the first of the next step: the launch takes ``CALL`` and ``LATENCY``
    of it, the host works in the rest.
    """
    gap = WORK + burst * CALL - LAUNCHES * EACH
    each = {"cpu": gap - CALL - LATENCY, "launch": CALL, "queued": LATENCY}
    return {cause: MEASURED * ns for cause, ns in each.items()}


def _machine(*gpus: int, **columns: Column) -> Machine:
    made = Machine()
    for gpu in gpus or (0,):
        made.built.gpu(gpu, **columns)
    made.built.os_call("mmap", 0, 1)
    return made


def mpi_late_rank() -> Made:
    """Two ranks with GPUs of their own; rank 1 works 4 ms longer on the CPU before each MPI_Allreduce.

    ::

        rank 0    |work 1 ms|launch, wait 0.6 ms|MPI_Allreduce: waits 4 ms for rank 1|
        rank 1    |work .................. 5 ms|launch, wait 0.6 ms|MPI_Allreduce|
    """
    machine = _machine(0, 1)
    ranks = [machine.thread(5000 + rank, device=rank) for rank in range(2)]
    steps: list[list[Span]] = [[], []]
    for rank, thread in enumerate(ranks):
        machine.built.row("MPI_RANKS", globalTid=thread.number, rank=rank)
    for number in range(STEPS):
        begins = [thread.now for thread in ranks]
        for thread, work in zip(ranks, (1 * MS, 5 * MS), strict=True):
            thread.work(work).launch(GEMM, *[100 * US] * 6).wait()
        both = max(thread.now for thread in ranks) + 20 * US
        for rank, (thread, begin) in enumerate(zip(ranks, begins, strict=True)):
            name = machine.built.string("MPI_Allreduce")
            about = {"thread": thread.number, "textId": name, "commHandle": 1, "size": 4096, "recvSize": 4096}
            machine.built.row("MPI_COLLECTIVES_EVENTS", start=thread.now, end=both, **about)
            thread.now = both
            thread.range(f"step {number}", begin)
            steps[rank].append(Span(begin, both))
    return Made(machine, {5000 + rank: measured(each) for rank, each in enumerate(steps)}, "idle/cpu")


def managed_with_prefetch() -> Made:
    """Managed memory that is prefetched: 4 ms of copies, then 4 ms of kernels, in one stream."""
    machine = _machine()
    thread, spans = machine.thread(), []
    for number in range(STEPS):
        begin = thread.now
        kinds = {"srcKind": MANAGED, "dstKind": MANAGED, "bytes": 64 << 20}
        thread.copy(4 * MS, FROM_FAULT_TO_DEVICE, call="cudaMemPrefetchAsync", **kinds)
        thread.launch(GEMM, *[500 * US] * 8).wait()
        spans.append(Span(begin, thread.now))
        thread.range(f"step {number}", begin)
    return Made(machine, {4711: measured(spans)}, "copies/exposed", "copies and computes nothing for 49")


def managed_without_prefetch() -> Made:
    """Managed memory that the host reads after each step: 40 migrations of 50 us, each 10 us after the one before.

    The kernels of 4 ms before it include the faults that move their pages. No call launches a migration. After the
    kernels pages move for 20 of 64.12 ms; for 4.04 ms the host wakes up, and works until it touches the next page.
    """
    machine = _machine()
    thread, spans = machine.thread(), []
    for number in range(STEPS):
        begin = thread.now
        thread.launch(GEMM, *[500 * US] * 8).wait()
        kinds: dict[str, Column] = {"srcKind": MANAGED, "dstKind": MANAGED, "bytes": 1 << 16, "process": thread.process}
        for _ in range(40):
            thread.work(10 * US)
            span = Span(thread.now, thread.now + 50 * US)
            machine.built.copy(*span, FROM_FAULT_TO_HOST, migrationCause=2, correlation=0, **kinds)
            machine.ran.append(Ran(0, COPY, *span))
            thread.now = span.end
        spans.append(Span(begin, thread.now))
        thread.range(f"step {number}", begin)
    return Made(machine, {4711: measured(spans)}, "memory/migrations", "take 37.5 % of the time")


def _graphs(*, nodes: bool, call: str = "cudaGraphLaunch") -> Made:
    machine = _machine()
    machine.built.option("PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE", "Node" if nodes else "Graph")
    thread, spans = machine.thread(), []
    for number in range(STEPS):
        begin = thread.now
        thread.work(WORK).graph(*[EACH] * LAUNCHES, nodes=nodes, call=call)
        spans.append(Span(begin, thread.now))
        thread.range(f"step {number}", begin)
    return Made(machine, {4711: measured(spans)}, "idle/cpu", idle={0: slow_host_idle(1)})


def graph_level() -> Made:
    """CUDA graphs that are traced as a whole: the host works for 8 ms before each launch of a graph of 2 ms."""
    return _graphs(nodes=False)


def node_level() -> Made:
    """The same CUDA graphs, each of their kernels traced."""
    return _graphs(nodes=True)


def one_gpu_of_two_processes() -> Made:
    """Two processes that share one GPU, as with MPS; the second one begins half a step later."""
    machine = _machine()
    steps = {}
    for pid, later in ((5000, 0), (5001, 4 * MS)):
        steps[pid] = measured(slow_host(machine.thread(pid, at=BEGIN + later)))
    # In each step of the first process the GPU runs a burst of each, and is idle before both.
    work, length = WORK + LAUNCHES * CALL, LAUNCHES * EACH
    both = {"cpu": work - 2 * (length + CALL + LATENCY), "launch": 2 * CALL, "queued": 2 * LATENCY}
    return Made(machine, steps, "idle/cpu", idle={0: {cause: MEASURED * ns for cause, ns in both.items()}})


def equal_device_ids() -> Made:
    """Two processes that each see one GPU as device 0: CUDA_VISIBLE_DEVICES gives them different ones."""
    machine = _machine(0, 1)
    steps = {}
    for gpu, pid in enumerate((5000, 5001)):
        machine.built.visible_device(0, gpu, pid)
        thread = machine.thread(pid, device=gpu)
        thread.columns = {"device": 0}
        steps[pid] = measured(slow_host(thread))
    return Made(machine, steps, "idle/cpu", idle={gpu: slow_host_idle() for gpu in range(2)})


def old_export() -> Made:
    """The export of nsys 2022: fewer columns, and 0 where a value is missing."""
    machine = Machine(ExportBuilder(2022).session())
    machine.built.gpu(0).os_call("mmap", 0, 1)
    thread, spans = machine.thread(), []
    for number in range(STEPS):
        begin = thread.now
        thread.work(WORK).launch(GEMM, *[EACH] * LAUNCHES, graph_node=0)
        spans.append(Span(begin, thread.now))
        thread.range(f"step {number}", begin, registered=False, textId=0, end_thread=0, rangeId=0)
    for table, column in (("CUPTI_ACTIVITY_KIND_KERNEL", "sharedMemoryExecuted"), ("OSRT_API", "nestingLevel")):
        machine.built.without(table, column)
    return Made(machine, {4711: measured(spans)}, "idle/cpu", idle={0: slow_host_idle()})


def oldest_export() -> Made:
    """The export of nsys 2020: GPUs are described in another table, and optional columns are not there."""
    made = old_export()
    built = made.machine.built
    sizes = {"numMultiprocessors": 80, "globalMemorySize": 16 << 30, "maxWarpsPerMultiprocessor": 64}
    sizes |= {"maxBlocksPerMultiprocessor": 32, "maxRegistersPerMultiprocessor": 65536, "coreClockRate": 1_530_000}
    sizes |= {"maxSharedMemoryPerMultiprocessor": 98304, "globalMemoryBandwidth": 898_048_000, "l2CacheSize": 6 << 20}
    about: dict[str, Column] = {"name": "Tesla V100-SXM2-16GB", "pciBusId": "0000:00:1e.0", **sizes}
    built.row("TARGET_INFO_CUDA_GPU", deviceId=0, computeCapabilityMajor=7, computeCapabilityMinor=0, **about)
    built.without("TARGET_INFO_GPU")
    built.without("CUPTI_ACTIVITY_KIND_KERNEL", "graphNodeId", "sharedMemoryLimitConfig", "mangledName")
    built.without("NVTX_EVENTS", "endGlobalTid", "jsonText", "jsonTextId")
    return made


def xla_loop() -> Made:
    """A loop of JAX: no ranges; XLA launches fusions through the driver from a thread of its own pool.

    The Python thread prepares a batch for 6 ms and hands the step to a thread that copies, launches and reads the loss.
    """
    machine = _machine()
    main, worker = machine.thread(), machine.thread(tid=4720)
    machine.built.thread_name(worker.number, "tf_XLATfrtCpuClient")
    spans = []
    for _ in range(STEPS + 2):
        begin = main.now
        main.work(6 * MS)
        worker.now = main.now + 10 * US
        worker.copy(200 * US, call="cuMemcpyHtoDAsync_v2", bytes=4 << 20)
        for name in ("input_transpose_fusion", "gemm_fusion_dot_12", "loop_multiply_fusion", "input_reduce_fusion_3"):
            worker.launch(name, 400 * US, call="cuLaunchKernel")
        worker.copy(10 * US, DEVICE_TO_HOST, call="cuMemcpyDtoHAsync_v2", bytes=4).wait(call="cuStreamSynchronize")
        machine.built.os_call("pthread_cond_wait", main.now, worker.now, thread=main.number)
        main.now = worker.now
        spans.append(Span(begin, main.now))
    return Made(machine, {4711: measured(spans)}, "idle/data_work")


def inference_server() -> Made:
    """A server with two streams: two threads wait 6 ms for a request each and answer it in 2 ms; no ranges."""
    machine = _machine()
    threads = [machine.thread(tid=4711 + number, at=BEGIN + number * 4 * MS) for number in range(2)]
    for _ in range(16):
        for number, thread in enumerate(threads):
            thread.os_call("epoll_wait", 6 * MS).copy(100 * US, stream=13 + number)
            thread.launch(GEMM, *[300 * US] * 6, stream=13 + number)
            thread.copy(10 * US, DEVICE_TO_HOST, stream=13 + number).wait(13 + number)
    return Made(machine, {}, "host/outside_wait")


def fortran() -> Made:
    """An OpenACC program: no ranges, calls of the driver; its host works ten times as long as its six kernels."""
    machine = _machine()
    thread, spans = machine.thread(), []
    machine.built.row("PROCESSES", globalPid=thread.process, pid=4711, name="/opt/solver/bin/heat")
    machine.built.command("/opt/solver/bin/heat")
    for _ in range(STEPS + 2):
        begin = thread.now
        thread.work(3 * MS)
        for line in (112, 118, 127, 133, 140, 151):
            thread.launch(f"advance_{line}_gpu", 50 * US, call="cuLaunchKernel")
        thread.wait(call="cuStreamSynchronize")
        spans.append(Span(begin, thread.now))
    return Made(machine, {4711: measured(spans)}, "idle/cpu")


def only_copies() -> Made:
    """A program that copies and computes nothing: 40 copies of 2 ms from pinned memory, one after another."""
    machine = _machine()
    thread = machine.thread()
    for _ in range(40):
        thread.copy(2 * MS, bytes=64 << 20)
    thread.wait()
    return Made(machine, {}, "copies/exposed", "100.0 % of the time", idle={0: {}})


def driver_launches() -> Made:
    """Launches by the driver's functions alone, as Triton, TensorRT and XLA make them."""
    machine = _machine()
    spans = slow_host(machine.thread(), call="cuLaunchKernel")
    return Made(machine, {4711: measured(spans)}, "idle/cpu", idle={0: slow_host_idle()})


def driver_graphs() -> Made:
    """Graphs that the driver's function launches."""
    return _graphs(nodes=False, call="cuGraphLaunch")


def five_threads() -> Made:
    """Five threads that take turns to launch into streams of their own; the GPU is never idle.

    ::

        thread 0    |launch 6 ms|                           |launch 6 ms|
        thread 1          |launch 6 ms|
        GPU          |##### 6 ms #####|##### 6 ms ##### ...
    """
    machine = _machine()
    main = machine.thread()
    threads = [main, *(machine.thread(tid=4712 + number) for number in range(4))]
    at = BEGIN
    spans = []
    for number in range(STEPS):
        begin = at
        for place, thread in enumerate(threads):
            thread.now = at
            thread.launch(GEMM, *[500 * US] * 12, stream=20 + place)
            at += 6 * MS
        spans.append(Span(begin, at))
        main.range(f"step {number}", begin, at)
    return Made(machine, {4711: measured(spans)}, None, "Compute-bound")


def cut_in_a_step() -> Made:
    """The capture begins and ends inside steps: one range has no begin and is missing, and one has no end."""
    machine = _machine()
    thread = machine.thread()
    thread.launch(GEMM, *[EACH] * LAUNCHES)
    spans = slow_host(thread, name="step {}")
    begin = thread.now
    thread.work(WORK).launch(GEMM, *[EACH] * 3)
    machine.built.range(f"step {STEPS}", begin, None, thread=thread.number)
    return Made(machine, {4711: measured(spans)}, "idle/cpu", idle={0: slow_host_idle()})


def without_ranges() -> Made:
    """Training without a range: the host prepares a batch for 6 ms; the pattern of the work shows the steps."""
    machine = _machine()
    thread, spans = machine.thread(), []
    for _ in range(STEPS + 4):
        begin = thread.now
        thread.work(6 * MS).copy(100 * US, bytes=1 << 20).launch(GEMM, *[EACH] * 6)
        thread.launch("void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor<float>>(int)", EACH, EACH).wait()
        spans.append(Span(begin, thread.now))
    return Made(machine, {4711: measured(spans)}, "idle/data_work")


def ranges_of_another_thread() -> Made:
    """A thread marks the steps and another one launches: a driver and its worker."""
    machine = _machine()
    marking, launching = machine.thread(), machine.thread(tid=4712)
    spans = slow_host(launching, name="")
    for number, span in enumerate(spans):
        machine.built.range(f"step {number}", *span, thread=marking.number)
    return Made(machine, {4711: measured(spans)}, "idle/cpu", idle={0: slow_host_idle()})


def clock_of_the_gpu_is_off() -> Made:
    """The clock of the GPU is 6 us behind that of the host: kernels seem to begin before their launch returns."""
    machine = _machine()
    thread = machine.thread()
    thread.shift = -6 * US
    spans = slow_host(thread)
    # A kernel begins 3 us before its launch returns, so nothing is queued.
    seen = CALL + LATENCY + thread.shift
    gap = WORK + LAUNCHES * CALL - LAUNCHES * EACH
    idle = {"cpu": MEASURED * (gap - seen), "launch": MEASURED * seen}
    return Made(machine, {4711: measured(spans)}, "idle/cpu", idle={0: idle})


def counters_alone() -> Made:
    """Only counters of the GPU were sampled: the program made no call of CUDA."""
    machine = _machine()
    machine.built.metric("SMs Active [Throughput %]", [(at * MS, 40) for at in range(1, 900)])
    return Made(machine, {}, None, "No GPU work was recorded")


def nothing_at_the_end() -> Made:
    """The program does nothing for the last second of the capture."""
    machine = _machine()
    spans = slow_host(machine.thread())
    machine.built.os_call("nanosleep", spans[-1].end + 10 * MS, spans[-1].end + 1000 * MS)
    return Made(machine, {4711: measured(spans)}, "idle/cpu", idle={0: slow_host_idle()})


PROGRAMS: dict[str, Callable[[], Made]] = {
    each.__name__: each
    for each in (
        mpi_late_rank, managed_with_prefetch, managed_without_prefetch, graph_level, node_level,
        one_gpu_of_two_processes, equal_device_ids, old_export, oldest_export, xla_loop, inference_server, fortran,
        only_copies, driver_launches, driver_graphs, five_threads, cut_in_a_step, without_ranges,
        ranges_of_another_thread, clock_of_the_gpu_is_off, counters_alone, nothing_at_the_end,
    )
}  # fmt: skip
