"""Comparisons of real captures whose difference is known."""

from collections.abc import Callable

import pytest
from real_captures import RealReport, of_captures

from nsyswrap.compare.comparison import Comparison, ComparisonOptions, FindingChange, IssueKind, Outcome
from nsyswrap.compare.reports import compare_reports

ONE, EIGHT = "samples/mnist-1-worker", "samples/mnist-8-workers"
Compared = Callable[..., Comparison]


@pytest.fixture(scope="module")
def compared(real_report: RealReport) -> Compared:
    """Return a function that compares two reports by name."""

    def comparison(base: str, new: str, *accept: IssueKind) -> Comparison:
        settings = ComparisonOptions(accept=frozenset(accept))
        return compare_reports([real_report(base)], [real_report(new)], (base, new), settings)

    return comparison


def amounts(comparison: Comparison, table: str, name: str) -> tuple[float | None, float | None]:
    """Return the amounts of base and new in one row."""
    found = comparison.table(table)
    assert found is not None
    row = next(one for one in found.changes if one.name == name)
    return row.base, row.new


def test_eight_workers_against_one_are_described_without_a_verdict(compared: Compared) -> None:
    """The step falls from 5.68 to 2.46 ms, the data phase from 3.39 ms to 72 µs; one run a side has no verdict."""
    found = compared(ONE, EIGHT)
    assert found.outcome is Outcome.CANNOT_TELL
    of_median = found.estimates[0]
    assert of_median.base_ns == pytest.approx(5.68e6, rel=0.002)
    assert of_median.new_ns == pytest.approx(2.46e6, rel=0.002)
    assert -0.71 < of_median.change.low < of_median.change.high < -0.37
    assert of_median.noise == pytest.approx(0.436, abs=0.001)
    base, new = amounts(found, "phases", "data")
    assert base == pytest.approx(3.387e6, rel=0.01)
    assert new == pytest.approx(71.6e3, rel=0.01)
    assert "idle/data_wait" in [pair.rule for pair in found.findings_that_are(FindingChange.GONE)]
    assert [one.kind for one in found.issues] == [IssueKind.COMMAND]


def test_the_same_kernels_take_the_same_time_in_both(compared: Compared) -> None:
    """More loader processes change nothing on the GPU: the kernels are the same, and compute stays within 1 %."""
    found = compared(ONE, EIGHT)
    kernels = found.table("kernels")
    assert kernels is not None
    assert all(None not in {one.base, one.new} for one in kernels.changes)
    base, new = amounts(found, "ledger", "compute_ns")
    assert new == pytest.approx(base, rel=0.01)


def test_families_are_all_the_time_of_kernels(compared: Compared) -> None:
    """On both sides the sums by name and by family are equal."""
    found = compared(ONE, EIGHT)
    kernels, families = found.table("kernels"), found.table("families")
    assert kernels is not None
    assert families is not None
    for side in ("base", "new"):
        by_name, by_family = (sum(getattr(one, side) or 0 for one in table.changes) for table in (kernels, families))
        assert by_name == pytest.approx(by_family)


@of_captures([ONE, EIGHT, "cnn_amp", "cnn_amp_autograd_ranges"], few={ONE, EIGHT})
def test_a_capture_does_not_differ_from_itself(name: str, compared: Compared) -> None:
    """The outcome is no difference or unknown, and a note says that it is the same capture."""
    found = compared(name, name)
    assert found.outcome in (Outcome.NO_DIFFERENCE, Outcome.CANNOT_TELL)
    assert all(estimate.change.point == 0 for estimate in found.estimates)
    assert IssueKind.SAME in [one.kind for one in found.issues]
    assert {one.change for one in found.findings} <= {FindingChange.SAME}


def test_an_incomplete_capture_is_reported_first(compared: Compared) -> None:
    """An old nsys on a newer driver lost host calls and every range."""
    found = compared("cnn_fp32_nsys2023", "cnn_amp")
    assert found.outcome is Outcome.CANNOT_TELL
    blocking = [one.kind for one in found.issues if one.blocks]
    assert blocking == [IssueKind.STEPS, IssueKind.INCOMPLETE, IssueKind.WINDOW]
    assert found.basis == "window"
    assert any(one.kind is IssueKind.VERSIONS and "2023.4.4.54" in one.message for one in found.issues)


def test_graphs_traced_in_two_ways_are_not_comparable(compared: Compared) -> None:
    """The program is the same and tracing nodes takes longer; one run of each cannot show a difference."""
    found = compared("cuda_graph_node_trace", "cuda_graph_graph_trace")
    assert found.outcome is Outcome.CANNOT_TELL
    assert "CUDA graphs were traced as Node and as Graph" in found.verdict
    accepted = compared("cuda_graph_node_trace", "cuda_graph_graph_trace", IssueKind.TRACES)
    assert "Cannot tell: one run of each side" in accepted.verdict
    assert accepted.estimates[0].change.point == pytest.approx(-0.209, abs=0.001)


def test_another_number_of_gpus_is_not_comparable(compared: Compared) -> None:
    found = compared("alexnet_data_parallel_2gpu", "cnn_amp")
    assert [one.kind for one in found.issues if one.blocks] == [IssueKind.GPU]
    assert IssueKind.WORK in [one.kind for one in found.issues]


def test_a_report_without_a_gpu_has_no_ledger_to_compare(compared: Compared) -> None:
    found = compared("ranges_nsys2022", "ranges_nsys2022")
    assert found.outcome is Outcome.CANNOT_TELL
    assert found.table("ledger") is None
