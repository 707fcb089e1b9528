"""The error of a measured alternative: what it scattered, and at least that of any benchmark."""

import pytest

from nsyswrap.base.interval import Interval
from nsyswrap.events.alternatives import MeasuredAlternative
from nsyswrap.what_if.measured_change import _error


@pytest.mark.parametrize(("ratio", "error"), [((0.5, 0.5, 0.5), 0.10), ((0.93, 0.98, 0.98), 0.50)])
def test_a_benchmark_is_off_by_a_tenth_or_by_what_it_scattered(ratio: tuple[float, float, float], error: float) -> None:
    """What scattered is a share of what is saved, or of a tenth where less is saved."""
    assert _error(MeasuredAlternative(1.0, 1.0, Interval(*ratio))) == pytest.approx(error)
