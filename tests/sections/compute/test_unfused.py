"""Chains of elementwise kernels: which kernels make a chain, and how much fusion saves."""

from collections.abc import Sequence

import pytest
from analysis_fixtures import run_section, window
from export_builder import ExportBuilder, trace_of
from hypothesis import given
from hypothesis import strategies as st
from real_captures import RealContext, every_gpu_capture

from nsyswrap.loop.context import find_context
from nsyswrap.model import Finding
from nsyswrap.report import choose_window
from nsyswrap.sections.compute import section
from nsyswrap.sections.compute.kernel_groups import GroupedKernels, grouped_kernels
from nsyswrap.sections.compute.unfused import Chains, find_chains
from nsyswrap.trace.tables import Trace

US = 1000
LOOP = "void at::native::vectorized_elementwise_kernel<(int)8, {}, std::array<char *, (unsigned long){}>>(int, T2, T3)"
SCALED = LOOP.format(
    "at::native::AUnaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::MulFunctor<float>>", 2
)
ADDED = LOOP.format("at::native::CUDAFunctor_add<c10::BFloat16>", 3)
NORM = "void at::native::<unnamed>::vectorized_layer_norm_kernel<float, float, (bool)0>(int, T2, const T1 *)"
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel"
COMPILED = "triton_poi_fused_add_0"


def export(names: Sequence[str], blocks: Sequence[int] = (), streams: Sequence[int] = ()) -> ExportBuilder:
    """Return an export with these kernels one after another, 60 us each."""
    built = ExportBuilder().gpu()
    for number, name in enumerate(names):
        grid = blocks[number] if blocks else 1000
        stream = streams[number] if streams else 7
        built.kernel(number * 60 * US, (number + 1) * 60 * US, name, gridX=grid, blockX=128, stream=stream)
    return built


def chains(trace: Trace) -> Chains:
    context = find_context(trace)
    return find_chains(context, grouped_kernels(context, window(0, 10_000 * US)))


def test_a_tensor_between_two_kernels_is_neither_written_nor_read() -> None:
    """The tensors between kernels are saved. The last addition has three and keeps one operand and its result."""
    found = chains(trace_of(export([SCALED, SCALED, ADDED])))
    assert found.linked.tolist() == [True, True, True]
    assert found.saved.tolist() == pytest.approx([1 / 2, 1, 1 / 3])


@pytest.mark.parametrize("between", [GEMM, COMPILED])
def test_kernels_that_are_not_fused_end_a_chain(between: str) -> None:
    found = chains(trace_of(export([SCALED, between, SCALED])))
    assert (found.links, found.linked.tolist()) == (0, [False] * 3)


def test_other_numbers_of_elements_make_no_chain() -> None:
    """A grid of 1000 blocks always has fewer elements than one of 1001, so they never agree."""
    assert chains(trace_of(export([SCALED, SCALED], blocks=[1000, 1001]))).links == 0


def test_a_norm_reads_what_was_just_written() -> None:
    """Both tensors take the same time to read."""
    found = chains(trace_of(export([SCALED, NORM])))
    assert found.linked.tolist() == [True, False]
    assert found.saved.tolist() == pytest.approx([1 / 2, 1 / 2])


def test_the_optimizer_has_a_finding_of_its_own() -> None:
    built = ExportBuilder().gpu().range("optimizer", 0, 50 * US)
    for number in range(2):
        start = (100 + 60 * number) * US
        launched = ((10 + number) * US, (11 + number) * US)
        built.kernel(start, start + 60 * US, SCALED, launched=launched, gridX=1000, blockX=128)
    assert chains(trace_of(built)).links == 0


def test_a_chain_is_worth_a_finding() -> None:
    """300 us of 1000 us; the note on all kernels needs half of the window."""
    trace = trace_of(export([SCALED] * 5))
    (found,) = run_section(section, find_context(trace), window(0, 1000 * US)).findings
    assert isinstance(found, Finding)
    assert (found.rule, found.lost_ns) == ("compute/unfused", 300 * US)
    assert found.headline == "Elementwise kernels in chains take 30.0 % of the time; torch.compile fuses such chains."
    assert found.evidence[0] == "4 pairs of kernels follow one another and can be fused"
    assert found.evidence[1].endswith(SCALED)


KERNELS = st.lists(st.sampled_from([SCALED, ADDED, NORM, GEMM, COMPILED]), min_size=1, max_size=12)


@pytest.mark.slow
@given(KERNELS)
def test_fusion_saves_no_more_than_the_time(names: list[str]) -> None:
    """The saving is at most the time of the kernel."""
    assert_bounded(chains(trace_of(export(names))))


def assert_bounded(found: Chains) -> None:
    """Check the bounds of the savings."""
    assert (found.saved >= 0).all()
    assert (found.saved <= 1).all()


@every_gpu_capture
def test_savings_of_real_captures_are_bounded(real_context: RealContext, name: str) -> None:
    context = real_context(name)
    kernels: GroupedKernels = grouped_kernels(context, choose_window(context))
    found = find_chains(context, kernels)
    assert_bounded(found)
    assert found.links >= 0


@pytest.mark.parametrize("gpus", [1, 3])
def test_time_lost_is_the_mean_over_gpus(gpus: int) -> None:
    """Each GPU runs a chain of two kernels of 60 us in 1000 us."""
    made = ExportBuilder()
    for device in range(gpus):
        made.gpu(device)
        for number in range(2):
            at = number * 60 * US
            made.kernel(at, at + 60 * US, SCALED, device=device, gridX=1000, blockX=128)
    findings = run_section(section, find_context(trace_of(made)), window(0, 1000 * US)).findings
    (found,) = [each for each in findings if each.rule == "compute/unfused"]
    assert (found.lost_ns, "take 12.0 % of the time" in found.headline) == (120 * US, True)
