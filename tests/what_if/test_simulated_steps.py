"""The simulated steps of a sample, and those of them that are typical of its window."""

import numpy as np
from analysis_fixtures import window
from export_builder import ExportBuilder, trace_of
from measured_costs import US
from simulations import simulate

from nsyswrap.loop.context import find_context
from nsyswrap.what_if.simulated_steps import simulated_steps, typical_steps


def in_steps(lengths: list[int]) -> ExportBuilder:
    """Return steps of some lengths in us, one after the other, with a launch every 10 us."""
    builder, at = ExportBuilder(), 0
    for number, length in enumerate(lengths):
        for launch in range(at, at + length, 10):
            builder.kernel((launch + 8) * US, (launch + 9) * US, "kernel", launched=(launch * US, (launch + 5) * US))
        builder.range(f"step {number}", at * US, (at + length) * US)
        at += length
    return builder


def test_without_a_change_the_steps_are_as_long_as_recorded() -> None:
    """The first step is warm-up."""
    lengths = [100, 100, 150, 120, 110]
    context = find_context(trace_of(in_steps(lengths)))
    simulation = simulate(context, window(0, sum(lengths) * US))
    measured = context.steps.measured
    recorded = (measured["end"] - measured["start"]).to_numpy()
    assert len(recorded) >= 3
    assert np.abs(simulated_steps(simulation, simulation.graph.run()) - recorded).max() <= 10 * US


def test_typical_steps_are_as_long_as_the_median_step_of_the_window() -> None:
    """Half of the steps in the sample take 200 us, and most of those in the whole window."""
    lengths = [100, 200] * 12 + [200] * 30
    context = find_context(trace_of(in_steps(lengths)))
    whole, sample = window(0, sum(lengths) * US), window(0, 12 * 300 * US)
    simulation = simulate(context, sample)
    steps = simulated_steps(simulation, simulation.graph.run())
    of_sample, of_window = (typical_steps(simulation, each) for each in (sample, whole))
    assert np.median(steps[of_window]) > 190 * US
    assert len(of_window) == max(len(steps) // 4, 5) == len(of_sample)


def test_of_a_few_steps_all_are_typical() -> None:
    lengths = [100] * 5
    context = find_context(trace_of(in_steps(lengths)))
    whole = window(0, sum(lengths) * US)
    simulation = simulate(context, whole)
    assert len(typical_steps(simulation, whole)) == len(context.steps.measured)


def test_a_sample_without_steps_has_no_typical_ones() -> None:
    builder = ExportBuilder()
    for at in range(0, 100, 10):
        builder.kernel((at + 8) * US, (at + 9) * US, "kernel", launched=(at * US, (at + 5) * US))
    context = find_context(trace_of(builder))
    simulation = simulate(context, window(0, 100 * US))
    assert not len(typical_steps(simulation, window(0, 100 * US)))
    assert not len(simulated_steps(simulation, simulation.graph.run()))
