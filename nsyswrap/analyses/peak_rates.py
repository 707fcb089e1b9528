"""How much faster tensor cores multiply than ordinary cores, at most: the peak rates of the GPUs that have them."""

from collections.abc import Iterable, Mapping
from math import inf
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

# The type that products are computed in once the reason is gone; for the other reasons none is known.
TARGET: Mapping[str, str] = {"tf32_off": "tf32", "outside_autocast": "half", "no_tf32": "half"}


def speed_up(reason: str, capabilities: Iterable[Capability | None]) -> float:
    """Return how many times as fast FP32 products become at most, on the best of some GPUs; infinity if not known.

    Args:
        reason: Why they do not use tensor cores, a key of ``why_not_tensor.REASONS``.
        capabilities: Compute capabilities of the GPUs; None for one that is not known.
    """
    target = TARGET.get(reason)
    rates = [PEAK.get(each) if each else None for each in capabilities]
    ratios = [getattr(each, target) / each.fp32 if target and each else inf for each in rates]
    return max(max(ratios, default=inf), 1.0)
