"""Geometry of the comparison's drawings for inline SVG: per cent of the width, or positions in a box of 1000 by 200."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nsyswrap import units
from nsyswrap.compare import ChangeTable, Estimate
from nsyswrap.render import charts, hues, step_marks
from nsyswrap.render.escape import visible
from nsyswrap.render.vocabulary import LEDGER_PARTS, fill, rule_name

# Ends of intervals beyond these are drawn at the edge: a time cannot be less than 0, and a longer scale would leave
# no room for the rest.
_LEAST, _MOST = -1.0, 2.0
_POINTS = 200
_BOX = (1000.0, 200.0)
# The longest steps would squeeze all others to one edge; steps beyond this quantile are only counted.
_SHOWN_QUANTILE = 0.99
# Accounts of idle time in a bar. Ours: more are too narrow.
_MOST_RULES = 6


class Bar(NamedTuple):
    """A difference as a bar to the left or the right of the middle, in per cent of the cell."""

    x: str
    width: str
    less: bool


class Interval(NamedTuple):
    """Positions on the scale of changes, in per cent: the interval, the estimate, zero change, and the margin."""

    low: str
    width: str
    at: str
    zero: str
    margin_low: str
    margin_width: str


class Curves(NamedTuple):
    """Cumulative distributions of step times, as two SVG lines in a box 1000 wide and 200 high."""

    base: str
    new: str
    left: str
    right: str
    beyond: int


class Segment(NamedTuple):
    """A part of a ledger's bar."""

    key: str
    label: str
    fill: str
    amount: str
    x: str
    width: str

    @property
    def inside(self) -> step_marks.Label:
        """Return what the part says in the bar."""
        name = self.label.removeprefix("idle: ")
        return step_marks.label((f"{name} {self.amount}", name, self.amount), float(self.width))


class _Part(NamedTuple):
    """A part of GPU time: key of its colour, label, fill, and its amounts in base and in new."""

    key: str
    label: str
    fill: str
    amounts: tuple[float, float]


class Ledger(NamedTuple):
    """The ledgers of both sides on one scale, their totals, and the parts that at least one side has."""

    base: tuple[Segment, ...]
    new: tuple[Segment, ...]
    legend: tuple[Segment, ...]
    base_whole: str
    new_whole: str


def bars(deltas: Sequence[float], most: float) -> tuple[Bar, ...]:
    """Return differences as bars about the middle.

    Args:
        deltas: New minus base.
        most: The difference that fills half of the cell; larger ones fill it, too.
    """
    halves = [50 * min(abs(one) / (most or 1.0), 1.0) for one in deltas]
    return tuple(
        Bar(_number(50 - half if one < 0 else 50), _number(half), one < 0)
        for one, half in zip(deltas, halves, strict=True)
    )


def intervals(estimates: Sequence[Estimate], margin: float) -> tuple[Interval, ...]:
    """Return intervals of changes on one scale that includes all of them, zero, and the margin."""
    ends = [0.0, -2 * margin, 2 * margin, *(end for one in estimates for end in (one.low, one.high))]
    low, high = max(min(ends), _LEAST), min(max(ends), _MOST)
    room = 0.04 * (high - low) or 0.01
    low, high = low - room, high + room

    def place(value: float) -> float:
        return 100 * (min(max(value, low), high) - low) / (high - low)

    return tuple(
        Interval(
            low=_number(place(one.low)),
            width=_number(place(one.high) - place(one.low)),
            at=_number(place(one.change)),
            zero=_number(place(0.0)),
            margin_low=_number(place(-margin)),
            margin_width=_number(place(margin) - place(-margin)),
        )
        for one in estimates
    )


