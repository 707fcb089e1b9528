"""The optimizer's pass over the parameters: many short kernels a step, or few, or long ones."""

import pytest
from analysis_fixtures import run_section, window
from export_builder import ExportBuilder, trace_of

from nsyswrap.attribution.optimizer_pass import find_pass
from nsyswrap.loop.context import find_context
from nsyswrap.rules.optimizer import BESIDE_FUSED, MANY_KERNELS
from nsyswrap.sections import launches

US = 1000
STEP, STEPS = 5000 * US, 8


@pytest.mark.parametrize(
    ("kernels", "length", "is_many"), [(98, 5000, False), (102, 5000, True), (102, 9800, True), (102, 10_200, False)]
)
def test_a_hundred_short_kernels_a_step_are_many(kernels: int, length: int, *, is_many: bool) -> None:
    """Kernels from 10 us on are not short."""
    found = find_pass(find_context(trace_of(passes(kernels, length))), 0, window(0, STEPS * STEP))
    assert found is not None
    assert found.is_many is is_many


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("vectorized_elementwise_kernel", MANY_KERNELS),
        ("multi_tensor_apply_kernel<TensorListMetadata<2>, UnaryOpFunctor>", MANY_KERNELS),
        (
            "multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor<float>>",
            BESIDE_FUSED,
        ),
        ("multi_tensor_apply_kernel<TensorListMetadata<3>, FusedSgdMathFunctor<float, 3>>", BESIDE_FUSED),
    ],
)
def test_short_kernels_beside_a_fused_optimizer_are_not_its_own(name: str, said: object) -> None:
    """A moving average of the weights, for one, is updated tensor by tensor after the fused kernel."""
    made = passes(120, 5000)
    for begin in range(0, STEPS * STEP, STEP):
        at = begin + 4900 * US
        made.kernel(at + 10 * US, at + 60 * US, name, launched=(at, at + US))
    (found,) = [
        each
        for each in run_section(launches, find_context(trace_of(made)), window(0, STEPS * STEP)).findings
        if each.rule == MANY_KERNELS.key
    ]
    assert found.advice == said.advice  # type: ignore[attr-defined]  # a record of advice


def passes(kernels: int, length: int) -> ExportBuilder:
    """Return steps whose optimizer launches so many kernels of a length in ns, one every 40 us."""
    made = ExportBuilder().gpu()
    for begin in range(0, STEPS * STEP, STEP):
        made.range(f"batch {begin // STEP}", begin, begin + STEP).range("optimizer", begin, begin + STEP)
        for number in range(kernels):
            at = begin + number * 40 * US
            made.kernel(at + 10 * US, at + 10 * US + length, launched=(at, at + US))
    return made
