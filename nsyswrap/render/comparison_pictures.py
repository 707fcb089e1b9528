"""The pictures of a comparison: intervals of changes, distributions of steps, both ledgers, and both typical steps."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nsyswrap.base import units
from nsyswrap.compare.comparison import ChangeTable, Comparison, Estimate, Side
from nsyswrap.render import hues
from nsyswrap.render.charts import stacked
from nsyswrap.render.document import Bar, Bars, DrawnStep
from nsyswrap.render.drawings import Picture, Shape, shape
from nsyswrap.render.step_view import TypicalStep, are_inferred, typical_step
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
_GIVE = "Give captures, or folders that hold them, instead of report.json."
_Part = tuple[str, str, str, tuple[float, float]]


def intervals(estimates: Sequence[Estimate], find: float) -> tuple[Picture, ...]:
    """Return intervals of changes on one scale that includes all of them, zero, and the change that must be found."""
    ends = [0.0, -2 * find, 2 * find, *(end for one in estimates for end in one.change.ends)]
    low, high = max(min(ends), _LEAST), min(max(ends), _MOST)
    room = 0.04 * (high - low) or 0.01
    low, high = low - room, high + room

    def place(value: float) -> float:
        return 100 * (min(max(value, low), high) - low) / (high - low)

    def drawn(one: Estimate) -> Picture:
        left, zero = place(-find), f"{place(0.0):.2f}%"
        within, width = f"{place(one.change.low):.2f}%", f"{place(one.change.high) - place(one.change.low):.2f}%"
        shapes = (
            shape(
                "rect",
                "margin",
                x=f"{left:.2f}%",
                width=f"{place(find) - left:.2f}%",
                height=22,
                fill="#929292",
                fill_opacity=".18",
            ),
            shape("line", "middle", x1=zero, x2=zero, y2=22, stroke="#929292"),
            shape("rect", "reach", x=within, width=width, y=8, height=6, fill="#0054A9", fill_opacity=".45"),
            shape("circle", "less", cx=f"{place(one.change.point):.2f}%", cy=11, r=4.5, fill="#0054A9"),
        )
        return Picture(shapes, 22)

    return tuple(map(drawn, estimates))


def curves(base: npt.NDArray[np.float64], new: npt.NDArray[np.float64]) -> tuple[Picture, ...]:
    """Return the cumulative distributions of step times; none where a side has fewer than two steps."""
    if min(len(base), len(new)) < 2:  # noqa: PLR2004 - a line has two ends
        return ()
    least = float(min(base.min(), new.min()))
    most = max(float(np.quantile(one, _SHOWN_QUANTILE)) for one in (base, new))
    room = 0.03 * (most - least) or 1.0
    left, right = max(least - room, 0.0), most + room
    beyond = int((base > right).sum() + (new > right).sum())
    before, now = (_curve(np.sort(one), left, right) for one in (base, new))
    shapes = (
        shape("line", "ground-line", x2=1000, y1=200, y2=200, stroke="#929292"),
        _line("curve base", before, "#55616F", "none"),
        _line("curve", now, "#0054A9", "7 4"),
    )
    caption = "Cumulative distribution of step times. Grey line: base; dashed line: new"
    more = f"; steps beyond the right edge: {beyond}" if beyond else ""
    alt = "Cumulative distribution of step times in base and in new"
    ends = (units.duration(left), units.duration(right))
    return (Picture(shapes, 180, alt, box="1000 200", caption=f"{caption}{more}.", ends=ends),)


def _line(look: str, path: str, colour: str, dashes: str) -> Shape:
    return shape(
        "path", look, d=path, fill="none", stroke=colour, stroke_width=2, stroke_dasharray=dashes,
        vector_effect="non-scaling-stroke",
    )  # fmt: skip


def ledger(table: ChangeTable | None, idle: ChangeTable | None = None) -> Bars:
    """Return both ledgers as bars on one scale, so that a shorter step has a shorter bar; no bar without a ledger.

    Args:
        table: The parts of GPU time.
        idle: Idle time by rule, which replaces the part of all idle time where it is given in the same unit.
    """
    if table is None or not table.changes:
        return Bars(())
    amounts = {one.name: (one.base or 0.0, one.new or 0.0) for one in table.changes}
    parts = [
        (part.key, part.label, fill(part), amounts[part.column]) for part in LEDGER_PARTS if part.column in amounts
    ]
    if idle is not None and idle.unit == table.unit:
        parts = [*(part for part in parts if part[0] != "idle"), *_accounts(idle)]
    wholes = [sum(pair[side] for *_, pair in parts) for side in (0, 1)]
    sides = [
        stacked([(*part, pair[side]) for *part, pair in parts], max(wholes), table.unit)  # type: ignore[misc]
        for side in (0, 1)
    ]
    bars = [
        Bar(name, units.text(whole, table.unit), rows)
        for name, whole, rows in zip(("base", "new"), wholes, sides, strict=True)
    ]
    return Bars(tuple(bars), tuple(row for row, part in zip(sides[0], parts, strict=True) if any(part[-1])))


def _accounts(idle: ChangeTable) -> list[_Part]:
    """Return the accounts of idle time, largest first; the smallest ones are merged, so that each has its shade."""
    found = [(one.name, (one.base or 0.0, one.new or 0.0)) for one in idle.changes if one.base or one.new]
    found.sort(key=lambda pair: (-max(pair[1]), pair[0]))
    kept = found if len(found) <= _MOST_RULES else found[: _MOST_RULES - 1]
    names = hues.idle_fills([rule for rule, _ in kept])
    parts = [
        (name, f"idle: {rule_name(rule)}", f"url(#{name})", amounts)
        for name, (rule, amounts) in zip(names, kept, strict=True)
    ]
    rest = [amounts for _, amounts in found[len(kept) :]]
    if rest:
        last = "idle-other" + hues.LIGHTER * ("idle-other" in names)
        before, now = (sum(amounts[side] for amounts in rest) for side in (0, 1))
        parts.append((last, "idle: other", f"url(#{last})", (before, now)))
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


def step_pair(comparison: Comparison) -> tuple[tuple[DrawnStep, ...], str]:
    """Return both typical steps, aligned at their starts on one scale, and how much longer or shorter the new one is.

    Where a side has no timeline, as a report.json, or no measured steps, there are no steps and a sentence says why.
    """
    sides = (("base", comparison.base), ("new", comparison.new))
    without = [word for word, side in sides if side.report.timeline is None]
    if without:
        return (), f"The typical steps are not drawn: {_have(without)} no timeline. {_GIVE}"
    steps = [(word, side, typical_step(side.report)) for word, side in sides]
    known = [(word, side, step) for word, side, step in steps if step is not None]
    if len(known) < len(steps):
        without = [word for word, _, step in steps if step is None]
        return (), f"The typical steps are not drawn: {_have(without)} no measured steps."
    lengths = [step.span.end_ns - step.span.start_ns for _, _, step in known]
    more = lengths[1] - lengths[0]
    words = f"{units.duration(abs(more))} {'longer' if more > 0 else 'shorter'}" if more else "as long"
    return tuple(_drawn(word, side, step) for word, side, step in known), words


def _have(sides: Sequence[str]) -> str:
    return f"{' and '.join(sides)} {'has' if len(sides) == 1 else 'have'}"


def _drawn(word: str, side: Side, step: TypicalStep) -> DrawnStep:
    """Return one of the steps; without numbers of findings, since each side has its own ones."""
    note = ", ".join(part for part in (step.name, step.length, step.note, step.gpu) if part)
    span = (step.span.start_ns, step.span.end_ns)
    return DrawnStep(word, side.name, note, step.alone(), span, are_inferred(side.report))
