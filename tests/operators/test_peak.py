"""The time that kernels need at least, and where the rest of the time of products goes."""

from pathlib import Path

import pytest
from xray_program import LAUNCHES, TENSOR, context_of, program, record

from nsyswrap.operators.join import find_joined
from nsyswrap.operators.peak import ACCOUNTS, BOUNDS, KernelRates, find_rates

BF16 = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel"
TF32 = "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_off_kernel"
FP32 = "ampere_sgemm_128x64_nn"
OLDER = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x3_nn_align8>(T1::Params)"
MISALIGNED = OLDER.replace("align8", "align4")
PEAK, LOWER, REST = "products at the peak", "products: lower peak of their type", "products: below their peak"


def rates(path: Path, name: str, size: int = 1024, dtype: str = "bfloat16", grid: int = 132) -> KernelRates:
    """Return the rates of the kernels of an H200 with 4 TB/s, whose products are of square matrices and take 20 us."""
    found = record()
    for each in found["processes"][0]["operators"]:
        for tensor in [*each["inputs"], *each["outputs"]]:
            tensor |= {**TENSOR, "shape": [size, size], "strides": [size, 1], "dtype": dtype, "storage": None}
    launches = tuple((name if kernel == "gemm" else kernel, grid, where) for kernel, _, where in LAUNCHES)
    context = context_of(program([launches] * 5, xray=launches), path / "made.sqlite", found)
    window = context.steps.measured_window()
    assert window is not None
    return find_rates(context, find_joined(context, window))


def accounts(found: KernelRates, at: int = 1) -> dict[str, int]:
    """Return the time of one kernel by account, in ns."""
    return {name: round(float(ns)) for name, ns in zip(ACCOUNTS, found.accounts[:, at], strict=True) if ns}


def test_a_product_is_used_at_the_peak_and_below_it(tmp_path: Path) -> None:
    """2 * 1024^3 operations at 989.4 TFLOP/s take 2,170 of 20,000 ns; forward and backward."""
    found = rates(tmp_path, BF16)
    assert accounts(found) == accounts(found, 3) == {PEAK: 2170, REST: 17830}
    assert found.needed_ns[1] == pytest.approx(2 * 1024**3 / 989_400)
    assert BOUNDS[found.bound[1]] == "tensor cores"


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
    ],
)
def test_the_rest_of_a_product_has_a_reason(name: str, grid: int, reason: str, tmp_path: Path) -> None:
    """4 elements of 2 bytes are 8 bytes; the GPU is of the generation 90 and has 132 multiprocessors."""
    assert accounts(rates(tmp_path, name, grid=grid)) == {PEAK: 2170, reason: 17830}


def test_other_operators_are_bounded_by_memory(tmp_path: Path) -> None:
    """An elementwise operator that reads two and writes one tensor of 2 MiB needs 1,573 ns at 4 TB/s."""
    found = rates(tmp_path, BF16)
    assert accounts(found, 2) == {"work bounded by memory": 20_000}
    assert (BOUNDS[found.bound[2]], found.needed_ns[2]) == ("memory", pytest.approx(3 * 2 * 1024**2 / 4000))
