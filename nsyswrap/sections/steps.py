"""The steps of the training loop: the length of each, and where the GPU's time went."""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.attribution.attribution import Attribution
from nsyswrap.attribution.step_outliers import is_outlier, lost_to_outliers, unexplained
from nsyswrap.base import units
from nsyswrap.base.intervals import Spans, Times, Window, covered
from nsyswrap.base.row_sums import typed_table
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.own_windows import find_own_windows
from nsyswrap.model import PARTS, Fact, Finding, Section
from nsyswrap.ranks.collectives import Collectives
from nsyswrap.rules import CAUSES
from nsyswrap.rules.program_kind import Wording
from nsyswrap.rules.steps import UNEVEN
from nsyswrap.sections.idle_findings import costliest_line
from nsyswrap.sections.ledger import ROWS, ledger_of_spans
from nsyswrap.sections.severity import make_finding, ordered, worth_printing
from nsyswrap.sections.spec import About, Kind, SectionSpec
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array
from nsyswrap.what_if.saving import estimated
from nsyswrap.what_if.simulate import Simulation

WORST = 3

COLUMNS = (
    *("process", "name", "start_ns", "end_ns", "length_ns", "excess_ns", "device_id"),
    *("part", "part_grown_ns", "cause", "cause_grown_ns", "phase", "phase_grown_ns"),
)
_TEXTS = frozenset({"name", "part", "cause", "phase"})
NO_DEVICE = -1

Key = TypeVar("Key", bound=Hashable)
Growth = npt.NDArray[np.float64]

PART_ADVICE = {
    "compute_ns": Wording(
        "More was computed in them: put inputs of similar size in one batch, and keep evaluation out of the "
        "training step.",
        "More was computed in them: divide the work into equal steps.",
        server="More was computed in them: long prompts share a step with others. Cut them (chunked prefill).",
    ),
    "communication_wait_ns": "Look for the rank that was late: a collective begins to transfer when all have arrived.",
    "communication_transfer_ns": "Look at the links: in these steps the transfer itself took longer.",
    "copy_exposed_ns": "Copy from the GPU less often (logging, checkpoints), from pinned memory and without blocking.",
    "memset_exposed_ns": "Keep buffers between steps instead of clearing new ones.",
}
HOST_ADVICE = Wording(
    "Look at what the host does in them: logging, checkpoints, garbage collection, a new epoch's loaders.",
    "Look at what the host does in them: logging, output, other work that is not done in each step.",
)
# The advice on these causes, such as launching less, is for all steps. It does not help where only some steps stall.
HOST_CAUSES = frozenset({"cpu", "launch", "lock", "unknown"})


NO_STEPS = (
    'No range names a step, and no pattern in the GPU\'s work clearly repeats: put an NVTX range such as "batch 17" '
    "around each step, or name yours with --step-range, or the kernel that begins a step with --step-kernel."
)
NO_STEPS_WITHOUT_KERNELS = (
    'No range names a step: put an NVTX range such as "batch 17" around each step, or name yours with --step-range.'
)
NO_WHOLE_STEP = "No whole measured step lies inside the window, so there is no median step."


def find_outliers(
    context: TraceContext, collectives: Collectives, attributions: tuple[Attribution, ...], window: Window
) -> pd.DataFrame:
    """Return the outliers among the measured steps of a window, in order of process and start.

    Returns:
        process, name, start_ns, end_ns, length_ns, excess_ns over the median of its process. Then, against the median
        step: device_id and the ledger part that grew most, the cause of idle time that grew most, and the phase of the
        host that grew most, each with its growth. A text is empty where nothing grew.
    """
    found = []
    for process, steps in context.steps.measured_inside(window).groupby("process"):
        length = array(steps, "end") - array(steps, "start")
        outliers = np.flatnonzero(is_outlier(length))
        if not len(outliers):
            continue
        grown = _grown(context, collectives, attributions, int(str(process)), steps)
        chosen = steps.iloc[outliers]
        excess = _against_median(length)[outliers].tolist()
        of_step = (chosen["name"].tolist(), array(chosen, "start").tolist(), array(chosen, "end").tolist(), excess)
        for at, name, start, end, more in zip(outliers.tolist(), *of_step, strict=True):
            (device, part), part_grown = _most_grown(grown.parts, at, (NO_DEVICE, ""))
            causes = {cause: each for (of, cause), each in grown.causes.items() if of == device and part == "idle_ns"}
            reason = (device, part, part_grown, *_most_grown(causes, at, ""), *_most_grown(grown.phases, at, ""))
            found.append((process, name, start, end, end - start, round(more), *reason))
    return typed_table(found, {name: str if name in _TEXTS else np.int64 for name in COLUMNS})


class _Grown(NamedTuple):
    """How much more time each measured step of one process takes than the median, in ns: one value a step.

    Attributes:
        parts: Time by device and row of the ledger.
        causes: Idle time by device and cause.
    """

    parts: Mapping[tuple[int, str], Growth]
    causes: Mapping[tuple[int, str], Growth]
    phases: Mapping[str, Growth]


def _grown(
    context: TraceContext,
    collectives: Collectives,
    attributions: tuple[Attribution, ...],
    process: int,
    steps: pd.DataFrame,
) -> _Grown:
    operations, start, end = context.operations, array(steps, "start"), array(steps, "end")
    parts, causes = {}, {}
    for each in attributions:
        device, mine = each.device_id, operations.on(each.device_id)
        if not (operations.process[mine] == process).any():
            continue
        ledger = ledger_of_spans(collectives.exclusive(operations, device, each.window), start, end)
        parts.update({(device, row): _against_median(ledger[row]) for row in ROWS})
        of_steps = each.steps_by_cause[:, steps.index]
        causes.update({(device, cause): _against_median(of_steps[code]) for code, cause in enumerate(CAUSES)})
    phases = {phase: _against_median(each) for phase, each in _phase_times(context, process, start, end).items()}
    return _Grown(parts, causes, phases)


