"""Upper bounds of the speed-up by tensor cores, from the peak rates of GPUs."""

from collections.abc import Mapping
from typing import NamedTuple

Capability = tuple[int, int]


class Rates(NamedTuple):
    """Dense peak rates in 10^12 operations per second: FP32 on CUDA cores, TF32, and FP16 or BF16; 0 for none."""

    fp32: float
    tf32: float
    half: float


# Source: NVIDIA's whitepapers on V100, A100 (both SXM) and H100 (SXM5), and the data sheets of T4, A40 and L40. Other
# chips of the same capability have other rates, in nearly the same proportion.
PEAK: Mapping[Capability, Rates] = {
    (7, 0): Rates(15.7, 0, 125),
    (7, 5): Rates(8.1, 0, 65),
    (8, 0): Rates(19.5, 156, 312),
    (8, 6): Rates(37.4, 74.8, 149.7),
    (8, 9): Rates(90.5, 90.5, 181),
    (9, 0): Rates(66.9, 494.7, 989.4),
}

# For other GPUs: the ratio of an A100, which is close to those of the others. Source: as above.
USUAL = 8.0


def speed_up(target: str, capability: Capability | None) -> float:
    """Return the largest speed-up of FP32 products, at least 1.

    Args:
        target: The precision they would use: "tf32", or "half" for FP16 and BF16.
        capability: Compute capability of the GPU; None where it is unknown.
    """
    rates = PEAK.get(capability) if capability else None
    return max(getattr(rates, target) / rates.fp32, 1.0) if rates else USUAL
