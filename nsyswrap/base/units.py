"""Nanoseconds, bytes, shares and counts as text. Nothing else in the program rounds.

Durations and sizes have three significant digits and the unit that fits; shares have one decimal. A value above zero
never prints as zero: a share that would round to zero prints as ``<0.1 %``. ``None`` and NaN print as ``not measured``.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Literal, SupportsFloat

from nsyswrap.base.interval import Interval

NOT_MEASURED = "not measured"

ColumnUnit = Literal["ns", "point", "bytes", "share", "hz", "flop", "count", "number", "text"]
Number = int | float | SupportsFloat

_TIMES = ((1, "ns"), (1_000, "µs"), (1_000_000, "ms"), (1_000_000_000, "s"))
_SIZES = ((1, "B"), (1 << 10, "KiB"), (1 << 20, "MiB"), (1 << 30, "GiB"), (1 << 40, "TiB"))
_RATES = ((1, "Hz"), (1_000, "kHz"), (1_000_000, "MHz"), (1_000_000_000, "GHz"))
_OPERATIONS = ((1, "FLOP"), (10**3, "kFLOP"), (10**6, "MFLOP"), (10**9, "GFLOP"), (10**12, "TFLOP"), (10**15, "PFLOP"))
_SCALES = {"ns": _TIMES, "bytes": _SIZES, "hz": _RATES, "flop": _OPERATIONS}
_SUFFIXES: tuple[tuple[str, ColumnUnit], ...] = (
    ("_ns", "ns"),
    ("_bytes", "bytes"),
    ("_share", "share"),
    ("_hz", "hz"),
    ("_count", "count"),
)
_DIGITS = 3
_MOST_DIGITS = 4
_SHOWN_SHARE = 0.0005


def is_missing(value: object) -> bool:
    """Return whether a value means "not measured": None, NaN or pandas' NA."""
    if isinstance(value, str | int):
        return False
    if isinstance(value, Real):
        return math.isnan(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def duration(ns: Number) -> str:
    """Return a length of time with three significant digits: ``58.1 ms``; no time is ``0``."""
    return _scaled(ns, _TIMES) if ns else "0"


def about(ns: Number, like_ns: Number) -> str:
    """Return an estimate of a time with two significant digits: ``about 16``, in the unit of another time beside it.

    Args:
        ns: The estimate in nanoseconds.
        like_ns: The time beside it. Where it has another unit, the estimate has its own: ``about 900 µs``.
    """
    value, _, unit = duration(float(f"{float(ns):.2g}")).partition(" ")
    if "." in value:
        value = value.rstrip("0").removesuffix(".")
    return f"about {value}" if duration(like_ns).endswith(f" {unit}") else f"about {value} {unit}".rstrip()


def point(ns: Number) -> str:
    """Return a moment as seconds since capture start, to the microsecond: ``12.402100 s``."""
    return f"{float(ns) / 1e9:.6f} s"


def size(size_bytes: Number) -> str:
    """Return a size in binary units with three significant digits: ``1.50 GiB``."""
    return _scaled(size_bytes, _SIZES)


def share(ratio: Number) -> str:
    """Return a share of 1 in per cent with one decimal: ``38.6 %``.

    A share other than 0 never prints as 0, and a share below 1 never as 1: ``<0.1 %``, ``>99.9 %``. Zero has no sign.
    """
    value = float(ratio)
    if 0 < abs(value) < _SHOWN_SHARE:
        return "<0.1 %"
    if 1 - _SHOWN_SHARE < value < 1:
        return ">99.9 %"
    return f"{100 * (value or 0.0):.1f} %"


def percent(ratio: Number) -> str:
    """Return a share that somebody chose, as it is written: ``5 %``, ``0.5 %``."""
    return f"{100 * float(ratio):g} %"


def change(ratio: Number) -> str:
    """Return a relative change with its sign: ``-56.6 %``; no change is ``0.0 %``, and a smaller one ``<0.1 %``."""
    size = abs(float(ratio))
    return "<0.1 %" if 0 < size < _SHOWN_SHARE else f"{_sign(ratio)}{100 * size:,.1f} %"


def difference(value: Number, unit: str) -> str:
    """Return a difference with its sign: ``-3.28 ms``; zero has no sign.

    Args:
        value: The new value minus the old one.
        unit: A unit of ``model.Unit``; the difference of two shares is in percentage points.
    """
    if unit == "share":
        return change(value)
    return _sign(value) + text(abs(value) if isinstance(value, int) else abs(float(value)), unit)


def _sign(value: Number) -> str:
    return "+" if float(value) > 0 else "-" if float(value) < 0 else ""


def duration_range(low_ns: Number, high_ns: Number) -> str:
    """Return two lengths of time as a range: ``2.50 to 2.90 ms``; a shared unit once, and one text where both agree."""
    low, high = duration(low_ns), duration(high_ns)
    if low == high:
        return low
    value, _, unit = low.rpartition(" ")
    return f"{value if high.endswith(f' {unit}') else low} to {high}"


def share_of(part: Number, whole: Number) -> str:
    """Return a part of a whole as a share, or ``not measured`` where the whole is zero."""
    return share(float(part) / float(whole)) if float(whole) else NOT_MEASURED


def share_band(low: Number | None, high: Number | None) -> str:
    """Return a share known within bounds: ``41.0 to 58.2 %``, or one number where both print the same."""
    if low is None or high is None or is_missing(low) or is_missing(high):
        return NOT_MEASURED
    first, last = share(low), share(high)
    return first if first == last else f"{first.removesuffix(' %')} to {last}"


def saving(ns: Interval[int] | None) -> str:
    """Return a saving known within bounds: ``up to 57.1 ms``, ``9.80 to 57.1 ms``, ``none``, ``not predicted``."""
    if ns is None:
        return "not predicted"
    if ns.high <= 0:
        return "none"
    if ns.low <= 0:
        return f"up to {duration(ns.high)}"
    return duration_range(*ns.ends)


def count(number: Number) -> str:
    """Return a count with its digits in groups of three: ``12,345``."""
    return f"{int(float(number)) if not isinstance(number, int) else number:,}"


def counted(number: int, noun: str, several: str = "") -> str:
    """Return a number with its noun: ``1 step``, ``1,000 steps``, ``2 launches``, ``0 copies``.

    Args:
        number: How many there are.
        noun: The noun for one.
        several: The noun for another number; empty for the regular plural.
    """
    if number != 1:
        ending = "es" if noun.endswith(("s", "x", "ch", "sh")) else "ies" if noun.endswith(("py", "ry", "ty")) else "s"
        noun = several or noun.removesuffix("y" if ending == "ies" else "") + ending
    return f"{count(number)} {noun}"


TIMES = "×"
"""The sign between a number and what there is so often."""


def times(number: int, what: str) -> str:
    """Return how often there is something: ``2 × NVIDIA H200``."""
    return f"{count(number)} {TIMES} {what}"


def factor(ratio: Number) -> str:
    """Return how many times as much something is, with three significant digits: ``1.82``, ``14.0``, ``10,000``."""
    shown = _three(float(ratio))
    return shown if "." in shown else count(int(shown))


def number(value: Number) -> str:
    """Return a number without a unit: in full where it is whole, else with three significant digits."""
    if isinstance(value, int) or float(value).is_integer():
        return count(value)
    return _three(float(value)) if abs(float(value)) >= 1 else f"{float(value):.3g}"


def text(value: object, unit: str) -> str:
    """Return a value in its unit.

    Args:
        value: A number, a text, or None for a value that was not measured.
        unit: A unit of ``model.Unit`` or a ``ColumnUnit``.
    """
    if is_missing(value):
        return NOT_MEASURED
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) or not isinstance(value, Real) or unit == "text":
        return str(value)
    if unit in _SCALES:
        return duration(value) if unit == "ns" else _scaled(value, _SCALES[unit])
    return {"point": point, "share": share, "count": count}.get(unit, number)(value)


