"""GPU counters: the load of the SMs, the tensor cores, the memory and the links, by phase and by step."""

import numpy as np
import pandas as pd

from nsyswrap.base.intervals import NOTHING, LabelledSpans, Spans, Times, Window, clip, fill, layered, merge, overlay
from nsyswrap.events.gpu_counters import PER_CENT, CounterSamples, period_ns
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.own_windows import find_own_windows
from nsyswrap.loop.phase_detection import NO_PHASE
from nsyswrap.model import Fact, Section
from nsyswrap.sections.spec import PageGroup, SectionSpec
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array

NOT_SAMPLED = "GPU counters were not sampled: capture again with --gpu-metrics."
NONE_IN_WINDOW = "No counter was sampled inside the window."
# Number of intervals of the curve over time. Source: ours; enough for the width of a page, and a readable report.json.
INTERVALS = 120


def run(context: TraceContext, window: Window) -> Section:
    """Return the mean of each counter over the window, over time, in each phase and in each step.

    Of a GPU, window and phases are those of its own part of the window, and steps those of its own processes.
    While the GPU runs an operation, time belongs to the phase that launched the operation; while it is idle, to the
    phase that is open on the main thread. All counters are shares of the hardware's maximum.
    """
    counters = context.counter_samples
    own = find_own_windows(context, window)
    rows = [
        {
            "name": samples.name,
            "device_id": samples.device_id,
            "mean_share": float(means(samples, start, end)[0]),
            "mean_at_least_share": float(means(samples.at_least, start, end)[0]),
            "max_share": samples.most(window.start_ns, window.end_ns) / PER_CENT,
        }
        for samples in counters
        for window in [own.on(samples.device_id)]
        for start, end in [_everything(window)]
        if samples.sampled(start, end)[0]
    ]
    whole = pd.DataFrame(rows, columns=["name", "device_id", "mean_share", "mean_at_least_share", "max_share"])
    if not counters or not len(whole):
        return SECTION.made(window, notes=(NONE_IN_WINDOW if counters else NOT_SAMPLED,))
    devices = list(dict.fromkeys(samples.device_id for samples in counters))
    phases = pd.concat([_by_phase(context, device, own.on(device)) for device in devices], ignore_index=True)
    steps = pd.concat([_by_step(context, device, own.on(device)) for device in devices], ignore_index=True)
    over_time = pd.concat([_over_time(context, device, window) for device in devices], ignore_index=True)
    one = counters[0]
    count = int(((one.start < window.end_ns) & (one.end > window.start_ns)).sum())
    notes = [
        "Counters cover the whole GPU, including other programs that use it.",
        "Samples are whole per cent, rounded up: a mean may be 1 % too high, and an unused link reads 1 %.",
    ]
    if not any(samples.name.startswith("NVLink") for samples in counters):
        notes.append("NVLink was not sampled; it may have been in use.")
    return SECTION.made(
        window,
        facts=(Fact("sampling_period_ns", period_ns(one.start), "ns"), Fact("samples_of_each_counter", count, "count")),
        tables={"window": whole, "phases": phases, "steps": steps, "over_time": over_time},
        notes=tuple(notes),
    )


