"""The lines of Python that ran while the GPU was idle, by cause, rule and phase."""

import pandas as pd

from nsyswrap.attribution import sampled_stacks
from nsyswrap.attribution.attribution import Attribution
from nsyswrap.attribution.sampled_lines import COLUMNS, ORDER
from nsyswrap.base.intervals import Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Fact, Section
from nsyswrap.sections.spec import Kind, SectionSpec
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array

HOW = "Lines of Python were not recorded: capture again with --python-sampling."
WORKERS = (
    "nsys samples only the process that it starts. The lines of loader workers are not in this capture: profile the "
    "dataset alone, with num_workers=0."
)


def run(context: TraceContext, window: Window, attributions: tuple[Attribution, ...]) -> Section:
    """Return the sampled lines of the idle time of all GPUs, the most idle time first."""
    samples = context.trace[tables.SAMPLES]
    if not len(samples):
        return SECTION.made(window, notes=(HOW,) if context.program_kind.may_be_python else ())
    found = [each.lines.assign(device_id=each.device_id)[list(COLUMNS)] for each in attributions]
    lines = pd.concat(found, ignore_index=True)
    lines = lines.sort_values(ORDER, ascending=[False, False, *([True] * 5)], kind="stable", ignore_index=True)
    stacks = pd.concat(
        [each.stacks.assign(device_id=each.device_id)[list(sampled_stacks.COLUMNS)] for each in attributions],
        ignore_index=True,
    )
    start = array(samples, "start")
    taken = int(((start >= window.start_ns) & (start < window.end_ns)).sum())
    facts = (
        Fact("samples_in_window", taken, "count"),
        Fact("samples_in_idle_time", int(lines["sample_count"].sum()), "count"),
    )
    notes = (WORKERS,) if "data_wait" in set(lines["cause"]) else ()
    return SECTION.made(window, facts, {"lines": lines, "stacks": stacks}, (), notes)


SECTION = SectionSpec(
    key="python_lines",
    title="Python lines while the GPU was idle",
    run=run,
    needs=(tables.KERNELS,),
    place=190,
    columns={
        "lines": "device_id cause rule phase function file line innermost sample_count share idle_estimate_ns",
        "stacks": "device_id rule stack sample_count idle_estimate_ns",
    },
    kinds={Kind.TEXT: "file function innermost stack"},
    headings={"sample_count": "samples", "idle_estimate_ns": "idle, estimated"},
)
