"""The section on the program alone says how its step is known."""

from types import SimpleNamespace

import pytest

from nsyswrap.base.interval import Interval
from nsyswrap.sections import program


@pytest.mark.parametrize(("scale", "is_said"), [(0.975, True), (0.99, False), (1.01, False), (1.025, True)])
def test_a_scale_is_said_where_it_changes_times_by_two_per_cent(scale: float, *, is_said: bool) -> None:
    calibration = SimpleNamespace(count=9, extent=Interval(2.0, 3.0, 4.0), scale=scale)
    said = program._note(SimpleNamespace(calibration=calibration, step=None))  # type: ignore[arg-type]  # noqa: SLF001
    assert (f"{scale:.2f}" in said) == is_said
