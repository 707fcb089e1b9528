"""The totals of many captures as one HTML page in the style of the report: no network, readable without scripts.

The template escapes all values; names that programs and users chose go through ``visible`` first.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from nsyswrap import units
from nsyswrap.many.totals import ManyCaptures
from nsyswrap.render import charts, overview_page, vocabulary
from nsyswrap.render.escape import elide, visible
from nsyswrap.render.many import summary_model
from nsyswrap.render.page_parts import LegendRow
from nsyswrap.render.page_tables import TableView, table_view

STYLES = ("page.css", "tables.css", "many.css")
SCRIPTS = ("copying.js", "page.js", "tables.js")
# So many groups have a bar; the table has all. Ours: more fill several screens.
_MOST_BARS = 16
_NAME_WIDTH = 40
_ALWAYS_SHOWN = frozenset({"compute", "idle"})
# Tables that are long and read last are folded.
_FOLDED = frozenset({"captures"})


class GroupBar(NamedTuple):
    """The GPU time of one group as a bar."""

    name: str
    amount: str
    parts: tuple[LegendRow, ...]


class Part(NamedTuple):
    """A section of the page: its heading, the bars of its groups, and its table."""

    key: str
    title: str
    of: str
    bars: tuple[GroupBar, ...]
    table: TableView
    folded: bool


def render(many: ManyCaptures) -> str:
    """Return the totals as one self-contained HTML page."""
    return overview_page.render("many.html.j2", STYLES, SCRIPTS, _values(many))


def _values(many: ManyCaptures) -> dict[str, Any]:
    parts = [_part(table, many) for table in summary_model.tables(many)]
    return {
        "title": summary_model.captures(len(many.captures)),
        "about": _about(many),
        "verdict": visible(summary_model.verdict(many)),
        "notes": [visible(note) for note in summary_model.notes(many)],
        "whole": ledger_bar(many.ledger),
        "gpu_time": units.duration(many.gpu_ns),
        "parts": parts,
        "contents": [("verdict", "Verdict"), ("ledger", "GPU time"), *((each.key, each.title) for each in parts)],
    }


def _about(many: ManyCaptures) -> list[tuple[str, str]]:
    """Return how many programs, GPUs, hosts and days there are, or the one that there is."""
    found = []
    for grouping, rows in many.groups.items():
        name = summary_model.group_name(grouping, rows[0].name) if len(rows) == 1 else ""
        words = elide(name, _NAME_WIDTH) if name else units.count(len(rows))
        found.append((summary_model.GROUP_TITLES[grouping], words))
    return found


def ledger_bar(ledger: Mapping[str, int]) -> tuple[LegendRow, ...]:
    """Return GPU time as a bar with a legend; its parts add up to the whole."""
    whole = sum(ledger.values())
    shown = [part for part in vocabulary.LEDGER_PARTS if ledger[part.column] or part.key in _ALWAYS_SHOWN]
    segments = charts.bar([ledger[part.column] for part in shown])
    return tuple(
        LegendRow(
            key=part.key,
            label=part.label,
            meaning="",
            fill=vocabulary.fill(part),
            time=units.duration(ledger[part.column]),
            share=units.share_of(ledger[part.column], whole) if whole else "",
            x=segment.x,
            width=segment.width,
        )
        for part, segment in zip(shown, segments, strict=True)
    )


def _part(table: summary_model.Table, many: ManyCaptures) -> Part:
    view = table_view(table.frame, table.title, table.key, "many")
    heads = tuple(head._replace(label=summary_model.LABELS.get(head.name, head.label)) for head in view.heads)
    bars = _bars(table.key, many) if table.key in many.groups else ()
    return Part(table.key, table.title, table.of, bars, view._replace(heads=heads), _is_folded(table, many))


def _is_folded(table: summary_model.Table, many: ManyCaptures) -> bool:
    """Return whether a table is folded: a long one, or that of a single group, which says what the whole says."""
    return table.key in _FOLDED or len(many.groups.get(table.key, ())) == 1


def _bars(grouping: str, many: ManyCaptures) -> tuple[GroupBar, ...]:
    """Return the bars of the groups with GPU time; none for a single group, whose bar is that of the whole."""
    rows = [each for each in many.groups[grouping] if each.gpu_ns]
    shown = rows[-_MOST_BARS:] if grouping == "day" else rows[:_MOST_BARS]
    if len(rows) == 1:
        return ()
    return tuple(
        GroupBar(
            elide(summary_model.group_name(grouping, each.name), _NAME_WIDTH),
            units.duration(each.gpu_ns),
            ledger_bar(each.ledger),
        )
        for each in shown
    )
