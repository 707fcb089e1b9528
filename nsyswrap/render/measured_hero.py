"""The answer of a comparison, a gate, a sweep or a history: measured times of a step as bars on one scale."""

from typing import NamedTuple

from nsyswrap.base import units
from nsyswrap.base.interval import Interval
from nsyswrap.render import charts
from nsyswrap.render.document import Bar, Hero


class MeasuredTime(NamedTuple):
    """A measured time in ns with its name, and the range that holds it; None where that is unknown."""

    name: str
    ns: float
    range: Interval[float] | None = None


def hero(*times: MeasuredTime, sure: str = "") -> tuple[Hero, ...]:
    """Return the bars of some times; nothing without times."""
    known = [each for each in times if each.ns > 0]
    if not known:
        return ()
    longest = max(max(each.ns, each.range.high if each.range else 0.0) for each in known)
    scale = units.scale_for([max(each.ns for each in known)], "ns")
    bars = []
    for each in known:
        low, high = each.range.ends if each.range else (each.ns, each.ns)
        ends, texts = (f"{100 * low / longest:.2f}", f"{100 * high / longest:.2f}"), (scale.text(low), scale.text(high))
        row = charts.stacked([("after", each.name, "#929292", each.ns)], longest)
        words = f"{texts[0]} to {texts[1]}" if texts[0] != texts[1] else ""
        bars.append(Bar(each.name, f"{scale.text(each.ns)} {scale.unit}", row, words, ends if words else ()))
    return (Hero(tuple(bars), (f"How sure: {sure}" if sure else "", "")),)
