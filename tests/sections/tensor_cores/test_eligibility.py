"""Reasons why matrix work ran without tensor cores: each reason, the sums, the finding, real captures."""

import pytest
from analysis_fixtures import run_section, window
from export_builder import ExportBuilder, trace_of
from real_captures import RealContext, of_captures

from nsyswrap.hardware.kernel_names.classify import Capability, Classification, Verdict
from nsyswrap.loop.context import find_context
from nsyswrap.model import Section, Severity
from nsyswrap.report import choose_window
from nsyswrap.sections.tensor_cores import section as tensor_cores
from nsyswrap.sections.tensor_cores.eligibility import REASONS, reason
from nsyswrap.trace.tables import Trace

FP32_GEMM = (
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4_execute_kernel"
    "__5x_cublas"
)
FP32_CONV = (
    "sm80_xmma_fprop_implicit_gemm_indexed_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize32x32x8_stage3_warpsize1x2x1_g1_ffma"
    "_aligna4_alignc4_execute_kernel__5x_cudnn"
)
TF32_CONV = (
    "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x64x32_stage4_warpsize2x2x1_g1_tensor"
    "16x8x8_execute_kernel__5x_cudnn"
)
HALF_CONV = "void implicit_convolve_sgemm<__half, __half, 128, 5, 5, 3, 3, 3, 1, false, false, true>(int, int, int)"
HALF_GEMM = "nvjet_hsh_96x128_64x6_4x1_v_bz_NTN"
DEPTHWISE = "void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<1, float, int>(float const*)"
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"

H100, T4, V100 = (9, 0), (7, 5), (7, 0)


def section_of(trace: Trace) -> Section:
    return run_section(tensor_cores, find_context(trace), window(0, 1000))


def rows(trace: Trace) -> list[tuple[str, str, str, int, int]]:
    """Return the table of matrix work that did not use tensor cores."""
    return [tuple(row) for row in section_of(trace).tables["not_used"].itertuples(index=False)]


def said(precision: str, op: str = "gemm") -> Classification:
    """Return a kernel of that type and operation that could use tensor cores."""
    return Classification("k", Verdict.SIMT_ELIGIBLE, precision, "", op, "")


@pytest.mark.parametrize(
    ("precision", "op", "capability", "expected"),
    [
        ("fp32", "conv_depthwise", H100, "depthwise"),
        ("fp16", "conv_depthwise", H100, "depthwise"),
        ("fp32", "gemv", H100, "matrix_vector"),
        ("", "gemm", H100, "cannot_tell"),
        ("fp32", "gemm", H100, "tf32_off"),
        ("fp32", "gemm", None, "tf32_off"),
        ("fp32", "gemm", T4, "no_tf32"),
        ("fp64", "gemm", H100, "fp64"),
        ("fp16", "gemm", V100, "shape_or_layout"),
        ("bf16", "gemm", H100, "shape_or_layout"),
        ("bf16", "gemm", T4, "type_unsupported"),
        ("bf16", "gemm", None, "shape_or_layout"),
        ("tf32", "gemm", T4, "type_unsupported"),
        ("int8", "gemm", V100, "type_unsupported"),
        ("int8", "gemm", H100, "shape_or_layout"),
    ],
)
def test_a_kernel_alone_has_the_reason_its_name_and_gpu_show(
    precision: str, op: str, capability: Capability | None, expected: str
) -> None:
    assert reason(said(precision, op), capability, beside_half=False, tf32_works=False) == expected


@pytest.mark.parametrize(
    ("beside_half", "tf32_works", "expected"),
    [(True, False, "outside_autocast"), (True, True, "outside_autocast"), (False, True, "shape_or_layout")],
)
def test_kernels_beside_an_fp32_product_narrow_the_reason(beside_half: bool, tf32_works: bool, expected: str) -> None:  # noqa: FBT001 - parameters of the test
    assert reason(said("fp32"), H100, beside_half=beside_half, tf32_works=tf32_works) == expected


def test_a_product_is_outside_autocast_only_where_its_own_phase_uses_half() -> None:
    """Half precision in the forward phase does not show that FP32 in the optimizer left autocast.

    ::

        phase   |forward---------|optimizer-|
        kernel   half  fp32        fp32
    """
    builder = ExportBuilder().gpu().range("forward", 0, 100).range("optimizer", 100, 200)
    builder.kernel(200, 250, HALF_GEMM, launched=(10, 20)).kernel(250, 280, FP32_GEMM, launched=(20, 30))
    builder.kernel(280, 300, FP32_GEMM, launched=(110, 120))
    assert rows(trace_of(builder)) == [
        (FP32_GEMM, "outside_autocast", "forward", 30, 1),
        (FP32_GEMM, "tf32_off", "optimizer", 20, 1),
    ]


