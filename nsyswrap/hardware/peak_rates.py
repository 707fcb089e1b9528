"""How much faster tensor cores multiply than ordinary cores, at most: the peak rates of the GPUs that have them."""

from collections.abc import Mapping
from typing import NamedTuple

Capability = tuple[int, int]


class Rates(NamedTuple):
    """Dense peak rates in 10^12 operations a second: ordinary FP32, TF32, and FP16 or BF16; 0 where there is none."""

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

# Where the GPU is not among them: the ratio of an A100, which the others are near. Source: as above.
USUAL = 8.0


def speed_up(target: str, capability: Capability | None) -> float:
    """Return how many times as fast FP32 products become at most; at least 1.

    Args:
        target: What they are computed in then: "tf32", or "half" for FP16 and BF16.
        capability: Compute capability of the GPU; None for one that is not known.
    """
    rates = PEAK.get(capability) if capability else None
    return max(getattr(rates, target) / rates.fp32, 1.0) if rates else USUAL
