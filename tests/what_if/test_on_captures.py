"""The simulation of real captures: its error, and a predicted saving against the measured one."""

import pytest
from real_captures import CAPTURE_NAMES, NO_GPU, OLD, RealContext, RealReport, RealTrace, of_captures
from savings import ends_of, saving_of
from simulations import simulate

from nsyswrap.hardware.profiler_cost import ProfilerCost
from nsyswrap.loop.context import Settings, find_calls, find_context, find_states
from nsyswrap.model import Finding, Severity
from nsyswrap.report import choose_window
from nsyswrap.trace.tables import Trace
from nsyswrap.what_if.changes.loader_work import loader_work
from nsyswrap.what_if.saving import predict
from nsyswrap.what_if.without_profiler import WithoutProfiler, without_profiler

simulated = of_captures(name for name in CAPTURE_NAMES if name not in {OLD, NO_GPU})

# The prediction error in thousandths. A change of the model changes it.
ERROR = {
    "alexnet_data_parallel_2gpu": -0.09,
    "bench_source": -2.22,
    "cnn_amp": 0.28,
    "cnn_amp_autograd_ranges": 0.13,
    "cuda_graph_graph_trace": -1.04,
    "cuda_graph_node_trace": -0.04,
    "ddp_2gpu_slow_links": -1.319,
    "mnist_counters_python": 0.00,
}
# Findings without a change: the capture does not show the cause, or the next layer needs the result at once.
UNPREDICTED = {"idle/unknown", "idle/not_traced", "graphs/whole", "communication/exposed"}


@simulated
def test_a_real_run_is_reproduced(name: str, real_context: RealContext) -> None:
    context = real_context(name)
    found = simulate(context)
    assert found.predicts
    assert found.error_share is not None
    assert found.error_share * 1000 == pytest.approx(ERROR[name], abs=0.01)


def test_a_capture_that_lost_calls_is_not_simulated(real_report: RealReport) -> None:
    report = real_report(OLD)
    section = report.section("prediction")
    assert section is not None
    assert "calls of its main thread were lost" in section.notes[0]
    simulated = [each for each in report.findings if each.rule.startswith("idle/") and ends_of(each)[1] != 0]
    assert simulated
    assert {each.saving for each in simulated} == {None}


def test_steps_near_the_median_are_simulated_in_place_of_a_long_window(
    real_context: RealContext,
) -> None:
    """Eight steps have 19,432 operations: four steps are simulated, and count twice."""
    context = real_context("bench_source")
    found = simulate(context)
    assert (found.steps, found.scale) == (4, 2.0)
    assert len(found.operations) == 9716
    assert found.sample.label.startswith("4 of 8 steps, from step ")


def test_the_saving_of_more_workers_comes_true(real_report: RealReport) -> None:
    """58 steps take 332 ms with one loader worker and 143 ms with eight. The prediction is made from the first run."""
    slow, fast = (real_report(f"samples/mnist-{which}") for which in ("1-worker", "8-workers"))
    saved = slow.window.length_ns - fast.window.length_ns
    assert saved == pytest.approx(188.4e6, rel=0.001)
    found = _finding(slow.findings, "idle/data_wait")
    assert saving_of(found).low <= saved <= saving_of(found).high
    assert saving_of(found).point == pytest.approx(saved, rel=0.05)


def test_with_enough_workers_launches_are_the_limit(real_report: RealReport) -> None:
    """CPU time between launches, which saves almost nothing with one worker, now saves more than 30 ms."""
    found = real_report("samples/mnist-8-workers").findings[0]
    assert found.rule == "launches/launch_bound"
    assert saving_of(found).low > 30e6


@simulated
def test_no_saving_is_larger_than_the_window(name: str, real_report: RealReport) -> None:
    report = real_report(name)
    predicted = [each for each in report.findings if each.saving is not None]
    for each in predicted:
        assert 0 <= saving_of(each).low <= saving_of(each).high <= report.window.length_ns
    assert predicted
    rest = {each for each in report.findings if each.saving is None}
    assert {each.saving for each in rest} | {each.saving_method for each in rest} <= {None}
    assert {each.rule for each in rest} <= UNPREDICTED
    assert {each.severity for each in rest} <= {Severity.NOTE}


def test_the_main_thread_waits_for_two_autograd_threads(real_context: RealContext) -> None:
    """The training process loads the batches. Loading them in other processes saves about the loading time."""
    context = real_context("alexnet_data_parallel_2gpu")
    saving = predict(simulate(context), loader_work)
    assert 195e6 < saving_of(saving).point < 210e6


def test_a_loader_that_sets_the_pace_may_be_as_much_faster_as_the_machine(real_trace: RealTrace) -> None:
    """One loader process keeps this run waiting. On a machine whose pace changes by 2 it may take half the time."""
    trace = real_trace("samples/mnist-1-worker")
    even, changing = (_without_profiler(trace, pace_range) for pace_range in (1.0, 2.0))
    assert even.run.low > 0.99
    assert changing.run.low == pytest.approx(0.5, abs=0.03)
    assert (changing.run.point, changing.run.high) == (even.run.point, even.run.high)


def _without_profiler(trace: Trace, pace_range: float) -> WithoutProfiler:
    """Return the run without the profiler where no call costs anything: only the pace of the machine counts."""
    context = find_context(trace, Settings(profiler_cost=ProfilerCost({}, pace_range)))
    window = choose_window(context)
    found = without_profiler(simulate(context), find_calls(context, window, find_states(context, window)), window)
    assert found is not None
    return found


def _finding(findings: tuple[Finding, ...], rule: str) -> Finding:
    return next(each for each in findings if each.rule == rule)