def means(samples: CounterSamples, start: Times, end: Times) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return the mean of a counter over each interval as a share of 1; NaN where it was not sampled."""
    sampled = samples.sampled(start, end)
    shares = samples.integral(start, end) / (PER_CENT * np.maximum(sampled, 1))
    return np.where(sampled > 0, shares, np.nan)


def _by_phase(context: TraceContext, device: int, window: Window) -> pd.DataFrame:
    """Return the mean of each counter of a GPU in each phase; the phases add up to the window."""
    phases = gpu_phases(context, device, window)
    rows = []
    for code in range(NO_PHASE, len(context.phases.names)):
        mine = phases.code == code
        start, end = phases.spans.start[mine], phases.spans.end[mine]
        if not len(start):
            continue
        row = {"phase": context.phases.name(code), "device_id": device, "time_ns": int((end - start).sum())}
        for samples in _of(context, device):
            sampled = int(samples.sampled(start, end).sum())
            total = int(samples.integral(start, end).sum())
            row[f"{samples.key}_share"] = total / (PER_CENT * sampled) if sampled else float("nan")
        rows.append(row)
    frame = pd.DataFrame(rows)
    return frame.sort_values(["time_ns", "phase"], ascending=[False, True], ignore_index=True)


def gpu_phases(context: TraceContext, device: int, window: Window) -> LabelledSpans:
    """Return the phase of each moment of the window on one GPU, as ``run`` defines it; -1 for none."""
    operations = context.operations
    of_operation = context.phase_of_operations
    mine = operations.on(device)
    layers = []
    for code in range(NO_PHASE, len(context.phases.names)):
        rows = mine[of_operation[mine] == code]
        spans = clip(merge(operations.start[rows], operations.end[rows]), window.start_ns, window.end_ns)
        layers.append((code, spans))
    # Where operations overlap, one with a phase comes before one without.
    running = layered([*layers[1:], layers[0]])
    none = LabelledSpans(_everything(window), np.array([NO_PHASE], np.int32))
    return fill(fill(running, _host_phases(context, device, window)), none)


def _host_phases(context: TraceContext, device: int, window: Window) -> LabelledSpans:
    """Return the phases of the main threads of the processes that use a GPU; on overlap, the first process counts."""
    operations = context.operations
    whole = LabelledSpans(NOTHING, np.empty(0, np.int32))
    for process in np.unique(operations.process[operations.on(device)]).tolist():
        thread = context.phases.main_thread.get(process)
        if thread is not None:
            whole = fill(whole, context.phases.own(thread))
    rows, _, start, end = overlay(whole.spans, _everything(window))
    return LabelledSpans(Spans(start, end), whole.code[rows])


def _everything(window: Window) -> Spans:
    return Spans(np.array([window.start_ns]), np.array([window.end_ns]))


def _by_step(context: TraceContext, device: int, window: Window) -> pd.DataFrame:
    """Return the mean of each counter of a GPU in each step, clipped to the window."""
    frame = context.steps.frame
    start = np.maximum(array(frame, "start"), window.start_ns)
    end = np.minimum(array(frame, "end"), window.end_ns)
    processes = context.operations.processes_of(device)
    is_own = np.isin(array(frame, "process"), processes)
    mine = (end > start) & (is_own if is_own.any() else True)
    start, end = start[mine], end[mine]
    shown = pd.DataFrame({"name": frame["name"].to_numpy()[mine]})
    return pd.concat([shown, _means(context, device, start, end)], axis="columns")


def _over_time(context: TraceContext, device: int, window: Window) -> pd.DataFrame:
    """Return the mean of each counter of a GPU in equal intervals of the window."""
    count = min(INTERVALS, window.length_ns)
    edges = window.start_ns + np.arange(count + 1, dtype=np.int64) * window.length_ns // count
    return _means(context, device, edges[:-1], edges[1:])


def _means(context: TraceContext, device: int, start: Times, end: Times) -> pd.DataFrame:
    """Return the mean of each counter of a GPU, one row for each interval."""
    shares = {f"{samples.key}_share": means(samples, start, end) for samples in _of(context, device)}
    return pd.DataFrame({"device_id": device, "start_ns": start, "end_ns": end, **shares})


def _of(context: TraceContext, device: int) -> tuple[CounterSamples, ...]:
    return tuple(samples for samples in context.counter_samples if samples.device_id == device)


SECTION = SectionSpec(
    key="counters",
    title="GPU counters",
    run=run,
    needs=(tables.KERNELS,),
    reads=(),
    place=60,
    group=PageGroup.GPU,
    columns={
        "over_time": "device_id start_ns end_ns",
        "phases": "phase device_id time_ns",
        "steps": "name device_id start_ns end_ns",
        "window": "name device_id mean_share mean_at_least_share max_share",
    },
    headings={
        "sm_active_share": "SM active",
        "dram_read_bandwidth_share": "DRAM read bandwidth",
        "dram_write_bandwidth_share": "DRAM write bandwidth",
        "pcie_rx_throughput_share": "PCIe RX throughput",
        "pcie_tx_throughput_share": "PCIe TX throughput",
        "mean_at_least_share": "mean, at least",
    },
)
