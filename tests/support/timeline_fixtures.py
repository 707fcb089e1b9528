"""Timelines made by hand, for the page: two GPUs for a few ms, one with hostile names, one too large to be exact."""

from dataclasses import replace
from functools import cache

import hand_made
import numpy as np

from nsyswrap.base.intervals import LabelledSpans, Spans, Window
from nsyswrap.model import KernelName, LongGap, Report, TimelineData, TimelineItems, TimelineRow
from nsyswrap.timeline.bins import Grid
from nsyswrap.timeline.gpu_rows import GPU_CLASSES
from nsyswrap.timeline.host_rows import THREAD_CLASSES
from nsyswrap.timeline.operation_names import STREAM_CLASSES

US = 1_000
BINS = 40
END = 4_000 * US
WINDOW = Window(400 * US, 3_600 * US, "steps 3 to 20", "steps")


def class_of(cause: str) -> int:
    """Return the code of idle time with a cause; classes are causes, or rules such as ``idle/cpu``."""
    return next(code for code, name in enumerate(GPU_CLASSES) if name.removeprefix("idle/") == cause)


CPU, DATA_WAIT = class_of("cpu"), class_of("data_wait")


@cache
def timeline_report(*, is_exact: bool = True, hostile: str = "") -> Report:
    """Return the full report with a timeline of two GPUs.

    GPU 0 runs a kernel in the first half of each 100 us and is idle in the second.
    GPU 1 is idle except for one copy.

    Args:
        is_exact: Whether the rows have all items, or only those before 1 ms.
        hostile: The name of everything that a program can name.
    """
    return replace(hand_made.two_gpu_report(), timeline=timeline_data(is_exact=is_exact, hostile=hostile))


def timeline_data(*, is_exact: bool = True, hostile: str = "") -> TimelineData:
    """Return the timeline of ``timeline_report``."""
    edges = np.linspace(0, END, BINS + 1).astype(np.int64)
    name = hostile or hand_made.GEMM
    return TimelineData(
        window=WINDOW,
        edges=edges,
        rows=(_steps(edges), _phases(edges, hostile), *_gpus(edges, is_exact=is_exact), _thread(edges, hostile)),
        gaps=(LongGap(1, 400 * US, 2_000 * US), LongGap(1, 2_100 * US, 3_600 * US), LongGap(0, 450 * US, 500 * US)),
        phases=("data", "forward"),
        texts={
            "evidence": (hostile or "thread 4711 waits for data in poll",),
            "call": ("cudaLaunchKernel",),
            "host_call": (hostile or "cudaLaunchKernel",),
            "line": (hostile or "train.py:12 in train",),
            "step": tuple(hostile or f"batch {at}" for at in range(4)),
        },
        kernels=(KernelName(name, "tensor", "bf16", "cutlass"), KernelName(hostile or "copy, Host-to-Device")),
        left_out=(hostile,) if hostile else (),
    )


def _row(  # noqa: PLR0913 - one argument for each part of a row
    edges: "np.ndarray[tuple[int], np.dtype[np.int64]]",
    kind: str,
    label: str,
    classes: tuple[str, ...],
    items: list[tuple[int, int, int]],
    *,
    device_id: int = -1,
    details: dict[str, int] | None = None,
    is_exact: bool = True,
) -> TimelineRow:
    start, end, code = (np.array(column, np.int64) for column in zip(*items, strict=True))
    sums = Grid(edges, np.arange(0)).sums(LabelledSpans(Spans(start, end), code.astype(np.int32)), len(classes))
    exact = np.ones(len(edges) - 1, bool) if is_exact else edges[1:] <= 1_000 * US
    kept = is_exact | (start < 1_000 * US)
    values = {name: np.full(int(kept.sum()), value) for name, value in (details or {}).items()}
    shown = TimelineItems(start[kept], end[kept], code[kept], values)
    return TimelineRow(kind, label, device_id, 4711, 4711, classes, sums, exact, shown)


def _steps(edges: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> TimelineRow:
    items = [(at * 1_000 * US, (at + 1) * 1_000 * US, int(at == 0)) for at in range(4)]
    return _row(edges, "steps", "steps", ("measured", "warm_up"), items, details={"step": 0})


def _phases(edges: "np.ndarray[tuple[int], np.dtype[np.int64]]", hostile: str) -> TimelineRow:
    items = [(at * 500 * US, (at + 1) * 500 * US, at % 2) for at in range(8)]
    return _row(edges, "phases", hostile or "phases", ("data", hostile or "forward"), items)


def _gpus(edges: "np.ndarray[tuple[int], np.dtype[np.int64]]", *, is_exact: bool) -> list[TimelineRow]:
    halves = [(at * 50 * US, (at + 1) * 50 * US, DATA_WAIT if at % 2 else 0) for at in range(80)]
    kernels = [(start, end, 0) for start, end, code in halves if code == 0]
    reason = {"phase": 1, "evidence": 1}
    launch = {
        "name": 0,
        "phase": 2,
        "latency": 12 * US,
        "call_ns": 4 * US,
        "call": 1,
        "thread": 1,
        "grid_blocks": 264,
        "block_threads": 256,
        "bytes": 0,
    }
    copied = (2_000 * US, 2_100 * US, GPU_CLASSES.index("copy"))
    idle = [(0, 2_000 * US, CPU), copied, (2_100 * US, END, CPU)]
    copy = [(2_000 * US, 2_100 * US, STREAM_CLASSES.index("copy"))]
    sent = {**launch, "name": 1, "grid_blocks": 0, "block_threads": 0, "bytes": 1 << 20}
    return [
        _row(edges, "gpu", "GPU 0", GPU_CLASSES, halves, device_id=0, details=reason, is_exact=is_exact),
        _row(edges, "stream", "stream 7", STREAM_CLASSES, kernels, device_id=0, details=launch, is_exact=is_exact),
        _row(edges, "gpu", "GPU 1", GPU_CLASSES, idle, device_id=1, details=reason),
        _row(edges, "stream", "stream 7", STREAM_CLASSES, copy, device_id=1, details=sent),
    ]


def _thread(edges: "np.ndarray[tuple[int], np.dtype[np.int64]]", hostile: str) -> TimelineRow:
    calls = [(at * 100 * US, at * 100 * US + 4 * US, THREAD_CLASSES.index("launch")) for at in range(40)]
    return _row(edges, "thread", hostile or "thread 4711 python3", THREAD_CLASSES, calls, details={"host_call": 1})
