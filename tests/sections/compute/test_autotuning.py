"""Steps in which cuDNN times its algorithms."""

import pytest
from analysis_fixtures import run_section, window
from export_builder import ExportBuilder, trace_of

from nsyswrap.loop.context import find_context
from nsyswrap.model import Finding
from nsyswrap.sections.compute import section

RULE = "compute/autotuning"
US = 1000
STEPS = 6
KERNEL_US = 100
FORWARD = "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize{}x64x64_kernel__5x_cudnn"
LOOP = "void at::native::vectorized_elementwise_kernel<8, at::native::AddFunctor>(int)"


def finding(  # noqa: PLR0913 - what a step may hold
    tiles: tuple[int, ...], times: int, other: str = "", built_us: int = 0, *, clears: bool = False, frees: int = 0
) -> Finding | None:
    """Return the finding on steps that run each algorithm some times, waiting after each, and then work.

    Args:
        tiles: The algorithms.
        times: How often each of them runs.
        other: A kernel that runs after each of them; none without it.
        built_us: How long the host builds algorithms before that.
        clears: Whether the library clears its memory before the first one.
        frees: How often memory is freed after that, and later allocated again.
    """
    built, at = ExportBuilder().gpu(), 0
    for number in range(STEPS):
        begin = at
        if built_us:
            built.call("cuLibraryLoadData", at, at + built_us * US)
            at += built_us * US
        built.call("cudaDeviceSynchronize", at, at + US)
        at += 2 * US
        if clears:
            built.fill(at, at + US, launched=(at, at + US))
            at += 2 * US
        for name in [FORWARD.format(each) for each in tiles for _ in range(times)]:
            for each in filter(None, (name, other)):
                built.kernel(
                    at + 5 * US, at + (5 + KERNEL_US) * US, each, launched=(at, at + US), gridX=1000, blockX=128
                )
                at += (5 + KERNEL_US) * US
            built.call("cudaEventSynchronize", at - KERNEL_US * US, at + US)
            at += 2 * US
        for nth in range(2 * frees):
            built.call("cudaFree" if nth < frees else "cudaMalloc", at, at + 100 * US)
            at += 101 * US
            if nth == frees - 1:
                built.kernel(at + US, at + 2 * US, LOOP, launched=(at, at + US), gridX=1000, blockX=128)
                at += 2 * US
        for _ in range(5):
            built.kernel(at + 5 * US, at + (5 + KERNEL_US) * US, LOOP, launched=(at, at + US), gridX=1000, blockX=128)
            at += (5 + KERNEL_US) * US
        built.call("cudaDeviceSynchronize", at - 10 * US, at + US)
        at += 2 * US
        built.range(f"step {number}", begin, at)
    context = find_context(trace_of(built))
    found = run_section(section, context, window(0, at)).findings
    return next((each for each in found if each.rule == RULE), None)


def test_algorithms_that_are_timed_are_named() -> None:
    """Eight runs of a step take 107 us each, and the wait before them 2 us."""
    found = finding((64, 128, 256, 192), 2)
    assert found is not None
    assert found.lost_ns == pytest.approx(STEPS * (8 * 107 + 2) * US, rel=0.02)
    assert found.saving is not None
    assert found.saving.point == pytest.approx(found.lost_ns, rel=0.1)
    assert "6 times" in found.evidence[0]


def test_memory_that_is_freed_after_it_is_not_allocated_again_without_it() -> None:
    """Three calls free, and three allocate, 100 us each."""
    plain, freed = (finding((64, 128, 256, 192), 2, frees=each) for each in (0, 3))
    assert plain is not None
    assert freed is not None
    assert plain.saving is not None
    assert freed.saving is not None
    assert freed.saving.point - plain.saving.point == pytest.approx(STEPS * 600 * US, rel=0.05)


@pytest.mark.parametrize("clears", [False, True])
def test_what_builds_the_algorithms_belongs_to_it(*, clears: bool) -> None:
    """A memset before the first algorithm is the library's own."""
    found, built = (finding((64, 128, 256, 192), 2, built_us=each, clears=clears) for each in (0, 500))
    assert found is not None
    assert built is not None
    assert built.lost_ns - found.lost_ns == pytest.approx((STEPS - 1) * 500 * US, rel=0.01)


@pytest.mark.parametrize(
    ("tiles", "times", "is_found"),
    [
        ((64, 128, 256), 2, True),
        ((64, 128), 3, False),  # two algorithms are no choice
        ((64, 128, 256, 192, 32), 1, False),  # five waits
        ((64,), 8, False),  # a layer that is timed
    ],
)
def test_from_three_algorithms_and_six_waits_on(tiles: tuple[int, ...], times: int, *, is_found: bool) -> None:
    assert (finding(tiles, times) is not None) == is_found


def test_waits_after_other_work_are_no_timing() -> None:
    assert finding((64, 128, 256, 192), 2, LOOP) is None
