"""Statistics by name, as the sections on kernels, CUDA calls and operating system calls have them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Indices, Times, Window
from nsyswrap.base.rows import chosen, taken
from nsyswrap.events.api_calls import base_name
from nsyswrap.events.duration_stats import SHORT_NS, by_name
from nsyswrap.events.operations import COMPUTE
from nsyswrap.hardware.occupancy_calculator import estimates
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.own_windows import find_own_windows, running
from nsyswrap.model import Gpu, Section
from nsyswrap.sections.spec import STATISTICS, PageGroup, SectionSpec
from nsyswrap.trace import tables
from nsyswrap.trace.tables import LAUNCH, TableSpec, array, blocks, coded

Rows = npt.NDArray[np.bool_]


def clipped(context: TraceContext, frame: pd.DataFrame, window: Window) -> tuple[Rows | slice, Times]:
    """Return the rows that touch the part of the window of their process, and the time of each inside it, in ns."""
    start, end, inside = _touching(context, frame, window)
    duration = _time_inside(start, end, inside, window).astype(np.int64, copy=False)
    return slice(None) if inside.all() else inside, duration


def _touching(context: TraceContext, frame: pd.DataFrame, window: Window) -> tuple[Times, Times, Rows]:
    """Return starts and ends, and which rows touch the part of the window of their process; these end with the part."""
    start, end, own = array(frame, "start"), array(frame, "end"), find_own_windows(context, window)
    low, high = own.by_process(frame)
    inside: Rows = start < high
    inside &= end > low
    if own.of_process:
        start, end = np.clip(start, low, high), np.clip(end, low, high)
    return start, end, inside


def _time_inside(start: Times, end: Times, rows: Rows, window: Window) -> npt.NDArray[np.integer[Any]]:
    """Return the time of some rows inside the window, in ns: in four bytes where it fits, since tables may be long."""
    duration: npt.NDArray[np.integer[Any]] = np.empty(np.count_nonzero(rows), np.uint32)
    done = 0
    for block in blocks(len(rows)):
        begun, ended = chosen(rows[block], start[block], end[block])
        some = np.minimum(ended, window.end_ns) - np.maximum(begun, window.start_ns)
        if duration.dtype != np.int64 and int(some.max(initial=0)) >= SHORT_NS:
            duration = duration.astype(np.int64)
        duration[done : done + len(some)] = some
        done += len(some)
    return duration


def summary_section(
    spec: TableSpec, *, key: str, title: str, place: int, group: PageGroup = PageGroup.PROGRAM
) -> SectionSpec:
    """Return a section with the statistics by name of a table of calls or kernels.

    Calls or kernels that overlap all count, so a total is not elapsed time.
    """

    def run(context: TraceContext, window: Window) -> Section:
        return section.made(window, tables={"summary": _summary(context, spec, window)})

    section = SectionSpec(
        key=key,
        title=title,
        run=run,
        needs=(spec,),
        place=place,
        group=group,
        columns={"summary": f"name {STATISTICS}"},
        reads=(spec,),
    )
    return section


def _summary(context: TraceContext, spec: TableSpec, window: Window) -> pd.DataFrame:
    """Return the statistics by name of a table inside the window."""
    frame = context.trace[spec]
    start, end, rows = _touching(context, frame, window)
    if spec is tables.OS_CALLS:
        # Start and end marks of the tracer have no thread.
        thread = coded(frame, "thread")
        rows &= thread.among(tables.tid_column(thread.ids) != 0)
    index: dict[str, int] = {}

    def code(text: str) -> int:
        return index.setdefault(base_name(text) if spec is tables.CALLS else text, len(index))

    duration = _time_inside(start, end, rows, window)
    numbers = tables.numbers_by_name(context.trace, spec, code, np.int32)
    kind = np.min_scalar_type(-1 - len(index))
    (codes,) = chosen(rows, taken(numbers.astype(kind), coded(frame, "name_id").codes))
    return by_name(tuple(index), codes, duration)


def kernels_in(context: TraceContext, window: Window) -> tuple[Indices, Times]:
    """Return the operations that are compute kernels and run in a window, and how long each runs in it, in ns."""
    rows = context.operations.from_table(tables.KERNELS)
    return running(context, taken(rows, taken(context.operations.kind, rows) == COMPUTE), window)


def kernels_by_device(context: TraceContext, window: Window) -> dict[int, Indices]:
    """Return the compute kernels that run in the window, as operations by device, for devices that ran any."""
    device_id, (rows, _) = context.operations.device_id, kernels_in(context, window)
    of_row = taken(device_id, rows)
    found = {device: taken(rows, of_row == device) for device in context.operations.devices}
    return {device: mine for device, mine in found.items() if len(mine)}


def launch_groups(context: TraceContext, kernels: Mapping[int, Indices], window: Window) -> pd.DataFrame:
    """Return the compute kernels of a window, one row for each device, name and launch configuration.

    Returns:
        device_id, name, verdict, count, total_ns, blocks of the grid, and the estimates of ``launch_estimates``.
    """
    gpus = {gpu.device_id: gpu for gpu in context.trace.gpus}
    chosen = kernels or {0: np.empty(0, np.intp)}
    own = find_own_windows(context, window)
    found = [_of_device(context, rows, gpus.get(each, Gpu(each, "")), own.on(each)) for each, rows in chosen.items()]
    return pd.DataFrame({name: _joined([each[name] for each in found]) for name in found[0]})


def _joined(parts: list[Any]) -> Any:  # noqa: ANN401 - lists or arrays
    return [text for part in parts for text in part] if isinstance(parts[0], list) else np.concatenate(parts)


def _of_device(context: TraceContext, rows: Indices, gpu: Gpu, window: Window) -> dict[str, Any]:
    """Return the columns of one device, as lists of texts and arrays of numbers."""
    operations, frame = context.operations, context.trace[tables.KERNELS]
    kernel = taken(operations.row, rows)
    codes, first = tables.groups([taken(coded(frame, column).codes, kernel) for column in ("name_id", *LAUNCH)])
    duration = np.minimum(taken(operations.end, rows), window.end_ns) - np.maximum(
        taken(operations.start, rows), window.start_ns
    )
    total = np.zeros(len(first), np.int64)
    np.add.at(total, codes, duration)
    shown, kinds = kernel[first], context.kernel_names.of(rows[first])
    estimated = estimates(frame, shown, gpu)
    limiter = estimated.pop("limiter")
    return {
        "device_id": np.full(len(first), gpu.device_id, np.int64),
        "name": [each.name for each in kinds],
        "verdict": [str(each.verdict) for each in kinds],
        "count": np.bincount(codes, minlength=len(first)),
        "total_ns": total,
        "blocks": coded(frame, "grid_blocks")[shown],
        **estimated,
        "limiter": [limiter] * len(first) if isinstance(limiter, str) else limiter.tolist(),
    }