def curves(base: npt.NDArray[np.float64], new: npt.NDArray[np.float64]) -> Curves | None:
    """Return the cumulative distributions of step times; None where a side has fewer than two steps.

    Args:
        base: Lengths of the steps in base, ns.
        new: Lengths of the steps in new, ns.
    """
    if min(len(base), len(new)) < 2:  # noqa: PLR2004 - a line has two ends
        return None
    least = float(min(base.min(), new.min()))
    most = max(float(np.quantile(one, _SHOWN_QUANTILE)) for one in (base, new))
    room = 0.03 * (most - least) or 1.0
    left, right = max(least - room, 0.0), most + room
    beyond = int((base > right).sum() + (new > right).sum())
    before, now = (_curve(np.sort(one), left, right) for one in (base, new))
    return Curves(before, now, units.duration(left), units.duration(right), beyond)


def ledger(table: ChangeTable | None, idle: ChangeTable | None = None) -> Ledger | None:
    """Return both ledgers as bars on one scale, so that a shorter step has a shorter bar; None without a ledger.

    Args:
        table: The parts of GPU time.
        idle: Idle time by rule, which replaces the part of all idle time where it is given in the same unit.
    """
    if table is None or not table.changes:
        return None
    amounts = {one.name: (one.base or 0.0, one.new or 0.0) for one in table.changes}
    parts = [
        _Part(part.key, part.label, fill(part), amounts[part.column]) for part in LEDGER_PARTS if part.column in amounts
    ]
    if idle is not None and idle.unit == table.unit:
        parts = [*(part for part in parts if part.key != "idle"), *_accounts(idle)]
    wholes = [sum(part.amounts[side] for part in parts) for side in (0, 1)]
    drawn = []
    for side, whole in enumerate(wholes):
        values = [part.amounts[side] for part in parts]
        # Charts are made of whole numbers, so the unit is a millionth of the longer bar.
        scaled = [round(1e6 * value / max(*wholes, 1e-9)) for value in (*values, max(wholes) - whole)]
        segments = charts.bar(scaled)
        drawn.append(
            tuple(
                Segment(part.key, part.label, part.fill, units.text(value, table.unit), *segment)
                for part, value, segment in zip(parts, values, segments, strict=False)
            )
        )
    legend = tuple(one for part, one in zip(parts, drawn[0], strict=True) if any(part.amounts))
    return Ledger(drawn[0], drawn[1], legend, *(units.text(whole, table.unit) for whole in wholes))


def _accounts(idle: ChangeTable) -> list[_Part]:
    """Return the accounts of idle time, largest first; the smallest ones are merged, so that each has its shade."""
    found = [(one.name, (one.base or 0.0, one.new or 0.0)) for one in idle.changes if one.base or one.new]
    found.sort(key=lambda pair: (-max(pair[1]), pair[0]))
    kept = found if len(found) <= _MOST_RULES else found[: _MOST_RULES - 1]
    names = hues.idle_fills([rule for rule, _ in kept])
    parts = [
        _Part(name, f"idle: {visible(rule_name(rule))}", f"url(#{name})", amounts)
        for name, (rule, amounts) in zip(names, kept, strict=True)
    ]
    rest = [amounts for _, amounts in found[len(kept) :]]
    if rest:
        before, now = (sum(amounts[side] for amounts in rest) for side in (0, 1))
        last = "idle-other" + hues.LIGHTER * ("idle-other" in names)
        parts.append(_Part(last, "idle: other", f"url(#{last})", (before, now)))
    return parts


def _curve(lengths: npt.NDArray[np.float64], left: float, right: float) -> str:
    """Return a line from the lower left to the upper right; many steps are reduced to quantiles that a screen shows."""
    shares = np.arange(1, len(lengths) + 1) / len(lengths)
    if len(lengths) > _POINTS:
        shares = np.linspace(0, 1, _POINTS)
        lengths = np.quantile(lengths, shares)
    inside = lengths <= right
    x = (lengths[inside] - left) / (right - left) * _BOX[0]
    y = (1 - shares[inside]) * _BOX[1]
    steps = "".join(f"H{across:.1f}V{up:.1f}" for across, up in zip(x, y, strict=True))
    return f"M0 {_BOX[1]:.0f}{steps}H{_BOX[0]:.0f}"


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"
