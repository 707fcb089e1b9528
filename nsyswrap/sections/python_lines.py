"""The lines of Python behind idle GPU time: for each cause and phase, what the thread that feeds the GPU ran."""

import pandas as pd

from nsyswrap import tables
from nsyswrap.attribution.causes import explain
from nsyswrap.intervals import Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Fact, Section
from nsyswrap.sections.idle_lines import idle_lines
from nsyswrap.sections.spec import SectionSpec
from nsyswrap.tables import array

TITLE = "Python lines while the GPU was idle"
HOW = "Python was not sampled: capture again with --python-sampling."
WORKERS = (
    "nsys samples the process it starts. What a loader worker, another process, did while the loop waited for it "
    "is not in this capture: profile the dataset alone, with num_workers=0."
)


def run(context: TraceContext, window: Window) -> Section:
    """Return the sampled lines of the idle time of all GPUs, most idle time first."""
    samples = context.trace[tables.SAMPLES]
    if not len(samples):
        return Section("python_lines", TITLE, window, notes=(HOW,))
    states = context.states(window)
    devices = context.operations.used_in(window)
    found = [idle_lines(context, explain(context, states, device, window), device) for device in devices]
    lines = pd.concat(found, ignore_index=True)
    start = array(samples, "start")
    taken = int(((start >= window.start_ns) & (start < window.end_ns)).sum())
    facts = (
        Fact("samples_in_window", taken, "count"),
        Fact("samples_in_idle_time", int(lines["sample_count"].sum()), "count"),
    )
    notes = (WORKERS,) if "data_wait" in set(lines["cause"]) else ()
    return Section("python_lines", TITLE, window, facts, {"lines": lines}, (), notes)


SECTION = SectionSpec("python_lines", TITLE, (tables.KERNELS,), run)
