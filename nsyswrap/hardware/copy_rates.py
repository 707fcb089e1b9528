"""How fast this machine copies between host and GPU, as `nsyswrap profile` measures it beside a capture."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CopyRate:
    """The rate of large copies from pinned memory in one direction, in bytes a second.

    Attributes:
        low: The slowest of several measurements.
        high: The fastest of them.
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
