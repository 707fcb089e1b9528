"""The longest usual gap between launches is ten times the median time from launch to launch, and 200 us at most."""

from itertools import pairwise

import pytest
from analysis_fixtures import window
from export_builder import ExportBuilder, global_id, trace_of

from nsyswrap.attribution.launch_pace import find_launches, usual_gap_ns
from nsyswrap.loop.context import find_context
from nsyswrap.trace.tables import Trace

PEER = global_id(5000)
# The usual gap where too few launches show one.
LONGEST_NS = 200_000


def launched_at(*calls: int, builder: ExportBuilder | None = None, **columns: int) -> ExportBuilder:
    """Return kernels of 1 ns, launched by calls that begin at these times and last 1 ns."""
    made = builder or ExportBuilder()
    for call in calls:
        made.kernel(call + 5, call + 6, "k", launched=(call, call + 1), **columns)
    return made


def usual(trace: Trace, device: int = 0, start: int = 0, end: int = 10_000) -> float:
    """Return the longest usual gap of one device."""
    return usual_gap_ns(find_context(trace), device, window(start, end))


def test_a_usual_gap_is_ten_median_intervals() -> None:
    """Intervals of 10, 20, 30, 40 and 1000: one long pause does not change the median of 30."""
    calls = (0, 10, 30, 60, 100, 1100)
    assert sorted(later - sooner for sooner, later in pairwise(calls)) == [10, 20, 30, 40, 1000]
    assert usual(trace_of(launched_at(*calls))) == 300


def test_a_usual_gap_has_an_absolute_end() -> None:
    """A launch each 20 us explains gaps of 200 us. A launch each 21 us or each 8 ms explains no more than that."""
    for every in (20_000, 21_000, 8_000_000):
        made = launched_at(*range(0, 10 * every, every))
        assert usual(trace_of(made), end=10 * every) == 200_000


def test_few_launches_have_no_pace() -> None:
    """Four launches are too few for a usual pace, so only the absolute limit holds; five are enough."""
    assert usual(trace_of(launched_at(0, 10, 20, 30))) == LONGEST_NS
    assert usual(trace_of(launched_at(0, 10, 20, 30, 40))) == 100


@pytest.mark.parametrize(("wait", "late"), [(19_000, True), (21_000, False)])
def test_an_operation_that_begins_long_after_its_call_is_not_late(wait: int, late: bool) -> None:  # noqa: FBT001
    """The GPU goes idle after the call begins, and before the operation does: within 20 us, or for another reason."""
    made = ExportBuilder().kernel(0, 10_000, launched=(-5000, -4000))
    made.kernel(5000 + wait, 6000 + wait, launched=(5000, 6000))
    assert find_launches(find_context(trace_of(made)), window(0, 30_000)).late.tolist() == [True, late]


def test_operations_outside_the_window_have_no_part() -> None:
    """The first five launches are 10 apart, the others 100. Windows from 150 on and up to 150 are tested."""
    trace = trace_of(launched_at(0, 10, 20, 30, 40, 200, 300, 400, 500, 600))
    assert usual(trace, start=150) == 1000
    assert usual(trace, end=150) == 100


@pytest.mark.parametrize("columns", [{"device": 1}, {"process": PEER}])
def test_intervals_are_those_of_one_process_on_one_device(columns: dict[str, int]) -> None:
    """Two devices or processes launch alternately, 50 apart. Each on its own has intervals of 100."""
    made = launched_at(*range(0, 1000, 100))
    trace = trace_of(launched_at(*range(50, 1050, 100), builder=made, **columns))
    assert usual(trace) == 1000
