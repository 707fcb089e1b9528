"""What products of matrices reach on the GPU of a machine, as `nsyswrap profile` measures it beside a capture."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from nsyswrap.base.interval import Interval
from nsyswrap.model import Gpu

# The kinds that are measured, and the peak that each stands for.
TARGETS = {"fp32": "fp32", "tf32": "tf32", "float16": "half", "bfloat16": "half", "fp8": "fp8", "memory": "memory"}


@dataclass(frozen=True, slots=True)
class MeasuredRates:
    """The rates of large products on one GPU, and of a copy in its memory.

    Attributes:
        gpu: Name of the GPU; empty where nothing was measured.
        multiprocessors: How many it has.
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
