"""The share of kernel time on tensor cores: a lower and an upper bound, by kernel and phase, and the advice."""

from typing import Any

import pytest
from analysis_fixtures import run_section, window
from export_builder import ExportBuilder, trace_of
from savings import ends_of

from nsyswrap.loop.context import find_context
from nsyswrap.model import Finding, Section, Severity
from nsyswrap.sections.tensor_cores import section as tensor_cores
from nsyswrap.trace.tables import Trace

TENSOR = "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNN"
SIMT = (
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4"
    "_execute_kernel__5x_cublas"
)
OTHER = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int, T2, T3)"
UNKNOWN = "triton_tem_fused_addmm_0"
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096>)"


def kernels(*parts: tuple[str, int]) -> ExportBuilder:
    """Return kernels on an H200, one after another, each with its launch call."""
    builder, start = ExportBuilder().gpu(), 0
    for name, length in parts:
        builder.kernel(start, start + length, name, launched=(start, start + 1))
        start += length
    return builder


def section_of(trace: Trace, end: int = 1000) -> Section:
    """Return the section of an interval from 0."""
    return run_section(tensor_cores, find_context(trace), window(0, end))


def facts_of(section: Section) -> dict[str, object]:
    return {fact.label: fact.value for fact in section.facts}


def test_the_share_is_an_interval_since_names_may_be_unknown() -> None:
    """The lower bound is the known tensor-core time; the upper bound adds kernels of unknown names."""
    section = section_of(trace_of(kernels((TENSOR, 400), (SIMT, 100), (OTHER, 300), (UNKNOWN, 200))))
    assert facts_of(section) == {
        "kernel_ns": 1000,
        "tensor_ns": 400,
        "unknown_ns": 200,
        "simt_eligible_ns": 100,
        "not_eligible_ns": 300,
        "share_low": 0.4,
        "share_high": pytest.approx(0.6),
        "counter_share": None,
        "counter_share_low": None,
    }


def test_collectives_copies_and_memsets_do_not_count_as_kernels() -> None:
    builder = kernels((TENSOR, 100), (NCCL, 500)).copy(700, 800, launched=(1, 2)).fill(800, 900, launched=(2, 3))
    assert facts_of(section_of(trace_of(builder)))["kernel_ns"] == 100


def test_kernels_are_listed_by_name_with_their_verdict() -> None:
    """Two launches of one kernel on two GPUs share a row."""
    builder = kernels((TENSOR, 100), (OTHER, 300)).gpu(1).kernel(0, 350, TENSOR, launched=(1, 2), device=1)
    table = section_of(trace_of(builder)).tables["kernels"]
    assert table[["name", "verdict", "total_ns", "count"]].to_numpy().tolist() == [
        [TENSOR, "tensor", 450, 2],
        [OTHER, "not_eligible", 300, 1],
    ]


def test_phases_are_those_the_kernels_were_launched_in() -> None:
    builder = kernels((TENSOR, 400), (UNKNOWN, 100), (OTHER, 200)).range("forward", 0, 450)
    table = section_of(trace_of(builder)).tables["phases"]
    assert table.to_dict("records") == [
        {"phase": "forward", "kernel_ns": 500, "tensor_ns": 400, "unknown_ns": 100},
        {"phase": "none", "kernel_ns": 200, "tensor_ns": 0, "unknown_ns": 0},
    ]


def test_a_window_without_kernels_has_no_share() -> None:
    """The share is unknown (None), not zero."""
    section = section_of(trace_of(ExportBuilder().kernel(5000, 6000, TENSOR)))
    assert (facts_of(section)["kernel_ns"], facts_of(section)["share_low"]) == (0, None)
    assert not len(section.tables["kernels"])


def finding_of(trace: Trace) -> Finding | None:
    """Return the finding on matrix work without tensor cores."""
    return next(iter(section_of(trace).findings), None)


@pytest.mark.parametrize(
    ("length", "severity"), [(49, None), (50, Severity.NOTE), (199, Severity.NOTE), (200, Severity.NOTE)]
)
def test_matrix_work_without_tensor_cores_is_a_finding_above_a_share(length: int, severity: Severity | None) -> None:
    """The limit is 5 % of kernel time. It is a note, since the CPU never waits for the GPU and nothing is saved."""
    finding = finding_of(trace_of(kernels((SIMT, length), (OTHER, 1000 - length))))
    assert (finding.severity if finding else None) == severity


def test_fp32_matrix_work_is_advised_to_use_tf32_or_autocast() -> None:
    """The evidence names the kernel. The CPU never waits for the GPU here, so faster kernels save nothing."""
    finding = finding_of(trace_of(kernels((SIMT, 500), (OTHER, 500))))
    assert finding
    assert (finding.rule, finding.lost_ns, *ends_of(finding)) == (
        "tensor_cores/not_used",
        500,
        0,
        0,
    )
    assert "set_float32_matmul_precision" in finding.advice
    assert any(SIMT in line for line in finding.evidence)


def test_fp64_products_are_twice_as_fast_on_tensor_cores() -> None:
    finding: Any = finding_of(trace_of(kernels(("cutlass_80_simt_dgemm_128x64_8x5_nn_align1", 500), (OTHER, 500))))
    assert finding.what_if.change.factor.tolist() == [0.5]


def test_a_run_on_tensor_cores_is_not_advised() -> None:
    assert finding_of(trace_of(kernels((TENSOR, 500), (OTHER, 500)))) is None


def test_a_note_says_that_kernels_of_a_whole_graph_are_not_shown() -> None:
    notes = section_of(trace_of(kernels((TENSOR, 10)).graph(20, 90, launched=(12, 13)))).notes
    assert any("these numbers do not include the kernels inside them" in note for note in notes)


@pytest.mark.parametrize(("gpu", "major", "minor"), [("NVIDIA GeForce GTX 1650", 7, 5), ("Tesla P100-PCIE-16GB", 6, 0)])
def test_a_gpu_without_tensor_cores_gets_no_advice_on_them(gpu: str, major: int, minor: int) -> None:
    builder = ExportBuilder().gpu(0, gpu, computeMajor=major, computeMinor=minor)
    builder.kernel(0, 900, SIMT, launched=(0, 1)).kernel(900, 1000, OTHER, launched=(2, 3))
    section = section_of(trace_of(builder))
    facts = facts_of(section)
    assert (facts["simt_eligible_ns"], facts["tensor_ns"], facts["unknown_ns"]) == (0, 0, 0)
    assert section.findings == ()
    assert tensor_cores.NO_TENSOR_CORES in section.notes
