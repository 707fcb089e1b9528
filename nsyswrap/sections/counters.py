"""GPU counters: how busy the SMs, the tensor cores, the memory and the links were, by phase and by step."""

import numpy as np
import pandas as pd

from nsyswrap import tables
from nsyswrap.events.gpu_counters import PER_CENT, CounterSamples, period_ns
from nsyswrap.intervals import NOTHING, LabelledSpans, Spans, Times, Window, clip, fill, layered, merge, overlay
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import NO_PHASE
from nsyswrap.model import Fact, Section
from nsyswrap.sections.spec import SectionSpec
from nsyswrap.tables import array

TITLE = "GPU counters"
HOW = "GPU counters were not sampled: capture again with --gpu-metrics."
ELSEWHERE = "No counter was sampled inside the window."
# Enough for a curve a page wide, and few enough for a report.json that people read.
STRETCHES = 120


def run(context: TraceContext, window: Window) -> Section:
    """Return the mean of each counter over the window, over time, in each phase and in each step.

    A moment belongs to the phase that launched the operation the GPU runs; where it runs none, to the phase that is
    open on the main thread. All counters are shares of the most the hardware can do.
    """
    readings = context.counter_samples
    whole = _window_table(readings, window)
    if not readings or not len(whole):
        return Section("counters", TITLE, window, notes=(ELSEWHERE if readings else HOW,))
    devices = list(dict.fromkeys(reading.device_id for reading in readings))
    phases = pd.concat([_by_phase(context, device, window) for device in devices], ignore_index=True)
    steps = pd.concat([_by_step(context, device, window) for device in devices], ignore_index=True)
    over_time = pd.concat([_over_time(context, device, window) for device in devices], ignore_index=True)
    one = readings[0]
    count = int(((one.start < window.end_ns) & (one.end > window.start_ns)).sum())
    return Section(
        key="counters",
        title=TITLE,
        window=window,
        facts=(Fact("sampling_period_ns", period_ns(one), "ns"), Fact("samples_of_each_counter", count, "count")),
        tables={"window": whole, "phases": phases, "steps": steps, "over_time": over_time},
        notes=_notes(readings),
    )


def _notes(readings: tuple[CounterSamples, ...]) -> tuple[str, ...]:
    notes = [
        "Counters are of the whole GPU: other programs on it count too.",
        "Samples are whole numbers of per cent, rounded up: a mean may be 1 % too high, and a link at rest reads 1 %.",
    ]
    if not any(reading.name.startswith("NVLink") for reading in readings):
        notes.append("NVLink was not sampled; that does not say that it was idle.")
    return tuple(notes)


def _window_table(readings: tuple[CounterSamples, ...], window: Window) -> pd.DataFrame:
    start, end = np.array([window.start_ns]), np.array([window.end_ns])
    rows = [
        {
            "name": reading.name,
            "device_id": reading.device_id,
            "mean_share": float(means(reading, start, end)[0]),
            "mean_at_least_share": float(means(reading.at_least, start, end)[0]),
            "max_share": reading.most(window.start_ns, window.end_ns) / PER_CENT,
        }
        for reading in readings
        if reading.sampled(start, end)[0]
    ]
    return pd.DataFrame(rows, columns=["name", "device_id", "mean_share", "mean_at_least_share", "max_share"])


def means(reading: CounterSamples, start: Times, end: Times) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return the mean of a counter over each stretch as a share of 1; NaN where it was not sampled."""
    sampled = reading.sampled(start, end)
    shares = reading.integral(start, end) / (PER_CENT * np.maximum(sampled, 1))
    return np.where(sampled > 0, shares, np.nan)


def _by_phase(context: TraceContext, device: int, window: Window) -> pd.DataFrame:
    """Return the mean of each counter of a GPU in each phase; the times of the phases add up to the window."""
    phases = gpu_phases(context, device, window)
    rows = []
    for code in range(NO_PHASE, len(context.phases.names)):
        mine = phases.code == code
        start, end = phases.spans.start[mine], phases.spans.end[mine]
        if not len(start):
            continue
        row = {"phase": context.phases.name(code), "device_id": device, "time_ns": int((end - start).sum())}
        for reading in _of(context, device):
            sampled = int(reading.sampled(start, end).sum())
            total = int(reading.integral(start, end).sum())
            row[f"{reading.key}_share"] = total / (PER_CENT * sampled) if sampled else float("nan")
        rows.append(row)
    frame = pd.DataFrame(rows)
    return frame.sort_values(["time_ns", "phase"], ascending=[False, True], ignore_index=True)


def gpu_phases(context: TraceContext, device: int, window: Window) -> LabelledSpans:
    """Return the phase of each moment of the window on one GPU, as ``run`` says; -1 for none."""
    operations = context.operations
    of_operation = context.phase_of_operations
    mine = operations.on(device)
    layers = []
    for code in range(NO_PHASE, len(context.phases.names)):
        rows = mine[of_operation[mine] == code]
        spans = clip(merge(operations.start[rows], operations.end[rows]), window.start_ns, window.end_ns)
        layers.append((code, spans))
    # An operation without a phase gives way to one that has one.
    running = layered([*layers[1:], layers[0]])
    none = LabelledSpans(_everything(window), np.array([NO_PHASE], np.int32))
    return fill(fill(running, _host_phases(context, device, window)), none)


def _host_phases(context: TraceContext, device: int, window: Window) -> LabelledSpans:
    """Return the phases of the main threads of the processes that use a GPU; of several, the first one's."""
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
    """Return the mean of each counter of a GPU in each step that touches the window, cut to it."""
    frame = context.steps.frame
    start = np.maximum(array(frame, "start"), window.start_ns)
    end = np.minimum(array(frame, "end"), window.end_ns)
    mine = end > start
    start, end = start[mine], end[mine]
    shown = pd.DataFrame({"name": frame["name"].to_numpy()[mine]})
    return pd.concat([shown, _means(context, device, start, end)], axis="columns")


def _over_time(context: TraceContext, device: int, window: Window) -> pd.DataFrame:
    """Return the mean of each counter of a GPU in stretches of equal length that fill the window."""
    count = min(STRETCHES, window.length_ns)
    edges = window.start_ns + np.arange(count + 1, dtype=np.int64) * window.length_ns // count
    return _means(context, device, edges[:-1], edges[1:])


def _means(context: TraceContext, device: int, start: Times, end: Times) -> pd.DataFrame:
    """Return the mean of each counter of a GPU in each stretch, one row a stretch."""
    shares = {f"{reading.key}_share": means(reading, start, end) for reading in _of(context, device)}
    return pd.DataFrame({"device_id": device, "start_ns": start, "end_ns": end, **shares})


def _of(context: TraceContext, device: int) -> tuple[CounterSamples, ...]:
    return tuple(reading for reading in context.counter_samples if reading.device_id == device)


SECTION = SectionSpec("counters", TITLE, (tables.KERNELS,), run)
