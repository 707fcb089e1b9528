"""The time that kernels need at least, and where the rest of the time of products goes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from host_records import gpu_samples, record_of, recorded
from xray_program import LAUNCHES, TENSOR, context_of, program, record

from nsyswrap.base.interval import Interval
from nsyswrap.hardware.peak_rates import MeasuredRates
from nsyswrap.operators.join import find_joined
from nsyswrap.operators.peak import ACCOUNTS, BOUNDS, KernelRates, explain_peaks, find_rates

BF16 = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel"
TF32 = "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_off_kernel"
FP32 = "ampere_sgemm_128x64_nn"
OLDER = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x3_nn_align8>(T1::Params)"
MISALIGNED = OLDER.replace("align8", "align4")
PEAK, LOWER, REST = "products at the peak", "products: lower peak of their type", "products: below their peak"


def rates(
    path: Path,
    name: str,
    size: int = 1024,
    *,
    dtype: str = "bfloat16",
    grid: int = 132,
    **measured: Any,  # noqa: ANN401 - settings
) -> KernelRates:
    """Return the rates of the kernels of an H200 with 4 TB/s, whose products are of square matrices and take 20 us."""
    found = record()
    for each in found["processes"][0]["operators"]:
        for tensor in [*each["inputs"], *each["outputs"]]:
            tensor |= {**TENSOR, "shape": [size, size], "strides": [size, 1], "dtype": dtype, "storage": None}
    launches = tuple((name if kernel == "gemm" else kernel, grid, where) for kernel, _, where in LAUNCHES)
    context = context_of(program([launches] * 5, xray=launches), path / "made.sqlite", found)
    context = replace(context, settings=replace(context.settings, **measured))
    window = context.steps.measured_window()
    assert window is not None
    return find_rates(context, find_joined(context, window))


def accounts(found: KernelRates, at: int = 1) -> dict[str, int]:
    """Return the time of one kernel by account, in ns."""
    return {name: round(float(ns)) for name, ns in zip(ACCOUNTS, found.accounts[:, at], strict=True) if ns}


def test_tf32_and_fp32_have_lower_peaks(tmp_path: Path) -> None:
    """TF32 has half of the rate of BF16. On CUDA cores the product needs more time than it has."""
    assert accounts(rates(tmp_path, TF32, dtype="float32")) == {PEAK: 2170, LOWER: 2170, REST: 15659}
    simple = rates(tmp_path, FP32, dtype="float32")
    assert accounts(simple) == {PEAK: 2170, LOWER: 17830}
    assert BOUNDS[simple.bound[1]] == "CUDA cores"


def test_a_small_product_is_bounded_by_memory(tmp_path: Path) -> None:
    """Of 64 x 64: 24,576 bytes need 6.1 ns, and 524,288 operations 0.5 ns."""
    found = rates(tmp_path, BF16, size=64)
    assert accounts(found) == {PEAK: 1, "products: bounded by memory": 6, REST: 19994}
    assert (BOUNDS[found.bound[1]], found.needed_ns[1]) == ("memory", pytest.approx(6.144))


@pytest.mark.parametrize(
    ("name", "grid", "reason"),
    [
        (MISALIGNED, 132, "products: misaligned sizes"),
        (OLDER, 132, "products: kernels for an older GPU"),
        (BF16, 131, "products: too small for the GPU"),
        (BF16, 132, REST),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x256_8x4_nt_align1>(T1::Params)", 132, REST),
    ],
)
def test_the_rest_of_a_product_has_a_reason(name: str, grid: int, reason: str, tmp_path: Path) -> None:
    """4 elements of 2 bytes are 8 bytes; the GPU is of the generation 90 and has 132 multiprocessors."""
    assert accounts(rates(tmp_path, name, grid=grid)) == {PEAK: 2170, reason: 17830}


REACHED = MeasuredRates(
    "NVIDIA H200", 132, {name: Interval(*(each * 1e12,) * 3) for name, each in (("bfloat16", 700), ("memory", 3))}
)
CLOCK, OUT_OF_REACH = "products: lower clock", "products: above what this GPU reaches"


def at_clock(mhz: int) -> Any:  # noqa: ANN401 - a record of the host
    """Return the samples of a GPU at one clock, from the start of the capture to its end."""
    return record_of(recorded([0, 10_000_000], gpus=[gpu_samples([mhz], [0])]))


def test_what_a_product_needs_is_against_the_measured_peak_and_its_use_against_the_published_one(
    tmp_path: Path,
) -> None:
    """At 700 TFLOP/s it needs 3,068 ns: 897 more than at the published peak, which no product here gets back."""
    found = rates(tmp_path, BF16, product_rates=REACHED)
    assert accounts(found) == {PEAK: 2170, OUT_OF_REACH: 897, REST: 16932}
    assert found.needed_ns[1] == pytest.approx(2 * 1024**3 / 700_000)
    assert found.at_peak_ns[1] == pytest.approx(2 * 1024**3 / 989_400)
    assert found.needed_ns[2] == pytest.approx(3 * 2 * 1024**2 / 3000)
    assert found.is_measured.tolist()[:5] == [False, True, False, True, False]


def test_another_type_or_gpu_has_its_published_peak(tmp_path: Path) -> None:
    """TF32 was not measured; and nothing of a GPU with another name."""
    assert not rates(tmp_path, TF32, dtype="float32", product_rates=REACHED).is_measured.any()
    other = rates(tmp_path, BF16, product_rates=replace(REACHED, gpu="NVIDIA H100 PCIe"))
    assert accounts(other) == {PEAK: 2170, REST: 17830}


def test_a_lower_clock_makes_products_slower(tmp_path: Path) -> None:
    """At 1,464 of 1,830 MHz, 20 % of the time is lost. What was measured at a lower clock is not lost once more."""
    assert accounts(rates(tmp_path, BF16, host=at_clock(1464))) == {PEAK: 2170, CLOCK: 4000, REST: 13830}
    both = rates(tmp_path, BF16, host=at_clock(1464), product_rates=REACHED)
    assert accounts(both) == {PEAK: 2170, CLOCK: 4000, REST: 13830}
    slightly = rates(tmp_path, BF16, host=at_clock(1811), product_rates=REACHED)
    assert accounts(slightly) == {PEAK: 2170, CLOCK: 207, OUT_OF_REACH: 690, REST: 16932}


def test_a_higher_clock_or_one_that_was_not_sampled_is_no_account(tmp_path: Path) -> None:
    late = record_of(recorded([9_000_000, 10_000_000], gpus=[gpu_samples([1000], [0])]))
    early = record_of(recorded([0, 50_000], gpus=[gpu_samples([1000], [0])]))
    for host in (at_clock(1980), late, early):
        assert accounts(rates(tmp_path, BF16, host=host)) == {PEAK: 2170, REST: 17830}


def test_work_that_memory_bounds_does_not_keep_pace_with_the_clock(tmp_path: Path) -> None:
    assert CLOCK not in accounts(rates(tmp_path, BF16, size=64, host=at_clock(1464)))


def test_a_sentence_says_which_peak_it_is(tmp_path: Path) -> None:
    """With the measured numbers, or with the reason why there are none."""
    launches = tuple((BF16 if kernel == "gemm" else kernel, grid, where) for kernel, grid, where in LAUNCHES)
    context = context_of(program([launches] * 5, xray=launches), tmp_path / "made.sqlite")
    busy = MeasuredRates(failure="other processes use the GPU")
    said = []
    for measured in (REACHED, busy):
        each = replace(context, settings=replace(context.settings, product_rates=measured))
        window = each.steps.measured_window()
        assert window is not None
        said.append(explain_peaks(each, find_rates(each, find_joined(each, window))))
    assert "NVIDIA H200, measured once: bfloat16 700 TFLOP/s." in said[0]
    assert said[1].endswith("published peaks, since none were measured here: other processes use the GPU.")
