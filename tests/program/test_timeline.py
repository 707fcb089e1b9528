"""The calibrated trace has the events of the recording at their times in the program."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from analysis_fixtures import attributions_of
from export_builder import trace_of
from hypothesis import given
from hypothesis import strategies as st
from measured_costs import COST, US
from program_loops import LAUNCHES, alone, loop
from random_traces import several
from real_captures import RealTrace, every_capture

from nsyswrap.attribution.causes import CODE
from nsyswrap.base.interval import Interval
from nsyswrap.base.intervals import Window
from nsyswrap.hardware.steps_alone import NO_STEPS_ALONE, StepsAlone
from nsyswrap.loop.context import Settings, TraceContext, find_calls, find_context, find_states
from nsyswrap.loop.own_windows import find_own_windows
from nsyswrap.model import Finding, Severity
from nsyswrap.program.program import ProgramAlone, find_program
from nsyswrap.ranks.collectives import Collectives, find_collectives
from nsyswrap.report import build_report, choose_window
from nsyswrap.sections.ledger import ledger_rows
from nsyswrap.trace import tables
from nsyswrap.trace.tables import SPECS, Trace, array, coded
from nsyswrap.what_if.simulate import find_simulation


def program_of(trace: Trace, steps: StepsAlone = NO_STEPS_ALONE) -> ProgramAlone:
    """Return the program of a trace whose calls cost what the tests say."""
    context = find_context(trace, Settings(profiler_cost=COST, steps_alone=steps))
    window = choose_window(context)
    states = find_states(context, window)
    simulation = find_simulation(context, states, window, find_collectives(context))
    return find_program(context, window, simulation, find_calls(context, window, states))


def lengths(context: TraceContext) -> list[int]:
    """Return the lengths of the measured steps in ns."""
    steps = context.steps.measured
    found: list[int] = (array(steps, "end") - array(steps, "start")).tolist()
    return found


def check(program: ProgramAlone) -> None:
    """Check what holds for each calibrated trace."""
    trace, context, window = program.context.trace, program.context, program.window
    for spec in SPECS:
        frame = trace[spec]
        assert list(frame.columns) == list(spec.columns)
        if "start" in spec.columns:
            assert (np.diff(array(frame, "start")) >= 0).all()
        if "end" in spec.columns:
            assert (array(frame, "end") >= array(frame, "start")).all()
    for device in context.operations.used_in(window):
        rows = ledger_rows(context.operations, device, window)
        assert sum(rows.values()) == window.length_ns
        assert min(rows.values()) >= 0
    operations = context.operations
    for attribution in attributions_of(context, window):
        pieces = attribution.pieces
        assert program.is_recording or CODE["profiler"] not in pieces.cause
        own = find_own_windows(context, window).on(attribution.device_id)
        ledger = ledger_rows(operations, attribution.device_id, own)
        assert int(pieces.length.sum()) == ledger["idle_ns"]


def order_of_calls(trace: Trace, window: Window) -> dict[int, list[int]]:
    """Return the correlation ids of the calls of each thread inside a window, by start."""
    calls = trace[tables.CALLS]
    inside = (array(calls, "start") >= window.start_ns) & (array(calls, "start") < window.end_ns)
    thread, ids = coded(calls, "thread")[:], array(calls, "correlation_id")
    return {each: ids[inside & (thread == each)].tolist() for each in tables.distinct(thread[inside]).tolist()}


def order_of_kernels(trace: Trace, window: Window) -> dict[object, list[int]]:
    """Return the correlation ids of the kernels of each stream that begin inside a window, by start."""
    kernels = trace[tables.KERNELS]
    inside = (kernels["start"] >= window.start_ns) & (kernels["start"] < window.end_ns)
    return {key: rows["correlation_id"].tolist() for key, rows in kernels[inside].groupby(["device_id", "stream"])}


@pytest.mark.parametrize("cost", [2, 3, 5])
def test_a_step_that_the_host_paces_takes_as_long_as_alone(cost: int) -> None:
    """Nsys added 2, 3 or 5 us to each launch of a step, and 2 us to its range."""
    wanted = LAUNCHES * 20 - 2
    program = program_of(trace_of(loop(every=20 + cost)), alone(wanted))
    assert lengths(program.context) == pytest.approx([wanted * US] * len(lengths(program.context)), rel=0.03)
    check(program)


def test_a_wait_is_longer_where_the_launches_before_it_are_shorter() -> None:
    """The kernels take 200 us a step. As recorded, launches hide all but 10 us of that; alone they take 30 us less."""
    trace = trace_of(loop(every=20, kernel=20))
    program = program_of(trace, alone(205))
    waits = [
        _waited(one, window)
        for one, window in ((trace, choose_window(find_context(trace))), (program.context.trace, program.window))
    ]
    assert waits == pytest.approx([10 * US, (10 + 30 - 3) * US], rel=0.1)


def _waited(trace: Trace, window: Window) -> float:
    """Return the mean time of a synchronize call inside a window, in ns."""
    calls = trace[tables.CALLS]
    names = np.array([trace.text(each) for each in coded(calls, "name_id")[:].tolist()])
    mine = (
        (names == "cudaStreamSynchronize")
        & (array(calls, "start") >= window.start_ns)
        & (array(calls, "end") <= window.end_ns)
    )
    return float((array(calls, "end") - array(calls, "start"))[mine].mean())


@pytest.mark.slow
@several
@given(every=st.integers(12, 40), kernel=st.integers(1, 60), share=st.floats(0.6, 1.05))
def test_laws(every: int, kernel: int, share: float) -> None:
    """The ledger adds up, and the order of the events of each thread and stream is kept."""
    trace = trace_of(loop(every=every, kernel=kernel))
    program = program_of(trace, alone(max(every, kernel) * LAUNCHES * share))
    check(program)
    window = choose_window(find_context(trace))
    assert order_of_calls(program.context.trace, program.window) == order_of_calls(trace, window)
    assert order_of_kernels(program.context.trace, program.window) == order_of_kernels(trace, window)


@every_capture
def test_laws_hold_for_real_captures(real_trace: RealTrace, name: str) -> None:
    check(program_of(real_trace(name)))


def together(context: TraceContext, collectives: Collectives) -> set[frozenset[tuple[int, int]]]:
    """Return the kernels of each collective that has several, by GPU and correlation id."""
    of = array(context.trace[tables.KERNELS], "correlation_id")[context.operations.row[collectives.row]]
    frame = pd.DataFrame({"group": collectives.group, "device": collectives.device_id, "kernel": of})
    frame = frame[frame["group"] >= 0]
    return {frozenset(zip(each["device"], each["kernel"], strict=True)) for _, each in frame.groupby("group")}


@pytest.mark.parametrize("steps_apart", [0, 2])
@pytest.mark.parametrize("name", ["loader", "host_in_backward"])
def test_a_program_has_the_same_steps_of_each_rank_and_the_collectives_of_the_recording(
    real_trace: RealTrace, name: str, steps_apart: int
) -> None:
    """Also where the marks of one rank say that its host is steps ahead of the other."""
    trace = real_trace(f"ranks/{name}")
    ranges = trace[tables.RANGES]
    step = ranges["text"].str.match(r"step \d+$").fillna(value=False).to_numpy(bool)
    first = step & (coded(ranges, "thread") == coded(ranges, "thread")[step][0])
    gone = np.flatnonzero(first)[:steps_apart]
    trace = replace(
        trace, frames={**trace.frames, tables.RANGES.name: ranges.drop(index=gone.tolist()).reset_index(drop=True)}
    )
    program = program_of(trace)
    assert program.simulation is not None
    assert program.calibration is not None
    recorded = program.calibration.simulation
    assert together(program.context, program.simulation.collectives) <= together(recorded.context, recorded.collectives)
    measured = program.context.steps.measured
    assert len({tuple(mine) for _, mine in measured.groupby("process")["number"]}) == 1


def test_all_findings_are_about_the_program() -> None:
    """The launches are 25 us apart as recorded and 22 us alone; the step is 218 us."""
    settings = Settings(profiler_cost=COST, steps_alone=alone(LAUNCHES * 22 - 2))
    report = build_report(trace_of(loop(every=25)), settings=settings)
    assert report.step.alone is not None
    assert report.step.alone.point == (LAUNCHES * 22 - 2) * US
    assert report.step.alone_source == "this_process"
    assert report.plan.step_ns == report.step.alone.point
    section = report.section("program")
    assert section is not None
    assert section.tables["step"]["ns"].sum() == report.step.alone.point
    assert "A step takes 218 µs" in report.verdict
    ledger = report.section("ledger")
    assert ledger is not None
    assert ledger.tables["devices"]["window_ns"].sum() == report.window.length_ns


@pytest.mark.parametrize(
    ("low", "rule", "severity"),
    [
        (91, "idle/cpu", Severity.WARNING),
        (89, "idle/cpu", Severity.NOTE),
        (89, "idle/data_wait", Severity.WARNING),
    ],
)
def test_a_wait_for_a_slow_host_that_may_not_be_is_a_note(low: int, rule: str, severity: Severity) -> None:
    """The GPU waits a tenth of the step, which takes 100 us, and 89 us or 91 us in the shortest case."""
    recorded = Window(0, 1000 * US, "10 steps", "steps")
    step = Interval(low * US, 100 * US, 120 * US)
    program = replace(program_of(trace_of(loop(every=20))), window=recorded, step=step)
    saving = Interval(50 * US, 90 * US, 100 * US)
    given = Finding(rule, Severity.WARNING, "", 100 * US, saving, "", (), 0, recorded)
    found = program.in_whole_window(given, recorded)
    assert found.severity is severity
    assert found.saving == (saving if severity is Severity.WARNING else Interval(0, 90 * US, 100 * US))
