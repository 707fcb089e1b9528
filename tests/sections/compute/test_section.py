"""The section on what limits kernels: its table, its facts, and the note on all kernels."""

from collections.abc import Callable

import numpy as np
import pytest
from analysis_fixtures import run_section, window
from export_builder import ExportBuilder, trace_of
from real_captures import every_gpu_capture

from nsyswrap.hardware.kernel_names.readers import READERS
from nsyswrap.hardware.kernel_names.rules import RULES
from nsyswrap.loop.context import find_context
from nsyswrap.report import build_report, choose_window
from nsyswrap.rules.work_names import OPERATION_NAMES
from nsyswrap.sections.compute import limits, section
from nsyswrap.trace.tables import Trace

RealTrace = Callable[[str], Trace]
US = 1000
TO_HALF = (
    "void at::native::vectorized_elementwise_kernel<(int)8, at::native::bfloat16_copy_kernel_cuda("
    "at::TensorIteratorBase &)::[lambda(float) (instance 1)], std::array<char *, (unsigned long)2>>(int, T2, T3)"
)
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel"


def export() -> ExportBuilder:
    """Return an export of 60 us of products and two conversions of 10 us, at 61 % and 80 % of the memory's peak."""
    built = ExportBuilder().gpu(memoryBandwidth=6_144_000_000_000, l2CacheSize=1_000_000)
    built.kernel(0, 60 * US, GEMM, gridX=132)
    return built.kernel(60 * US, 70 * US, TO_HALF, gridX=6144, blockX=128).kernel(
        80 * US, 90 * US, TO_HALF, gridX=8000, blockX=128
    )


def test_a_name_with_two_grids_is_one_row() -> None:
    """Its rates are means weighted by time."""
    found = run_section(section, find_context(trace_of(export())), window(0, 100 * US)).tables["kernels"]
    assert found["name"].tolist() == [GEMM, TO_HALF]
    assert found["total_ns"].tolist() == [60 * US, 20 * US]
    assert found["limited_by"].tolist() == [limits.UNKNOWN, limits.MEMORY]
    assert found["unit"].tolist() == ["", limits.MEMORY]
    assert np.isnan(found["peak_share_high"][0])
    assert found["peak_share_high"][1] == pytest.approx((0.6144 + 0.8) / 2)


@pytest.mark.parametrize(
    ("gpu", "capability", "advice"),
    [
        ("NVIDIA H200", (9, 0), "by TF32 or bfloat16."),
        ("Tesla T4", (7, 5), "by float16."),
        ("NVIDIA GeForce GTX 1650", (7, 5), "this GPU has no tensor cores. What helps is less arithmetic."),
    ],
)
def test_the_advice_on_products_on_cuda_cores_fits_the_gpu(gpu: str, capability: tuple[int, int], advice: str) -> None:
    """Ten SMs at 1 GHz do 128 or 256 operations in a cycle each. The product reaches nine tenths of that."""
    major, minor = capability
    built = ExportBuilder().gpu(name=gpu, computeMajor=major, computeMinor=minor, smCount=10, clockRate=1_000_000_000)
    built.range("aten::mm, op_id = 1, sizes = [[1024, 1024], [1024, 1024]]", 0, 50 * US, registered=False)
    length = round(2 * 1024**3 / (10 * (256 if major == 9 else 128)) / 0.9)
    built.kernel(60 * US, 60 * US + length, "volta_sgemm_128x64_nn", gridX=132, launched=(10 * US, 20 * US))
    found = run_section(section, find_context(trace_of(built)), window(0, 70 * US + length)).findings
    (note,) = (each for each in found if each.rule == "compute/kernels")
    assert note.advice.endswith(advice)


def test_time_in_which_two_kernels_run_counts_once() -> None:
    """They run for 80 of 100 us, and take 150 us together."""
    built = export().kernel(0, 70 * US, GEMM, streamId=8, gridX=132)
    found = run_section(section, find_context(trace_of(built)), window(0, 100 * US)).findings
    (note,) = (each for each in found if each.rule == "compute/kernels")
    assert note.headline.startswith("Kernels run 80.0 % of the time. Kernel time: tensor-core kernels 86.7 %, ")


def test_there_are_words_for_each_operation_of_the_rules() -> None:
    """Some are their own words."""
    named = {each for rule in RULES for each in (dict(READERS[rule.op]).values() if rule.op[:1] == "@" else [rule.op])}
    assert named - set(OPERATION_NAMES) == {"attention", "pooling", "embedding", "softmax"}


@pytest.mark.parametrize(("end", "is_noted"), [(1000, False), (175, False), (145, True)])
def test_a_run_that_waits_most_of_the_time_has_no_note(end: int, *, is_noted: bool) -> None:
    """Kernels run for 80 us."""
    found = run_section(section, find_context(trace_of(export())), window(0, end * US)).findings
    assert ("compute/kernels" in {each.rule for each in found}) is is_noted


def test_the_verdict_of_a_run_without_warnings_names_its_kernels() -> None:
    built = ExportBuilder().gpu().kernel(0, 100 * US, GEMM, gridX=132)
    assert build_report(trace_of(built)).verdict == (
        "Compute-bound: kernels run 100.0 % of the time. Kernel time: tensor-core kernels 100.0 %."
    )


@every_gpu_capture
def test_the_table_holds_all_kernel_time(real_trace: RealTrace, name: str) -> None:
    context = find_context(real_trace(name))
    found = run_section(section, context, choose_window(context))
    table, whole = found.tables["kernels"], found.fact("kernel_ns")
    assert whole is not None
    assert table["total_ns"].sum() == whole.value
    shares = [fact.value for fact in found.facts if fact.label.startswith("limited_by_")]
    assert sum(float(share or 0) for share in shares) == pytest.approx(1)
    assert (table["peak_share_low"].dropna() <= table["peak_share_high"].dropna()).all()
    assert set(table["limited_by"]) <= set(limits.LIMITS)


def test_a_window_without_kernels_has_an_empty_table() -> None:
    found = run_section(section, find_context(trace_of(export())), window(500 * US, 600 * US))
    assert (len(found.tables["kernels"]), found.findings) == (0, ())
    assert {fact.value for fact in found.facts} == {0, None, ""}
