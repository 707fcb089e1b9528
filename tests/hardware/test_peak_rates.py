"""Peak rates are those that NVIDIA publishes, by name and capability, and bound the speed-up by tensor cores."""

import pytest

from nsyswrap.hardware.peak_rates import (
    DATA_SHEETS,
    USUAL,
    DataSheet,
    peak_operations,
    published_clock,
    published_peak,
    speed_up,
)
from nsyswrap.model import Gpu


def test_an_h100_is_seven_times_as_fast_in_tf32_and_fifteen_times_in_half() -> None:
    assert speed_up("tf32", (9, 0)) == pytest.approx(494.7 / 66.9)
    assert speed_up("half", (9, 0)) == pytest.approx(989.4 / 66.9)


def test_a_gpu_without_tf32_is_not_faster_with_it() -> None:
    assert speed_up("tf32", (7, 0)) == 1.0


@pytest.mark.parametrize("capability", [None, (12, 7)])
def test_an_unknown_gpu_is_like_the_others(capability: tuple[int, int] | None) -> None:
    assert speed_up("tf32", capability) == USUAL


@pytest.mark.parametrize("sheet", DATA_SHEETS, ids=lambda each: each.name)
def test_a_data_sheet_is_plausible(sheet: DataSheet) -> None:
    """No type is faster than one of half its size, and all rates belong to one clock between 1.2 and 2.8 GHz."""
    fp32, tf32, half, fp8 = sheet.peak
    assert fp32 <= half
    assert tf32 <= half
    assert fp8 == pytest.approx(2 * half if fp8 else 0, rel=0.02)
    clocks = [
        peak * 1e12 / (each * sheet.multiprocessors)
        for peak, each in zip(sheet.peak, sheet.per_cycle, strict=True)
        if peak
    ]
    assert 1.2e9 < min(clocks) <= max(clocks) < 2.8e9
    assert max(clocks) / min(clocks) < 1.3


@pytest.mark.parametrize(
    ("name", "capability", "count", "half"),
    [
        ("Tesla V100-PCIE-16GB", (7, 0), 80, 112),
        ("NVIDIA H100 80GB HBM3", (9, 0), 132, 989.4),
        ("NVIDIA H100 PCIe", (9, 0), 114, 756),
        ("NVIDIA H200", (9, 0), 132, 989.4),
        ("NVIDIA H200 NVL", (9, 0), 132, 835.5),
        ("NVIDIA L40S", (8, 9), 142, 362),
        ("NVIDIA RTX 6000 Ada Generation", (8, 9), 142, 364.2),
        ("NVIDIA B200", (10, 0), 148, 2250),
        ("NVIDIA GB200", (10, 0), 152, 2500),
        ("NVIDIA GeForce RTX 5090", (12, 0), 170, 209.5),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", (12, 0), 188, 438.9),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", (12, 0), 188, 503.8),
        ("NVIDIA GeForce RTX 5080", (12, 0), 84, 209.5 * 84 / 170),
        ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", (8, 0), 42, 312 * 42 / 108),
    ],
)
def test_a_gpu_has_the_peak_of_its_own_data_sheet(
    name: str, capability: tuple[int, int], count: int, half: float
) -> None:
    """One without a sheet has that of the next of its series, by multiprocessors; so has a part of a GPU."""
    assert published_peak(Gpu(0, name, capability, sm_count=count), "half") == pytest.approx(half * 1e12)


def test_an_unknown_gpu_has_no_published_peak() -> None:
    assert published_peak(Gpu(0, "NVIDIA X", (13, 0), sm_count=100), "half") is None
    assert published_clock(Gpu(0, "NVIDIA X", (13, 0), sm_count=100), "half") is None
    assert published_peak(Gpu(0, "NVIDIA GeForce GTX 1650", (7, 5), sm_count=14), "half") is None


def test_the_published_clock_of_tensor_cores_may_be_lower() -> None:
    """1.83 GHz on an H100, and 1.98 GHz for FP32 on CUDA cores."""
    h100 = Gpu(0, "NVIDIA H100 80GB HBM3", (9, 0), sm_count=132)
    assert published_clock(h100, "half") == pytest.approx(1.83e9, rel=1e-3)
    assert published_clock(h100, "fp32") == pytest.approx(1.98e9, rel=1e-3)


def test_without_tensor_cores_half_precision_is_twice_as_fast_as_single() -> None:
    """A GTX 1650 has the compute capability of a T4, whose tensor cores are eight times as fast."""
    gtx, t4 = (
        Gpu(0, name, (7, 5), sm_count=14, clock_hz=1_665_000_000) for name in ("NVIDIA GeForce GTX 1650", "Tesla T4")
    )
    single = peak_operations(gtx, "fp32") or 0.0
    assert single > 0
    assert peak_operations(t4, "fp32") == single
    assert peak_operations(gtx, "half") == 2 * single
    assert peak_operations(t4, "half") == 8 * single
