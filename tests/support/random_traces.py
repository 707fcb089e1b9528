"""Small random traces: two processes with two threads, two GPUs with two streams, and few nanoseconds.

A sketch is plain data. So hypothesis can shrink it, and a test can build it again with later times or shuffled rows.
"""

import os
import secrets
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from export_builder import DEVICE, HOST_TO_DEVICE, PAGEABLE, PINNED, ExportBuilder, global_id, trace_of
from hypothesis import seed, settings
from hypothesis import strategies as st

from nsyswrap.loop.context import TraceContext, find_context
from nsyswrap.trace.tables import Trace

LONGEST = 60
THREADS = tuple(global_id(pid, tid) for pid, tid in ((4711, 4711), (4711, 4712), (5000, 5000), (5000, 5001)))
KERNELS = ("gemm", "relu", "ncclDevKernel_AllReduce")
CALLS = (
    "cudaEventRecord",
    "cudaStreamSynchronize",
    "cudaMalloc",
    "cuModuleLoadData",
    "cudaMemcpy",
    "cudaEventQuery",
    "cudaGraphLaunch",
    "cudaMemcpyAsync",
)
OS_CALLS = ("poll", "pthread_cond_wait", "pthread_mutex_lock", "ioctl", "read")
OVERHEADS = ("CUPTI Buffer flush", "dlopen(libx.so)")
TEXTS = ("data", "forward", "backward", "batch 1", "batch 2", "batch 3", "of my own")

# Tests with this seed draw the same examples from the same strategy, so each trace is written and read once for all of
# them. The seed is always the same, but where new examples are wanted; hypothesis prints the example that breaks a law.
same_examples = seed(secrets.randbits(32) if os.environ.get("NSYSWRAP_NEW_EXAMPLES") else 1)
_KEPT = 256
# Laws about values that take long to make: half as many examples as others.
several = settings(max_examples=settings().max_examples // 2)

times = st.integers(1, LONGEST)  # CUPTI writes 0 for an operation without times
lengths = st.integers(0, 12)
threads = st.sampled_from(THREADS)


@dataclass(frozen=True)
class Operation:
    """An operation on a GPU. ``launched`` is the start and length of its call, or None if the call was lost."""

    kind: str
    name: str
    start: int
    length: int
    device: int
    stream: int
    thread: int
    launched: tuple[int, int] | None
    pageable: bool


@dataclass(frozen=True)
class Event:
    """An event on the host: a row of ``table`` (a method of the builder)."""

    table: str
    name: str
    start: int
    length: int
    thread: int


@dataclass(frozen=True)
class Switch:
    """A switch of a thread onto a CPU or off it."""

    start: int
    running: bool
    thread: int


@dataclass(frozen=True)
class Sketch:
    """The content of a trace."""

    operations: tuple[Operation, ...]
    events: tuple[Event, ...]
    switches: tuple[Switch, ...]
    loader: bool


operations = st.builds(
    Operation,
    kind=st.sampled_from(("kernel", "kernel", "copy", "copy", "memset", "graph")),
    name=st.sampled_from(KERNELS),
    start=times,
    length=lengths,
    device=st.integers(0, 1),
    stream=st.integers(7, 8),
    thread=threads,
    launched=st.integers(0, 9).flatmap(lambda chance: st.tuples(times, lengths) if chance < 9 else st.none()),
    pageable=st.booleans(),
)


def _events(table: str, names: tuple[str, ...]) -> st.SearchStrategy[Event]:
    return st.builds(Event, st.just(table), st.sampled_from(names), times, st.integers(0, 40), threads)


events = st.one_of(
    _events("call", CALLS), _events("os_call", OS_CALLS), _events("overhead", OVERHEADS), _events("range", TEXTS)
)
switches = st.builds(Switch, times, st.booleans(), threads)
sketches = st.builds(
    Sketch,
    operations=st.lists(operations, min_size=1, max_size=10).map(tuple),
    events=st.lists(events, max_size=14).map(tuple),
    switches=st.lists(switches, max_size=4, unique_by=lambda each: (each.start, each.thread)).map(tuple),
    loader=st.booleans(),
)


def built(sketch: Sketch, shift: int = 0) -> ExportBuilder:
    """Return the export of a sketch, shifted in time; one early kernel makes sure that there is a GPU."""
    builder = ExportBuilder().kernel(shift - 30, shift - 20, "first", launched=(shift - 31, shift - 30))
    for number, each in enumerate(sketch.operations, 1):
        _add(builder, each, shift, number)
    for event in sketch.events:
        start = event.start + shift
        getattr(builder, event.table)(event.name, start, start + event.length, thread=event.thread)
    for switch in sketch.switches:
        builder.scheduled(switch.start + shift, running=switch.running, thread=switch.thread)
    if sketch.loader:
        builder.thread_name(global_id(4711, 4720), "pt_data_pin")
    return builder


def _add(builder: ExportBuilder, each: Operation, shift: int, number: int) -> None:
    """Add an operation; its correlation id is its number plus 1."""
    start, end = each.start + shift, each.start + each.length + shift
    process = each.thread & ~0xFFFFFF
    common: dict[str, Any] = {
        "device": each.device,
        "stream": each.stream,
        "process": process,
        "correlation": number + 1,
    }
    called = each.launched
    launched = None if called is None else (called[0] + shift, called[0] + called[1] + shift)
    if launched is not None:
        common["thread"] = each.thread
    match each.kind:
        case "kernel":
            builder.kernel(start, end, each.name, launched=launched, **common)
        case "copy":
            source = PAGEABLE if each.pageable else PINNED
            builder.copy(start, end, HOST_TO_DEVICE, launched=launched, srcKind=source, dstKind=DEVICE, **common)
        case "memset":
            builder.fill(start, end, launched=launched, **common)
        case _:
            builder.graph(start, end, launched=launched, **common)


@lru_cache(maxsize=_KEPT)
def random_trace(sketch: Sketch, shift: int = 0, shuffle: int | None = None) -> Trace:
    """Return the trace of a sketch, shifted in time, with the rows of its export shuffled by the seed ``shuffle``."""
    builder = built(sketch, shift)
    return trace_of(builder if shuffle is None else builder.shuffled(shuffle))


@lru_cache(maxsize=_KEPT)
def context_of(sketch: Sketch) -> TraceContext:
    return find_context(random_trace(sketch))
