"""The steps of the training loop: the length of each, and where the GPU's time went."""

import numpy as np
import pandas as pd

from nsyswrap.attribution.attribution import Attribution
from nsyswrap.base.intervals import Times, Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.own_windows import find_own_windows
from nsyswrap.model import PARTS, Fact, Finding, Section
from nsyswrap.ranks.collectives import Collectives
from nsyswrap.sections.ledger import ledger_of_spans
from nsyswrap.sections.slow_steps import find_findings, find_outliers
from nsyswrap.sections.spec import About, Kind, PageGroup, SectionSpec
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array
from nsyswrap.what_if.simulate import Simulation

NO_STEPS = (
    'No range names a step, and no pattern in the GPU\'s work clearly repeats: put an NVTX range such as "batch 17" '
    "around each step, or name yours with --step-range, or the kernel that begins a step with --step-kernel."
)
NO_STEPS_WITHOUT_KERNELS = (
    'No range names a step: put an NVTX range such as "batch 17" around each step, or name yours with --step-range.'
)
NO_WHOLE_STEP = "No whole measured step lies inside the window, so there is no median step."


def run(
    context: TraceContext,
    window: Window,
    collectives: Collectives,
    attributions: tuple[Attribution, ...],
    simulation: Simulation,
) -> Section:
    """Return every step with its ledger on each device, the median of the measured steps, and the outliers.

    Each outlier of the window has the part, cause and phase that grew most. Warm-up steps are listed and marked in full
    length, since the window leaves them out.
    """
    frame = context.steps.counted
    start, end = array(frame, "start"), array(frame, "end")
    length = end - start
    warm_up = array(frame, "warm_up")
    measured = _lengths(_measured(context, window))
    outliers = find_outliers(context, collectives, attributions, window)
    facts = [
        Fact("measured_steps", len(measured), "count"),
        Fact("median_ns", float(np.median(measured)) if len(measured) else None, "ns"),
        Fact("p05_ns", float(np.percentile(measured, 5)) if len(measured) else None, "ns"),
        Fact("p95_ns", float(np.percentile(measured, 95)) if len(measured) else None, "ns"),
        Fact("spread_share", _spread(measured), "share"),
        Fact("outlier_count", len(outliers), "count"),
        Fact("outlier_excess_ns", int(outliers["excess_ns"].sum()), "ns"),
        Fact("warm_up_steps", int(warm_up.sum()), "count"),
        Fact("warm_up_ns", int(length[warm_up].sum()), "ns"),
    ]
    shown = {"steps": _table(context, collectives, window), "outliers": outliers.drop(columns="process")}
    return Section(
        "steps",
        "Steps",
        window,
        tuple(facts),
        shown,
        _findings(simulation, attributions, outliers, window),
        _notes(context, window),
    )


def _measured(context: TraceContext, window: Window) -> pd.DataFrame:
    """Return the measured steps: inside the window if the user gave one, else all."""
    return context.steps.measured_inside(window) if window.source == "user" else context.steps.measured


def _lengths(steps: pd.DataFrame) -> Times:
    """Return the length of each step in ns."""
    length: Times = array(steps, "end") - array(steps, "start")
    return length


def _findings(
    simulation: Simulation, attributions: tuple[Attribution, ...], outliers: pd.DataFrame, window: Window
) -> tuple[Finding, ...]:
    """Return the findings on outliers, for the time that no other finding counts."""
    explained = np.zeros(len(simulation.context.steps.frame), np.int64)
    for each in attributions:
        explained = np.maximum(explained, each.of_specific_rules())
    return find_findings(simulation, attributions, outliers, explained, window)


def _spread(length: Times) -> float | None:
    """Return the distance of the 5th and 95th percentile as a share of the median; None without a median."""
    if not len(length) or not np.median(length):
        return None
    low, median, high = np.percentile(length, [5, 50, 95])
    return float((high - low) / median)


def _notes(context: TraceContext, window: Window) -> tuple[str, ...]:
    if not len(context.steps.frame):
        pattern = context.settings.step_pattern
        none = NO_STEPS if context.operations.has_kernels else NO_STEPS_WITHOUT_KERNELS
        return context.steps.notes or ((f"No range matches --step-range {pattern}.",) if pattern else (none,))
    measured = _measured(context, window)
    processes = measured["process"].nunique()
    together = (f"The {len(measured)} measured steps are those of {processes} processes together.",)
    return (*context.steps.notes, *(() if len(measured) else (NO_WHOLE_STEP,)), *(together if processes > 1 else ()))


def _table(context: TraceContext, collectives: Collectives, window: Window) -> pd.DataFrame:
    """Return a row for each step; where GPUs worked, for each GPU and the processes that used it, with its ledger.

    ``number`` counts the measured steps of the window in each process, from 0; it is -1 for other steps, and where
    another process of the GPU takes those that count.
    """
    frame = context.steps.frame
    start, end = array(frame, "start"), array(frame, "end")
    process = tables.pid_column(array(frame, "process"))
    numbers = context.steps.number_inside(window)
    base = {
        "process": process,
        "name": frame["name"],
        "start_ns": start,
        "end_ns": end,
        "warm_up": frame["warm_up"],
    }
    if not len(frame) or not context.operations.devices:
        return pd.DataFrame({**base, "number": numbers})
    whole = Window(int(start.min()), int(max(end.max(), start.min() + 1)), "all steps", context.steps.source)
    parts = []
    for device in context.operations.used_in(whole):
        mine = np.isin(array(frame, "process"), context.operations.processes_of(device))
        mine = mine if mine.any() else np.ones(len(frame), bool)
        rows = ledger_of_spans(collectives.exclusive(context.operations, device, whole), start, end)
        main = find_own_windows(context, window).main_process.get(device)
        number = numbers if main is None else np.where(array(frame, "process") == main, numbers, -1)
        parts.append(pd.DataFrame({**base, "number": number, "device_id": device, **rows})[mine])
    return pd.concat(parts, ignore_index=True)


SECTION = SectionSpec(
    key="steps",
    title="Steps",
    run=run,
    about=About.BOTH,
    place=140,
    group=PageGroup.PROGRAM,
    columns={
        "outliers": (
            "name start_ns end_ns length_ns excess_ns device_id part part_grown_ns cause cause_grown_ns phase "
            "phase_grown_ns"
        ),
        "steps": "process name start_ns end_ns warm_up",
    },
    some_columns={"steps": f"number device_id {PARTS}"},
    kinds={Kind.TEXT: "part", Kind.FLAG: "warm_up"},
    headings={
        "warm_up": "warm-up",
        "part_grown_ns": "part longer by",
        "cause_grown_ns": "cause longer by",
        "phase_grown_ns": "phase longer by",
        "excess_ns": "longer by",
    },
    facts={
        "measured_steps": "measured steps",
        "median_ns": "median step",
        "p05_ns": "5 % of steps are under",
        "p95_ns": "5 % of steps are over",
        "warm_up_steps": "warm-up steps",
        "warm_up_ns": "warm-up",
        "outlier_count": "outliers",
        "outlier_excess_ns": "time that outliers take too long",
        "spread_share": "distance of both, as a share of the median",
    },
)
