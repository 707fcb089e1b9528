"""How long collectives take between the GPUs of a machine, as `nsyswrap profile` measures it, or as data sheets say."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

# Modules on a board with NVLink between all GPUs. Cards for PCIe slots (A100 PCIe, H100 PCIe, H200 NVL, L40, ...) have
# none, or a bridge that may be missing. GH200 and GB200 are left out: they reach the host's memory over a link as fast.
# Source: NVIDIA's data sheets of V100, A100, H100, H200, B200 and GH200, and the names that the driver reports:
# "Tesla V100-SXM2-16GB", "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA H200 NVL".
_NVLINK = re.compile(r"SXM|H100 \d+GB HBM|(?<!G)H200(?! NVL)|(?<!G)B[23]00")


# Bytes a second in one direction, of all links of a GPU together. Source: NVIDIA's data sheets, which count both
# directions: 300 GB/s of V100, 600 of A100, 900 of H100 and H200, 1800 of B200 and B300.
_RATES = ((r"V100", 150e9), (r"A100", 300e9), (r"H[12]00", 450e9), (r"B[23]00", 900e9))
# Share of a link's rate that large collectives reach. Source: NVIDIA/nccl-tests on DGX: all_reduce_perf reaches a bus
# bandwidth of 230 to 240 GB/s of 300 on A100s, 360 of 450 on H100s; two H100s reach 250 with messages of 32 MiB.
REACHED = 0.5
FEWEST_SIZES = 2
MEASURED, PUBLISHED = "measured on this machine", "half of what the data sheet says"


def has_nvlink(name: str) -> bool:
    """Return whether a GPU of this name is a module with NVLink; False where that is not sure."""
    return _NVLINK.search(name) is not None


def nvlink_rate(name: str) -> float | None:
    """Return how many bytes a second a GPU of this name sends over NVLink; None where it may have none."""
    if not has_nvlink(name):
        return None
    return next((rate for pattern, rate in _RATES if re.search(pattern, name)), None)


@dataclass(frozen=True, slots=True)
class LinkRates:
    """The time of collectives between the GPUs of one machine.

    Attributes:
        gpu: Name of the GPUs; empty where nothing was measured.
        gpus: How many took part.
        times: Of each kind of collective the sizes of messages in bytes, ascending, each with its time in ns.
    """

    gpu: str = ""
    gpus: int = 0
    times: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)

    def expected_ns(self, kind: str, size: int) -> float | None:
        """Return how long a collective of these GPUs takes, in ns; None for a kind that was not measured."""
        if kind not in self.times:
            return None
        sizes, times = (np.array(each) for each in zip(*self.times[kind], strict=True))
        # The rate of a message that is larger than the largest is that of the largest.
        return float(np.interp(size, sizes, times) * max(size / sizes[-1], 1.0))

    def measured(self) -> dict[str, object]:
        """Return the rates as `run.json` holds them."""
        return {"gpu": self.gpu, "gpus": self.gpus, "rates": {kind: list(each) for kind, each in self.times.items()}}


NO_LINK_RATES = LinkRates()


def read_link_rates(measured: object) -> LinkRates:
    """Return the times that a `run.json` holds under ``link_rates``; none where it holds none.

    Args:
        measured: What the file holds there; anything that is not a list of sizes and times is left out.
    """
    if not isinstance(measured, Mapping) or not isinstance(measured.get("rates"), Mapping):
        return NO_LINK_RATES
    found = {str(kind): times for kind, each in measured["rates"].items() if (times := _times(each))}
    count = measured.get("gpus")
    return LinkRates(str(measured.get("gpu", "")), count, found) if found and isinstance(count, int) else NO_LINK_RATES


def _times(measured: object) -> tuple[tuple[float, float], ...]:
    """Return sizes and times from a file; none for anything else."""
    try:
        found = tuple((float(size), float(ns)) for size, ns in measured)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        return ()
    sizes = [size for size, _ in found]
    is_good = len(found) >= FEWEST_SIZES and all(a < b for a, b in pairwise([0.0, *sizes]))
    return found if is_good and all(0 < ns < 1e12 for _, ns in found) else ()  # noqa: PLR2004 - a quarter of an hour


def published_ns(gpu: str, carried: float) -> float | None:
    """Return how long GPUs with NVLink take where each link carries so many bytes, in ns; None without NVLink."""
    rate = nvlink_rate(gpu)
    return None if rate is None else carried / (REACHED * rate) * 1e9


@dataclass(frozen=True, slots=True)
class CopyRate:
    """The rate of large copies from pinned memory in one direction, in bytes a second.

    Attributes:
        low: The slowest of several measurements.
    """

    low: float
    high: float

    def measured(self) -> dict[str, float]:
        """Return the rate as `run.json` holds it."""
        return {"low_bytes_per_second": self.low, "high_bytes_per_second": self.high}


def read_rates(measured: object) -> dict[str, CopyRate]:
    """Return the rates that a `run.json` holds under ``pinned_copy_rates``, by direction such as "Host-to-Device".

    Args:
        measured: What the file holds there; anything that is not a rate is left out.
    """
    if not isinstance(measured, Mapping):
        return {}
    return {str(direction): rate for direction, each in measured.items() if (rate := _rate(each)) is not None}


def _rate(measured: Any) -> CopyRate | None:  # noqa: ANN401 - from a file
    try:
        low, high = float(measured["low_bytes_per_second"]), float(measured["high_bytes_per_second"])
    except (KeyError, TypeError, ValueError):
        return None
    return CopyRate(low, high) if 0 < low <= high < float("inf") else None
