"""How long collectives take between the GPUs of a machine, as `nsyswrap profile` measures it, or as data sheets say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from nsyswrap.hardware.links import nvlink_rate

# Share of a link's rate that large collectives reach. Source: NVIDIA/nccl-tests on DGX: all_reduce_perf reaches a bus
# bandwidth of 230 to 240 GB/s of 300 on A100s, 360 of 450 on H100s; two H100s reach 250 with messages of 32 MiB.
REACHED = 0.5
FEWEST_SIZES = 2
MEASURED, PUBLISHED = "measured on this machine", "half of what the data sheet says"


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
