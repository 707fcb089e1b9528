"""Upper bounds of the speed-up by tensor cores, from the peak rates of GPUs."""

from collections.abc import Mapping
from typing import NamedTuple

from nsyswrap.hardware.tensor_cores import has_tensor_cores
from nsyswrap.model import Gpu

Capability = tuple[int, int]


class Rates(NamedTuple):
    """Dense peak rates in 10^12 operations per second: FP32 on CUDA cores, TF32, FP16 or BF16, and FP8; 0 for none."""

    fp32: float
    tf32: float
    half: float
    fp8: float = 0


# Source: NVIDIA's whitepapers on V100, A100 (both SXM) and H100 (SXM5), and the data sheets of T4, A40 and L40. Other
# chips of the same capability have other rates, in nearly the same proportion.
PEAK: Mapping[Capability, Rates] = {
    (7, 0): Rates(15.7, 0, 125),
    (7, 5): Rates(8.1, 0, 65),
    (8, 0): Rates(19.5, 156, 312),
    (8, 6): Rates(37.4, 74.8, 149.7),
    (8, 9): Rates(90.5, 90.5, 181, 362),
    (9, 0): Rates(66.9, 494.7, 989.4, 1978.9),
}
# Multiprocessors of these chips. Source: the same papers.
_MULTIPROCESSORS: Mapping[Capability, int] = {
    (7, 0): 80, (7, 5): 40, (8, 0): 108, (8, 6): 84, (8, 9): 142, (9, 0): 132,
}  # fmt: skip

# Operations of one multiprocessor in one cycle, dense, of the same kinds: an FMA counts as two. Source: the same
# papers, their rates divided by the multiprocessors and the boost clock of the chips they are about.
PER_CYCLE: Mapping[Capability, Rates] = {
    (7, 0): Rates(128, 0, 1024),
    (7, 5): Rates(128, 0, 1024),
    (8, 0): Rates(128, 1024, 2048),
    (8, 6): Rates(256, 512, 1024),
    (8, 9): Rates(256, 256, 512, 1024),
    (9, 0): Rates(256, 2048, 4096, 8192),
}

# Of Turing chips without tensor cores: FP16 at twice the rate of FP32. Source: NVIDIA's data sheet of the GTX 1660.
WITHOUT_TENSOR_CORES = Rates(128, 0, 256)

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


def peak_operations(gpu: Gpu, target: str) -> float | None:
    """Return the peak rate of a GPU at its highest clock, in operations per second; None where it is unknown.

    Args:
        gpu: The GPU.
        target: "fp32" on CUDA cores, "tf32", or "half" for FP16 and BF16.
    """
    rates = PER_CYCLE.get(gpu.compute_capability) if gpu.compute_capability else None
    if rates and not has_tensor_cores(gpu.name, gpu.compute_capability):
        rates = WITHOUT_TENSOR_CORES
    peak = getattr(rates, target) * gpu.sm_count * gpu.clock_hz if rates else 0
    return float(peak) if peak > 0 else None


def published_peak(gpu: Gpu, target: str) -> float | None:
    """Return the published peak rate of a GPU, in operations per second; None where it is unknown.

    It is that of the chip of its compute capability whose data sheet is known, for as many multiprocessors. The chip's
    highest clock may be above the clock of the data sheet: 1.98 and 1.83 GHz on an H100.

    Args:
        gpu: The GPU.
        target: "fp32" on CUDA cores, "tf32", "half" for FP16 and BF16, or "fp8".
    """
    rates = PEAK.get(gpu.compute_capability) if gpu.compute_capability else None
    if gpu.compute_capability is None or rates is None or not has_tensor_cores(gpu.name, gpu.compute_capability):
        return None
    peak: float = getattr(rates, target) * 1e12 * gpu.sm_count / _MULTIPROCESSORS[gpu.compute_capability]
    return peak if peak > 0 else None
