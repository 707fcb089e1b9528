"""A change whose alternatives were measured: whether that is most of it, and how far a measurement may be off."""

import numpy as np
import pytest
from analysis_fixtures import window
from export_builder import ExportBuilder, trace_of
from simulations import simulate

from nsyswrap.base.interval import Interval
from nsyswrap.events.alternatives import Alternative, MeasuredAlternative, MeasuredAlternatives
from nsyswrap.events.xray_record import RecordedOperator
from nsyswrap.loop.context import Settings, find_context
from nsyswrap.what_if.measured_change import _error, with_measured
from nsyswrap.what_if.saving import AlternativeKernels, faster


@pytest.mark.parametrize(("ratio", "error"), [((0.5, 0.5, 0.5), 0.05), ((0.96, 0.98, 0.98), 0.40)])
def test_a_benchmark_is_off_by_a_twentieth_or_its_scatter(ratio: tuple[float, float, float], error: float) -> None:
    """What scattered is a share of what is saved, or of a twentieth where less is saved."""
    assert _error(MeasuredAlternative(1.0, 1.0, Interval(*ratio))) == pytest.approx(error)


@pytest.mark.parametrize(("count", "method"), [(4, "simulated"), (6, "benchmarked")])
def test_a_change_is_benchmarked_where_half_of_its_saving_was_measured(count: int, method: str) -> None:
    """Ten equal kernels take half as long. Some of them were measured; four are named."""
    measured = MeasuredAlternative(2.0, 1.0, Interval(0.5, 0.5, 0.5))
    alternatives = [Alternative("padded", (RecordedOperator(f"aten::mm{number}"),)) for number in range(count)]
    built = ExportBuilder()
    for at in range(0, 1_000, 100):
        built.kernel(at + 10, at + 90, launched=(at, at + 4))
    settings = Settings(alternatives=MeasuredAlternatives("", dict.fromkeys(alternatives, measured)))
    simulation = simulate(find_context(trace_of(built), settings), window(0, 1_000))
    candidates = [AlternativeKernels(each, np.array([row]), 80) for row, each in enumerate(alternatives)]
    found = with_measured(simulation, faster(simulation.operations, 0.5, ""), candidates)
    assert (found.method, len(found.evidence)) == (method, 4)