def column_unit(name: str, *, numeric: bool) -> ColumnUnit:
    """Return the unit of a column from its name: ``idle_ns`` holds nanoseconds."""
    if not numeric:
        return "text"
    if name in ("start_ns", "end_ns"):
        return "point"
    if name in ("count", "share", "bytes"):
        return {"count": "count", "share": "share", "bytes": "bytes"}[name]  # type: ignore[return-value]
    return next((unit for suffix, unit in _SUFFIXES if name.endswith(suffix)), "number")


@dataclass(frozen=True, slots=True)
class Scale:
    """One unit and one number of decimals for all cells of a column, so that the digits align.

    Attributes:
        divisor: Base units (ns, bytes, Hz) in one unit.
        unit: Symbol of the unit, such as "ms".
        decimals: Digits after the point.
    """

    divisor: int
    unit: str
    decimals: int

    def text(self, value: Number) -> str:
        """Return the value without its unit. Zero is ``0``; a value that only rounds to zero is ``<0.01``."""
        scaled = float(value) / self.divisor
        if not scaled:
            return "0"
        if self.hides(value):
            return f"<{10.0**-self.decimals:.{self.decimals}f}"
        return f"{scaled:,.{self.decimals}f}"

    def hides(self, value: Number | None) -> bool:
        """Return whether a value is not zero and only rounds to zero."""
        scaled = 0.0 if is_missing(value) else float(value or 0) / self.divisor
        return scaled != 0 and float(f"{scaled:.{self.decimals}f}") == 0


def scale_for(values: Iterable[Number], unit: Literal["ns", "bytes", "hz"]) -> Scale:
    """Return the scale of a column: the unit that fits its largest value, decimals that fit its median value.

    The largest value has at most four significant digits. A column of zeros has no unit.
    """
    sizes = sorted(abs(float(value)) for value in values if not is_missing(value) and float(value))
    if not sizes:
        return Scale(1, "", 0)
    largest, middle = sizes[-1], sizes[len(sizes) // 2]
    divisor, sign = next((step for step in reversed(_SCALES[unit]) if largest >= step[0]), _SCALES[unit][0])
    if divisor == 1:
        return Scale(1, sign, 0)
    wanted = _DIGITS - _magnitude(middle / divisor)
    return Scale(divisor, sign, max(min(wanted, _MOST_DIGITS - _magnitude(largest / divisor)), 0))


def _magnitude(value: float) -> int:
    """Return the number of digits before the point; less than 1 where the value is below 1."""
    return math.floor(math.log10(value)) + 1


def _scaled(value: Number, steps: tuple[tuple[int, str], ...]) -> str:
    """Return the value in the largest unit in which it is at least 1."""
    if isinstance(value, int) and abs(value) < steps[1][0]:
        return f"{value} {steps[0][1]}"
    ratio = steps[1][0]
    for divisor, sign in steps[:-1]:
        scaled = float(value) / divisor
        if abs(scaled) >= ratio:
            continue
        shown = _three(scaled)
        if abs(float(shown)) < ratio:
            return f"{shown} {sign}"
    divisor, sign = steps[-1]
    scaled = float(value) / divisor
    return f"{_three(scaled) if abs(scaled) < ratio else f'{scaled:,.0f}'} {sign}"


def _three(value: float) -> str:
    """Return a number with three significant digits; all digits before the point are kept."""
    for decimals in (2, 1):
        shown = f"{value:.{decimals}f}"
        if len(shown.lstrip("-")) <= _DIGITS + 1:
            return shown
    return f"{value:.0f}"
