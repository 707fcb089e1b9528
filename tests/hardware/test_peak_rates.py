"""Upper bounds of the speed-up by tensor cores are computed from peak rates."""

import pytest

from nsyswrap.hardware.peak_rates import PEAK, USUAL, peak_operations, speed_up
from nsyswrap.model import Gpu


def test_an_h100_is_seven_times_as_fast_in_tf32_and_fifteen_times_in_half() -> None:
    assert speed_up("tf32", (9, 0)) == pytest.approx(494.7 / 66.9)
    assert speed_up("half", (9, 0)) == pytest.approx(989.4 / 66.9)


def test_a_gpu_without_tf32_is_not_faster_with_it() -> None:
    assert speed_up("tf32", (7, 0)) == 1.0


@pytest.mark.parametrize("capability", [None, (12, 7)])
def test_an_unknown_gpu_is_like_the_others(capability: tuple[int, int] | None) -> None:
    assert speed_up("tf32", capability) == USUAL


@pytest.mark.parametrize("capability", PEAK)
def test_half_precision_is_the_fastest(capability: tuple[int, int]) -> None:
    assert speed_up("half", capability) >= speed_up("tf32", capability)


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