def _against_median(times: Times) -> Growth:
    """Return how much more time each step takes than the median step, in ns."""
    grown: Growth = times - np.median(times)
    return grown


def _most_grown(growth: Mapping[Key, Growth], at: int, nothing: Key) -> tuple[Key, int]:
    """Return the key whose time grew most in one step, and its growth in ns."""
    grown = {key: round(float(each[at])) for key, each in growth.items()}
    if not grown:
        return nothing, 0
    key = max(grown, key=lambda each: grown[each])
    return (key, grown[key]) if grown[key] > 0 else (nothing, 0)


def _phase_times(context: TraceContext, process: int, start: Times, end: Times) -> dict[str, Times]:
    """Return the time of each step in which each phase is the innermost one on the main thread, by phase, in ns."""
    main = context.phases.main_thread.get(process)
    if main is None:
        return {}
    shown = context.phases.own(main)
    found = {}
    for code in np.unique(shown.code).tolist():
        spans = Spans(shown.spans.start[shown.code == code], shown.spans.end[shown.code == code])
        found[context.phases.name(code)] = covered(spans, start, end)
    return found


def _findings(
    simulation: Simulation, attributions: tuple[Attribution, ...], outliers: pd.DataFrame, window: Window
) -> Iterator[Finding]:
    """Yield one finding for each process whose outliers lose enough of the window.

    Idle time that another finding counts is not counted again.
    """
    context = simulation.context
    explained = np.zeros(len(context.steps.frame), np.int64)
    for each in attributions:
        explained = np.maximum(explained, each.of_specific_rules())
    outliers, costs = _without(context, outliers, window, explained)
    measured = context.steps.measured_inside(window).groupby("process").size()
    for process, mine in outliers.groupby("process"):
        lost, own = costs[int(str(process))], find_own_windows(context, window).of(int(str(process)))
        if not worth_printing(lost, own):
            continue
        devices = set(mine["device_id"]) - {NO_DEVICE}
        worst = mine.sort_values(["excess_ns", "start_ns"], ascending=[False, True]).head(WORST)
        lines = [costliest_line(context, each, UNEVEN.key) for each in attributions if each.device_id in devices]
        yield make_finding(
            rule=UNEVEN,
            headline=f"A few slow steps cost {units.share(lost / own.length_ns)} of the time.",
            lost_ns=lost,
            saving=estimated(lost, own.length_ns, "all of the time that they take longer is saved"),
            advice=_advice(mine),
            evidence=(
                f"{len(mine)} of {measured[process]} measured steps of process {tables.pid(int(str(process)))}",
                *next((each for each in lines if each), ()),
                *map(_words, worst.to_dict("records")),
            ),
            device_id=int(devices.pop()) if len(devices) == 1 else None,
            window=own,
        )


def _without(
    context: TraceContext, outliers: pd.DataFrame, window: Window, explained: Times
) -> tuple[pd.DataFrame, dict[int, int]]:
    """Return the outliers with unexplained excess, and the time lost by process, in ns."""
    left = np.zeros(len(outliers), np.int64)
    costs = {}
    for process, steps in context.steps.measured_inside(window).groupby("process"):
        length = array(steps, "end") - array(steps, "start")
        of_steps = unexplained(length, explained[steps.index])
        costs[int(str(process))] = lost_to_outliers(context, int(str(process)), window, of_steps)
        # By place, not by start: two steps may start in the same nanosecond.
        left[np.flatnonzero(outliers["process"] == process)] = of_steps[is_outlier(length)]
    return outliers.assign(excess_ns=left)[left > 0], costs


def _advice(outliers: pd.DataFrame) -> str:
    """Return the advice on the part and cause with most of the excess."""
    excess = outliers.groupby(["part", "cause"])["excess_ns"].sum()
    part, cause = max(excess.index, key=lambda key: (int(excess[key]), key))
    if cause in CAUSES and cause not in HOST_CAUSES:
        return CAUSES[cause].advice
    return PART_ADVICE.get(part, HOST_ADVICE)


def _words(step: Mapping[Hashable, Any]) -> str:
    """Return a line on one outlier."""
    part = str(step["part"]).removesuffix("_ns").replace("_", " ")
    grown = [
        f"{kind}{name} by {units.duration(int(step[column]))}"
        for kind, name, column in (
            ("", part, "part_grown_ns"),
            ("cause ", step["cause"], "cause_grown_ns"),
            ("phase ", step["phase"], "phase_grown_ns"),
        )
        if name
    ]
    return (
        f"{step['name']}: {units.duration(int(step['length_ns']))}, {units.duration(int(step['excess_ns']))} more than "
        f"the median; grew: {', '.join(grown) or 'nothing that the capture shows'}"
    )


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
    steps = _measured(context, window)
    measured: Times = array(steps, "end") - array(steps, "start")
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
    return SECTION.made(
        window,
        tuple(facts),
        shown,
        ordered(_findings(simulation, attributions, outliers, window)),
        _notes(context, window),
    )


def _measured(context: TraceContext, window: Window) -> pd.DataFrame:
    """Return the measured steps: inside the window if the user gave one, else all."""
    return context.steps.measured_inside(window) if window.source == "user" else context.steps.measured


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
    on_page_only=False,
    columns={
        "outliers": " ".join(COLUMNS[1:]),
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
