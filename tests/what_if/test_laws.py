"""Laws of the simulation: programs run by its rules are reproduced, and no change that saves time makes a run longer."""

from pathlib import Path

import numpy as np
import random_traces
from analysis_fixtures import whole_session, window
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from replay_programs import START, Act, Machine, programs

from nsyswrap.db.load import load_export
from nsyswrap.intervals import Spans
from nsyswrap.loop.context import TraceContext, find_context
from nsyswrap.tables import CALLS
from nsyswrap.what_if import changes
from nsyswrap.what_if.dependency_graph import Change, Simulation

SOME = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
pieces = st.lists(st.tuples(st.integers(0, 1500), st.integers(1, 120)), max_size=6)


def study_of(program: tuple[Act, ...], folder: Path) -> tuple[TraceContext, Simulation]:
    """A program as a context, and its simulation."""
    machine = Machine().run(program)
    context = find_context(load_export(machine.builder.write(folder / "program.sqlite")))
    return context, context.simulation(window(START, max(machine.now, machine.ended)))


def spans_of(parts: list[tuple[int, int]]) -> Spans:
    """Disjoint spans from starts and lengths."""
    at = np.cumsum([length + gap for gap, length in parts]) if parts else np.empty(0, np.int64)
    lengths = np.array([length for _, length in parts], np.int64)
    return Spans(START + at - lengths, START + at)


@SOME
@given(program=programs)
def test_a_program_run_by_the_rules_is_reproduced(program: tuple[Act, ...], tmp_path: Path) -> None:
    """Two threads, two streams, waits and hand-overs: the simulation takes just what was measured."""
    _, simulation = study_of(program, tmp_path)
    assert simulation.simulated_ns == simulation.measured_ns


@SOME
@given(program=programs, data=st.data())
def test_saving_time_makes_nothing_longer_and_saves_no_more_than_was_taken_out(
    program: tuple[Act, ...], data: st.DataObject, tmp_path: Path
) -> None:
    _, simulation = study_of(program, tmp_path)
    rows = np.array(sorted(data.draw(st.sets(st.sampled_from(simulation.operations.tolist())))), np.intp)
    change = Change(
        host=spans_of(data.draw(pieces)),
        host_factor=data.draw(st.floats(0, 1)),
        operations=rows,
        factor=data.draw(st.floats(0, 1)),
    )
    own, held = simulation.graph.weights(change)
    gain = simulation.length(None) - simulation.length(change)
    assert 0 <= gain <= int(np.maximum(simulation.graph.own - own, simulation.graph.held - held).sum())


@SOME
@given(program=programs)
def test_waiting_for_nothing_makes_nothing_longer(program: tuple[Act, ...], tmp_path: Path) -> None:
    context, simulation = study_of(program, tmp_path)
    every = np.arange(len(context.trace[CALLS]))
    assert simulation.length(Change(waits=every)) <= simulation.length(None)


@SOME
@given(sketch=random_traces.sketches)
def test_no_trace_is_too_strange(sketch: random_traces.Sketch, tmp_path: Path) -> None:
    """Whatever is in a trace, the simulation answers or says why not, and every gain is at least nothing and ordered."""
    context = find_context(random_traces.loaded(random_traces.built(sketch), tmp_path))
    whole = whole_session(context.trace)
    simulation = context.simulation(whole)
    assert simulation.obstacle or simulation.simulated_ns is not None
    for what in changes.OF_CAUSE.values():
        low, high, said = changes.gains(context, whole, what)
        assert said
        if low is None or high is None:
            assert not simulation.predicts
        else:
            assert 0 <= low <= high <= simulation.length(None)
