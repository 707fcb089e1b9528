"""Laws of the simulation: programs that ran by its rules are reproduced, and less work makes no run longer."""

from functools import partial
from pathlib import Path

import numpy as np
import random_traces
from analysis_fixtures import attributions_of, whole_session, window
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_traces import several
from simulated_programs import START, Act, Machine, programs
from simulations import simulate

from nsyswrap.base.intervals import Spans
from nsyswrap.loop.context import find_context
from nsyswrap.rules import CAUSES
from nsyswrap.trace.load import load_export
from nsyswrap.trace.tables import CALLS
from nsyswrap.what_if.changes import FIXES
from nsyswrap.what_if.critical_path import critical_path
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import Fix, LostTime
from nsyswrap.what_if.saving import WhatIf, predict
from nsyswrap.what_if.simulate import Simulation

SOME = settings(several, suppress_health_check=[HealthCheck.function_scoped_fixture])
pieces = st.lists(st.tuples(st.integers(0, 1500), st.integers(1, 120)), max_size=6)


def simulation_of(program: tuple[Act, ...], folder: Path) -> Simulation:
    machine = Machine().run(program)
    context = find_context(load_export(machine.builder.write(folder / "program.sqlite")))
    return simulate(context, window(START, max(machine.now, machine.ended)))


def spans_of(parts: list[tuple[int, int]]) -> Spans:
    """Return disjoint spans from pairs of a gap and a length."""
    at = np.cumsum([length + gap for gap, length in parts]) if parts else np.empty(0, np.int64)
    lengths = np.array([length for _, length in parts], np.int64)
    return Spans(START + at - lengths, START + at)


@SOME
@given(program=programs)
def test_a_program_that_ran_by_the_rules_is_reproduced(program: tuple[Act, ...], tmp_path: Path) -> None:
    """With two threads, two streams, waits and hand-overs, the simulated length equals the measured length."""
    simulation = simulation_of(program, tmp_path)
    assert simulation.simulated_ns == simulation.measured_ns


@SOME
@given(program=programs, data=st.data())
def test_less_work_makes_no_run_longer_and_saves_no_more_than_it_takes_out(
    program: tuple[Act, ...], data: st.DataObject, tmp_path: Path
) -> None:
    simulation = simulation_of(program, tmp_path)
    rows = np.array(sorted(data.draw(st.sets(st.sampled_from(simulation.operations.tolist())))), np.intp)
    change = Change(
        host=spans_of(data.draw(pieces)),
        host_factor=data.draw(st.floats(0, 1)),
        operations=rows,
        factor=data.draw(st.floats(0, 1)),
    )
    own, held = simulation.graph.weights(change)
    saved = simulation.length() - simulation.length(change)
    assert 0 <= saved <= int(np.maximum(simulation.graph.own - own, simulation.graph.held - held).sum())


@SOME
@given(program=programs)
def test_removed_waits_make_no_run_longer(program: tuple[Act, ...], tmp_path: Path) -> None:
    simulation = simulation_of(program, tmp_path)
    every = np.arange(len(simulation.context.trace[CALLS]))
    assert simulation.length(Change(waits=every)) <= simulation.length()


@SOME
@random_traces.same_examples
@given(sketch=random_traces.sketches)
def test_every_trace_is_simulated_or_has_a_failure(sketch: random_traces.Sketch) -> None:
    """Each simulation has a length or the reason for its failure. Savings are at least 0, the lower bound first."""
    context = random_traces.context_of(sketch)
    whole = whole_session(context.trace)
    simulation = simulate(context, whole)
    assert simulation.failure or simulation.simulated_ns is not None
    attributions = attributions_of(context, whole)
    for key in sorted({rule.key for rule in CAUSES.values()} & FIXES.keys()):
        lost, fix = LostTime(key, attributions), FIXES[key]
        saving = predict(simulation, partial(_changed, fix, lost))
        assert saving.evidence
        assert (saving.method is None) == (saving.time is None) == (saving.what_if is None)
        if saving.time is None:
            assert not simulation.predicts
        else:
            assert 0 <= saving.time.low <= saving.time.high <= simulation.length()


def _changed(fix: Fix, lost: LostTime, simulation: Simulation) -> WhatIf:
    return fix.change(simulation, lost)


def drawn_change(data: st.DataObject, simulation: Simulation) -> Change:
    """Return a change of some of the host's time, some operations and some waits."""
    rows = sorted(data.draw(st.sets(st.sampled_from(simulation.operations.tolist()))))
    calls = sorted(data.draw(st.sets(st.integers(0, len(simulation.context.trace[CALLS]) - 1))))
    spans = spans_of(data.draw(pieces))
    return Change(
        host=spans if data.draw(st.booleans()) else dict.fromkeys(simulation.threads[:1], spans),
        host_factor=data.draw(st.sampled_from((0.0, 0.5, 1.0))),
        operations=np.array(rows, np.intp),
        factor=data.draw(st.sampled_from((0.0, 0.25, 1.0))),
        waits=np.array(calls, np.intp),
        latency_factor=data.draw(st.sampled_from((0.0, 1.0))),
    )


@SOME
@given(program=programs, data=st.data())
def test_the_order_of_changes_does_not_matter_and_making_one_twice_counts_once(
    program: tuple[Act, ...], data: st.DataObject, tmp_path: Path
) -> None:
    """Two changes together save at least as much as each of them."""
    simulation = simulation_of(program, tmp_path)
    one, other = drawn_change(data, simulation), drawn_change(data, simulation)
    together = simulation.length(one, other)
    assert together == simulation.length(other, one) == simulation.length(one, other, one)
    assert simulation.length(one, one) == simulation.length(one)
    assert together <= min(simulation.length(one), simulation.length(other))


@SOME
@given(program=programs, data=st.data())
def test_changes_of_different_things_add_up(program: tuple[Act, ...], data: st.DataObject, tmp_path: Path) -> None:
    """One change affects the host and the other operations. Both reduce ``own``, up to rounding."""
    simulation = simulation_of(program, tmp_path)
    whole = drawn_change(data, simulation)
    host = Change(host=whole.host, host_factor=whole.host_factor)
    operations = Change(operations=whole.operations, factor=0.25)
    graph = simulation.graph
    apart = [graph.own - graph.weights(each)[0] for each in (host, operations)]
    together = graph.own - graph.weights(host, operations)[0]
    assert np.abs(together - apart[0] - apart[1]).max() <= 1


@SOME
@given(program=programs)
def test_the_critical_path_adds_up_to_the_run(program: tuple[Act, ...], tmp_path: Path) -> None:
    simulation = simulation_of(program, tmp_path)
    assert sum(critical_path(simulation).values()) == simulation.length()
