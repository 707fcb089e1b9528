"""The peak rates of GPUs that NVIDIA publishes, and the upper bounds of the speed-up by tensor cores."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import NamedTuple

from nsyswrap.base.interval import Interval
from nsyswrap.hardware.tensor_cores import has_tensor_cores
from nsyswrap.model import Gpu

Capability = tuple[int, int]


_GEFORCE, _INSTANCE = "GeForce", " MIG "
# For other GPUs: the ratio of an A100, which is close to those of the others. Source: as above.
USUAL = 8.0
# The kinds that are measured, and the peak that each stands for.
TARGETS = {"fp32": "fp32", "tf32": "tf32", "float16": "half", "bfloat16": "half", "fp8": "fp8", "memory": "memory"}


class Rates(NamedTuple):
    """Dense rates: FP32 on CUDA cores, TF32, FP16 or BF16, and FP8, summed up in FP32; 0 for none."""

    fp32: float
    tf32: float
    half: float
    fp8: float = 0


# Operations of one multiprocessor in one cycle: an FMA counts as two. GeForce cards of one generation have tensor cores
# of half the rate. Source: the papers below, their rates divided by multiprocessors and clock of the GPU.
_VOLTA = Rates(128, 0, 1024)
_TURING, _TURING_GEFORCE = _VOLTA, Rates(128, 0, 512)
_A100 = Rates(128, 1024, 2048)
_AMPERE, _AMPERE_GEFORCE = Rates(256, 512, 1024), Rates(256, 256, 512)
_ADA, _ADA_GEFORCE = Rates(256, 512, 1024, 2048), Rates(256, 256, 512, 1024)
_HOPPER = Rates(256, 2048, 4096, 8192)
_BLACKWELL = Rates(256, 4096, 8192, 16384)

# Of Turing chips without tensor cores: FP16 at twice the rate of FP32. Source: NVIDIA's data sheet of the GTX 1660.
WITHOUT_TENSOR_CORES = Rates(128, 0, 256)


@dataclass(frozen=True, slots=True)
class DataSheet:
    """What NVIDIA publishes about a GPU.

    Attributes:
        name: Pattern of the names that the driver reports for it.
        peak: Peak rates in 10^12 operations per second.
        per_cycle: Operations of one multiprocessor in one cycle.
    """

    capability: Capability
    name: str
    multiprocessors: int
    peak: Rates
    per_cycle: Rates

    def names(self, gpu: Gpu) -> bool:
        """Return whether it is about a GPU."""
        return self.capability == gpu.compute_capability and re.search(self.name, gpu.name) is not None


# The first of a capability stands for GPUs of that capability that none is about; of GeForce cards, the first of those.
# Where a sheet has only rates with sparsity, these are half of them. Sources, all by NVIDIA: the whitepapers on V100,
# Turing, A100, GA102, H100, Ada (also "Ada Lovelace Professional"), RTX Blackwell and RTX Blackwell PRO; the data
# sheets of V100, T4, A30, A10, L40, L40S, L4, H100, H100 NVL, H200 NVL, H20 and "GB200 NVL72, HGX B200"; the Blackwell
# architecture brief (B100); the pages on HGX B300 and GB300 NVL72.
DATA_SHEETS = (
    DataSheet((7, 0), r"V100-SXM", 80, Rates(15.7, 0, 125), _VOLTA),
    DataSheet((7, 0), r"V100S", 80, Rates(16.4, 0, 130), _VOLTA),
    DataSheet((7, 0), r"V100-PCIE", 80, Rates(14, 0, 112), _VOLTA),
    DataSheet((7, 5), r"\bT4\b", 40, Rates(8.1, 0, 65), _TURING),
    DataSheet((7, 5), r"Quadro RTX [68]000|TITAN RTX", 72, Rates(16.3, 0, 130.5), _TURING),
    DataSheet((7, 5), r"GeForce RTX 2080 Ti", 68, Rates(13.4, 0, 53.8), _TURING_GEFORCE),
    DataSheet((8, 0), r"\bA100", 108, Rates(19.5, 156, 312), _A100),
    DataSheet((8, 0), r"\bA30\b", 56, Rates(10.3, 82, 165), _A100),
    DataSheet((8, 6), r"\bA40\b", 84, Rates(37.4, 74.8, 149.7), _AMPERE),
    DataSheet((8, 6), r"RTX A6000", 84, Rates(38.7, 77.4, 154.8), _AMPERE),
    DataSheet((8, 6), r"\bA10\b", 72, Rates(31.2, 62.5, 125), _AMPERE),
    DataSheet((8, 6), r"GeForce RTX 3090$", 82, Rates(35.6, 35.6, 71), _AMPERE_GEFORCE),
    DataSheet((8, 9), r"RTX 6000 Ada", 142, Rates(91.1, 182.1, 364.2, 728.5), _ADA),
    DataSheet((8, 9), r"\bL40S", 142, Rates(91.6, 183, 362, 733), _ADA),
    DataSheet((8, 9), r"\bL40\b", 142, Rates(90.5, 90.5, 181, 362), _ADA_GEFORCE),
    DataSheet((8, 9), r"\bL4\b", 58, Rates(30.3, 60, 121, 242.5), _ADA),
    DataSheet((8, 9), r"GeForce RTX 4090$", 128, Rates(82.6, 82.6, 165.2, 330.3), _ADA_GEFORCE),
    DataSheet((9, 0), r"\bH100 80GB HBM3|\bH100 SXM|\bH[12]00$|GH200", 132, Rates(66.9, 494.7, 989.4, 1978.9), _HOPPER),
    DataSheet((9, 0), r"H100 PCIe", 114, Rates(51.2, 378, 756, 1513), _HOPPER),
    DataSheet((9, 0), r"H[12]00 NVL", 132, Rates(60, 417.5, 835.5, 1670.5), _HOPPER),
    DataSheet((9, 0), r"\bH20\b", 78, Rates(44, 74, 148, 296), Rates(256, 512, 1024, 2048)),
    DataSheet((10, 0), r"\bB200", 148, Rates(75, 1125, 2250, 4500), _BLACKWELL),
    DataSheet((10, 0), r"\bGB200", 152, Rates(80, 1250, 2500, 5000), _BLACKWELL),
    DataSheet((10, 0), r"\bB100", 148, Rates(60, 875, 1750, 3500), _BLACKWELL),
    DataSheet((10, 3), r"\bB300", 148, Rates(75, 1125, 2250, 4500), _BLACKWELL),
    DataSheet((10, 3), r"\bGB300", 152, Rates(80, 1250, 2500, 5000), _BLACKWELL),
    DataSheet((12, 0), r"RTX PRO 6000 Blackwell (?!Max-Q)", 188, Rates(126, 251.9, 503.8, 1007.6), _ADA),
    DataSheet((12, 0), r"RTX PRO 6000 Blackwell Max-Q", 188, Rates(110, 219.4, 438.9, 877.8), _ADA),
    DataSheet((12, 0), r"GeForce RTX 5090$", 170, Rates(104.8, 104.8, 209.5, 419), _ADA_GEFORCE),
)


def speed_up(target: str, capability: Capability | None) -> float:
    """Return the largest speed-up of FP32 products, at least 1.

    Args:
        target: The precision they would use: "tf32", or "half" for FP16 and BF16.
        capability: Compute capability of the GPU; None where it is unknown.
    """
    sheet = next((each for each in DATA_SHEETS if each.capability == capability), None)
    return max(getattr(sheet.peak, target) / sheet.peak.fp32, 1.0) if sheet else USUAL


def peak_operations(gpu: Gpu, target: str) -> float | None:
    """Return the peak rate of a GPU at its highest clock, in operations per second; None where it is unknown.

    Args:
        gpu: The GPU.
        target: "fp32" on CUDA cores, "tf32", "half" for FP16 and BF16, or "fp8".
    """
    sheet = _sheet(gpu)
    rates = sheet.per_cycle if sheet else None
    if rates and not has_tensor_cores(gpu.name, gpu.compute_capability):
        rates = WITHOUT_TENSOR_CORES
    peak = getattr(rates, target) * gpu.sm_count * gpu.clock_hz if rates else 0
    return float(peak) if peak > 0 else None


def published_peak(gpu: Gpu, target: str) -> float | None:
    """Return the published peak rate of a GPU, in operations per second; None where it is unknown.

    Where no data sheet is about the GPU, it is that of another of its compute capability, for as many multiprocessors;
    also where the GPU is a part of one (MIG). The highest clock may be above the clock of the data sheet: 1.98 and 1.83
    GHz on an H100.

    Args:
        gpu: The GPU.
        target: "fp32" on CUDA cores, "tf32", "half" for FP16 and BF16, or "fp8".
    """
    sheet = _sheet(gpu)
    if sheet is None or not has_tensor_cores(gpu.name, gpu.compute_capability):
        return None
    is_whole = sheet.names(gpu) and _INSTANCE not in gpu.name
    peak: float = getattr(sheet.peak, target) * 1e12 * (1 if is_whole else gpu.sm_count / sheet.multiprocessors)
    return peak if peak > 0 else None


def published_clock(gpu: Gpu, target: str) -> float | None:
    """Return the clock at which a GPU has its published peak, in Hz; None where it is unknown."""
    sheet, peak = _sheet(gpu), published_peak(gpu, target)
    if sheet is None or peak is None:
        return None
    clock: float = getattr(sheet.peak, target) * 1e12 / (getattr(sheet.per_cycle, target) * sheet.multiprocessors)
    return clock


def _sheet(gpu: Gpu) -> DataSheet | None:
    """Return the data sheet about a GPU; else that of the most similar GPU, or None."""
    alike = [each for each in DATA_SHEETS if each.capability == gpu.compute_capability]
    named = (each for each in alike if each.names(gpu))
    of_series = (each for each in alike if (_GEFORCE in each.name) == (_GEFORCE in gpu.name))
    return next(chain(named, of_series, alike), None)


@dataclass(frozen=True, slots=True)
class MeasuredRates:
    """The rates of large products on one GPU, and of a copy in its memory.

    Attributes:
        gpu: Name of the GPU; empty where nothing was measured.
        rates: The lowest, the usual and the highest rate of each kind, in operations or bytes per second.
        failure: Why nothing was measured, as far as that is known.
    """

    gpu: str = ""
    multiprocessors: int = 0
    rates: Mapping[str, Interval[float]] = field(default_factory=dict)
    failure: str = ""

    def peak(self, gpu: Gpu, target: str) -> float | None:
        """Return the usual rate of the fastest kind for a target; None where it was not measured on such a GPU.

        Args:
            gpu: The GPU.
            target: "fp32" on CUDA cores, "tf32", "half" for FP16 and BF16, "fp8" or "memory".
        """
        if (gpu.name, gpu.sm_count) != (self.gpu, self.multiprocessors):
            return None
        return max((rate.point for kind, rate in self.rates.items() if TARGETS[kind] == target), default=None)

    def measured(self) -> dict[str, object]:
        """Return the rates as `run.json` holds them, without the reason of a failure."""
        rates = {kind: list(rate.in_order) for kind, rate in self.rates.items()}
        return {"gpu": self.gpu, "multiprocessors": self.multiprocessors, "rates": rates}


NO_PRODUCT_RATES = MeasuredRates()


def read_product_rates(measured: object) -> MeasuredRates:
    """Return the rates that a `run.json` holds under ``product_rates``; none where it holds none.

    Args:
        measured: What the file holds there; anything that is not a rate is left out.
    """
    if not isinstance(measured, Mapping):
        return NO_PRODUCT_RATES
    rates = measured.get("rates")
    found = {kind: _rate(rates[kind]) for kind in TARGETS if kind in rates} if isinstance(rates, Mapping) else {}
    known = {kind: rate for kind, rate in found.items() if rate is not None}
    count = measured.get("multiprocessors")
    if not known or not isinstance(count, int):
        return MeasuredRates(failure=str(measured.get("failure", "")))
    return MeasuredRates(str(measured.get("gpu", "")), count, known)


def _rate(measured: object) -> Interval[float] | None:
    """Return a rate from a file; None for anything else."""
    try:
        low, usual, high = map(float, measured)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return None
    return Interval(low, usual, high) if all(a <= b for a, b in pairwise((1, low, usual, high, 1e30))) else None
