"""Sizes, rates and clocks of a GPU in whatever unit an export has them: as numbers, or as texts with a unit.

Since 2022 nsys writes bytes, bytes/s and Hz. CUPTI, which older exports follow, has kB/s and kHz, and other tools write
MiB or "80 GB". A number without a unit has the one in which it is possible: no GPU has 81,559 bytes of memory, and none
a clock of 1,980 Hz.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

_TEXT = re.compile(r"\s*([\d.,]*\d)\s*([KMGT]?)(i?)(B|Hz)(?:/s|ps)?\s*", re.IGNORECASE)
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_PREFIXES = " KMGT"


class UnitScale(NamedTuple):
    """The units in which a quantity may be given.

    Attributes:
        least: The smallest value that a GPU has, in bytes, bytes/s or Hz. The largest is less than ``step`` times as
            large, so that a number is possible in one unit only. In bytes, bytes/s or Hz it may be larger.
        step: How many of a unit are in the next one.
    """

    least: int
    step: int


SCALES: Mapping[str, UnitScale] = {
    "memory_bytes": UnitScale(400_000_000, 1024),  # to 400 GB
    "memory_bytes_per_second": UnitScale(10_000_000_000, 1000),  # to 10 TB/s
    "cache_bytes": UnitScale(128 << 10, 1024),  # to 128 MiB
    "clock_hz": UnitScale(100_000_000, 1000),  # to 100 GHz
    "sm_shared_bytes": UnitScale(16 << 10, 1024),  # to 16 MiB
}
"""By field of ``Gpu``. Source: data sheets of GPUs of compute capability 3.0 to 12.1, from GeForce GT 630 to GB300."""


def in_base_unit(field: str, value: int) -> int:
    """Return a number without a unit in bytes, bytes/s or Hz; 0 and below mean that it is not known.

    Args:
        field: A field of ``Gpu``; a number of one without a scale stays as it is.
        value: The number.
    """
    scale = SCALES.get(field)
    if scale is None:
        return value
    value = max(value, 0)
    while 0 < value < scale.least:
        value *= scale.step
    return value


def from_text(text: str) -> int | None:
    """Return the number in a text such as "81559 MiB", "4.8 TB/s" or "1,980 MHz" in its base unit; None for others."""
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    digits, prefix, binary, unit = found.groups()
    # A size has steps of 1024 whether or not it says so: a GPU of "80 GB" has 80 GiB. A rate has steps of 1000.
    is_size = unit.upper() == "B" and not text.rstrip().lower().endswith(("/s", "ps"))
    step = 1024 if binary or is_size else 1000
    plain = digits.replace(",", "") if _THOUSANDS.fullmatch(digits) else digits.replace(",", ".")
    try:
        return round(float(plain) * int(step ** _PREFIXES.index(prefix.upper() or " ")))
    except ValueError:
        return None