def test_tf32_of_one_operation_does_not_count_for_another() -> None:
    """PyTorch lets convolutions use TF32 and products not, unless settings say otherwise."""
    builder = ExportBuilder().gpu().kernel(0, 10, TF32_CONV).kernel(10, 30, FP32_CONV).kernel(30, 60, FP32_GEMM)
    assert rows(trace_of(builder)) == [
        (FP32_GEMM, "tf32_off", "none", 30, 1),
        (FP32_CONV, "shape_or_layout", "none", 20, 1),
    ]


def test_two_gpus_of_one_kind_share_a_row() -> None:
    builder = ExportBuilder().gpu(0).gpu(1).kernel(0, 20, FP32_GEMM).kernel(0, 10, FP32_GEMM, device=1)
    assert rows(trace_of(builder)) == [(FP32_GEMM, "tf32_off", "none", 30, 2)]


def test_only_what_could_use_tensor_cores_is_listed() -> None:
    trace = trace_of(ExportBuilder().gpu().kernel(0, 10, HALF_GEMM).kernel(10, 20, ELEMENTWISE).kernel(20, 30, "mine"))
    assert rows(trace) == []
    assert section_of(trace).findings == ()


def test_time_is_clipped_to_the_window() -> None:
    builder = ExportBuilder().gpu().kernel(-50, 50, FP32_GEMM).kernel(990, 1100, FP32_GEMM).kernel(2000, 2100)
    assert rows(trace_of(builder)) == [(FP32_GEMM, "tf32_off", "none", 60, 2)]


def test_the_finding_names_the_costliest_reason_and_gives_its_advice() -> None:
    """TF32 explains 60 ns, the shape of half precision 40 ns, and the depthwise convolution has no advice."""
    builder = ExportBuilder().gpu().kernel(0, 60, FP32_GEMM).range("forward", 0, 1000)
    builder.kernel(100, 140, HALF_CONV, launched=(50, 60)).kernel(200, 300, DEPTHWISE)
    (finding,) = section_of(trace_of(builder)).findings
    assert (finding.rule, finding.severity, finding.lost_ns) == ("tensor_cores/not_used", Severity.WARNING, 100)
    assert finding.headline == (
        "50.0 % of kernel time is matrix work beside the tensor cores, 60.0 % of it "
        f"because {REASONS['tf32_off'].words}."
    )
    assert finding.advice == REASONS["tf32_off"].advice
    assert f"40 ns because {REASONS['shape_or_layout'].words}" in finding.evidence
    assert f"40 ns in 1 launch in phase forward of {HALF_CONV}" in finding.evidence
    assert not any(REASONS["depthwise"].words in line for line in finding.evidence)


def test_a_single_reason_is_not_shown_as_a_part() -> None:
    (finding,) = section_of(trace_of(ExportBuilder().gpu().kernel(0, 60, FP32_GEMM))).findings
    assert finding.headline.startswith("100.0 % of kernel time is matrix work beside the tensor cores, because ")


@pytest.mark.parametrize(("length", "found"), [(40, 0), (60, 1)])
def test_a_small_share_is_no_finding(length: int, found: int) -> None:
    """The share is 4 % of kernel time, or 6 %."""
    built = ExportBuilder().gpu().kernel(0, 1000 - length, ELEMENTWISE).kernel(1000 - length, 1000, FP32_GEMM)
    trace = trace_of(built)
    assert len(rows(trace)) == 1
    assert len(section_of(trace).findings) == found


def test_every_reason_that_can_be_faster_has_advice() -> None:
    assert all(bool(each.advice) == each.can_be_faster for each in REASONS.values())


@of_captures(["cnn_amp", "bench_source", "alexnet_data_parallel_2gpu", "cuda_graph_node_trace"])
def test_the_table_adds_up_to_the_eligible_time(name: str, real_context: RealContext) -> None:
    context = real_context(name)
    section = run_section(tensor_cores, context, choose_window(context))
    table, kernels = section.tables["not_used"], section.tables["kernels"]
    eligible = kernels[kernels["verdict"] == Verdict.SIMT_ELIGIBLE]
    assert table["total_ns"].sum() == section.fact("simt_eligible_ns").value  # type: ignore[union-attr]
    assert table["count"].sum() == eligible["count"].sum()
    assert set(table["reason"]) <= set(REASONS)


REAL = {
    # FP32 throughout, TF32 left off: PyTorch's default for products.
    "bench_source": {"tf32_off"},
    # autocast: only a convolution of one channel is left.
    "cnn_amp": {"shape_or_layout"},
    # Convolutions may use TF32 by default, and most do; products may not.
    "alexnet_data_parallel_2gpu": {"tf32_off", "shape_or_layout"},
}


@pytest.mark.parametrize("name", REAL)
def test_real_captures_have_the_reasons_their_programs_have(name: str, real_context: RealContext) -> None:
    context = real_context(name)
    section = run_section(tensor_cores, context, choose_window(context))
    assert set(section.tables["not_used"]["reason"]) == REAL[name]
