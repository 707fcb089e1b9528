"""The optimizer's pass over the parameters: many short kernels a step, or few, or long ones."""

import pytest
from analysis_fixtures import window
from export_builder import ExportBuilder, trace_of

from nsyswrap.attribution.optimizer_pass import find_pass
from nsyswrap.loop.context import find_context

US = 1000
STEP, STEPS = 5000 * US, 8


@pytest.mark.parametrize(
    ("kernels", "length", "is_many"), [(98, 5000, False), (102, 5000, True), (102, 9800, True), (102, 10_200, False)]
)
def test_a_hundred_short_kernels_a_step_are_many(kernels: int, length: int, *, is_many: bool) -> None:
    """Kernels from 10 us on are not short."""
    made = ExportBuilder().gpu()
    for begin in range(0, STEPS * STEP, STEP):
        made.range(f"batch {begin // STEP}", begin, begin + STEP).range("optimizer", begin, begin + STEP)
        for number in range(kernels):
            at = begin + number * 40 * US
            made.kernel(at + 10 * US, at + 10 * US + length, launched=(at, at + US))
    found = find_pass(find_context(trace_of(made)), 0, window(0, STEPS * STEP))
    assert found is not None
    assert found.is_many is is_many
