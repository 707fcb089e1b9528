"""GPU counters over time, one small chart for each that was sampled."""

import re
from typing import NamedTuple

from nsyswrap.base import units
from nsyswrap.model import Report
from nsyswrap.render import charts, summary_model
from nsyswrap.render.escape import visible
from nsyswrap.render.rows import plain
from nsyswrap.render.vocabulary import column_label

_SUFFIX = "_share"
# Upper edges of a chart: a counter that stays at a few per cent gets a scale on which it is readable.
_TOPS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class CounterView(NamedTuple):
    """One counter of one GPU: name, curve in a box 1000 wide and 100 high, mean, highest value, upper edge."""

    label: str
    area: str
    mean: str
    most: str
    top: str


class CountersView(NamedTuple):
    """The counters of one GPU over the window, which is cut into intervals of equal length."""

    title: str
    interval: str
    counters: tuple[CounterView, ...]


def counters(report: Report) -> tuple[CountersView, ...]:
    """Return the counters of each GPU; empty where none was sampled."""
    section = report.section("counters")
    if section is None or "over_time" not in section.tables:
        return ()
    table = section.tables["over_time"]
    means = {
        (_plain(row["name"]), row["device_id"]): row["mean_share"] for row in summary_model.rows(section, "window")
    }
    found = []
    for device in sorted(set(table["device_id"].tolist())):
        mine = table[table["device_id"] == device].sort_values("start_ns")
        starts, ends = mine["start_ns"].tolist(), mine["end_ns"].tolist()
        names = [str(name) for name in mine.columns if str(name).endswith(_SUFFIX)]
        values = {name: plain(mine[name]) for name in names}
        views = tuple(
            _counter(name, starts, ends, shares, means.get((_plain(name.removesuffix(_SUFFIX)), device)))
            for name, shares in values.items()
            if any(one is not None for one in shares)
        )
        interval = units.duration((ends[-1] - starts[0]) / len(starts))
        found.append(CountersView(f"GPU {device}", interval, views))
    return tuple(found)


def _counter(
    name: str, starts: list[int], ends: list[int], shares: list[float | None], mean: float | None
) -> CounterView:
    most = max(one for one in shares if one is not None)
    top = next((one for one in _TOPS if most <= one), 1.0)
    return CounterView(
        label=visible(column_label(name)),
        area=charts.busy_area(starts, ends, [None if one is None else one / top for one in shares]),
        mean=units.text(mean, "share"),
        most=units.share(most),
        top=units.share(top),
    )


def _plain(name: str) -> str:
    """Return the letters and digits of a counter's name, by which it is matched to its column: ``smactive``."""
    return re.sub(r"[\W_]", "", name.replace("SMs", "SM")).lower()
