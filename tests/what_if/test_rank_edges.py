"""In the simulation, a collective begins to transfer when all ranks have arrived, whichever rank gets faster."""

from collections.abc import Callable

import numpy as np
import pytest
from analysis_fixtures import attributions_of
from export_builder import trace_of
from hypothesis import given
from hypothesis import strategies as st
from made_ranks import job
from real_captures import RealContext
from savings import saving_of
from simulations import simulate_trace

from nsyswrap.base.intervals import NOTHING, Spans
from nsyswrap.events.operations import COMMUNICATION
from nsyswrap.loop.context import find_context, find_states
from nsyswrap.ranks.collectives import find_collectives
from nsyswrap.ranks.late_ranks import find_late_ranks
from nsyswrap.ranks.lateness import find_lateness
from nsyswrap.report import choose_window
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.late_rank import in_time
from nsyswrap.what_if.rank_edges import _topological
from nsyswrap.what_if.saving import predict
from nsyswrap.what_if.simulate import Simulation, find_simulation

RealTrace = Callable[[str], Trace]
LATE = 400_000
# The measured saving in a step without the fault, as a share of the step, on two H200s: docs/ranks.md. The committed
# captures have eight steps of these jobs.
MEASURED_SAVING = {"ranks/loader": 25.3 / 46.1, "ranks/uneven_input": 7.9 / 28.7, "ranks/host_in_backward": 18.8 / 39.6}


def simulated(trace: Trace) -> Simulation:
    """Return the simulation of the measured steps."""
    context = find_context(trace)
    window = choose_window(context)
    return find_simulation(context, find_states(context, window), window, find_collectives(context))


@pytest.mark.parametrize("name", MEASURED_SAVING)
def test_a_real_job_is_reproduced(name: str, real_trace: RealTrace) -> None:
    found = simulated(real_trace(name))
    assert found.predicts, found.error_share


@pytest.mark.parametrize("name", MEASURED_SAVING)
def test_the_saving_of_a_real_fix_is_predicted_within_a_quarter(name: str, real_context: RealContext) -> None:
    context = real_context(name)
    window, collectives = choose_window(context), find_collectives(context)
    states = find_states(context, window)
    lateness = find_lateness(context, window, collectives, attributions_of(context, window))
    (late,) = find_late_ranks(context.steps, {}, window, collectives, lateness.charges)
    simulation = find_simulation(context, states, window, collectives)
    saving = saving_of(predict(simulation, lambda whole: in_time(lateness, late, whole)))
    assert saving.point / window.length_ns == pytest.approx(MEASURED_SAVING[name], rel=0.25)


def test_a_faster_rank_that_is_in_time_saves_nothing() -> None:
    trace = trace_of(job(2, 8, {1: LATE}))
    simulation = simulate_trace(trace)
    threads = [each for each in simulation.threads if tables.pid(each) == 5000]
    whole = Spans(np.array([0]), np.array([10**9]))
    assert simulation.saving(Change(host=dict.fromkeys(threads, whole))) == pytest.approx(0, abs=8 * 1000)


def test_half_the_transfer_leaves_the_wait() -> None:
    """In a step the transfer takes 100 ns and the wait 400 us. Only the transfer gets shorter."""
    simulation = simulate_trace(trace_of(job(2, 8, {1: LATE})))
    operations, ran = simulation.context.operations, simulation.operations
    sent = ran[operations.kind[ran] == COMMUNICATION]
    saved = simulation.saving(Change(operations=sent, factor=0.5))
    assert saved is not None
    assert saved <= 8 * 100


@given(st.integers(2, 60), st.randoms(use_true_random=False))
def test_an_order_puts_each_node_behind_the_two_it_waits_for(count: int, random: st.randoms) -> None:  # type: ignore[valid-type]
    """The numbers of nodes are shuffled first, so that they do not already have such an order."""
    names = [0, *random.sample(range(1, count), count - 1)]  # type: ignore[attr-defined]
    after, held_by = (np.zeros(count, np.intp) for _ in range(2))
    for number in range(1, count):
        for columns in (after, held_by):
            columns[names[number]] = names[random.randrange(number)]  # type: ignore[attr-defined]
    place = np.argsort(_topological(after, held_by))
    others = np.arange(count) > 0
    assert (place[after] < place)[others].all()
    assert (place[held_by] < place)[others].all()


def test_nodes_in_a_circle_have_no_order() -> None:
    assert len(_topological(np.array([0, 2, 1]), np.array([0, 0, 0]))) == 1


def test_without_other_ranks_nothing_changes() -> None:
    simulation = simulate_trace(trace_of(job(1, 6, {})))
    assert simulation.predicts
    assert simulation.saving(Change(host=NOTHING)) == 0
