"""A sweep as one HTML page in the style of the report: no network, readable without scripts.

The template escapes all values; names that the sweep chose go through ``visible`` first.
"""

from typing import Any, NamedTuple

from nsyswrap.render import overview_page
from nsyswrap.render.escape import visible
from nsyswrap.render.page_tables import TableView, table_view
from nsyswrap.render.sweep import drawings, summary_model
from nsyswrap.sweep.advice import advice
from nsyswrap.sweep.results import Sweep

STYLES = ("page.css", "tables.css", "many.css", "sweep.css")
SCRIPTS = ("copying.js", "page.js", "tables.js")


class Part(NamedTuple):
    """A section of the page: its heading and its table."""

    key: str
    title: str
    of: str
    table: TableView


def render(sweep: Sweep) -> str:
    """Return the sweep as one self-contained HTML page."""
    return overview_page.render("sweep.html.j2", STYLES, SCRIPTS, _values(sweep))


def _values(sweep: Sweep) -> dict[str, Any]:
    parts, bars = [_part(table) for table in summary_model.tables(sweep)], drawings.cell_bars(sweep)
    axes = drawings.axis_charts(sweep)
    contents = [("verdict", "Verdict")]
    contents += [(f"axis-{at}", each.axis) for at, each in enumerate(axes)]
    contents += [("accounts", "Where each step goes")] if bars else []
    contents += [(each.key, each.title) for each in parts] + [("sweep", "The sweep")]
    return {
        "title": visible(sweep.spec.name),
        "about": [(label, visible(words)) for label, words in summary_model.machines(sweep)],
        "verdict": visible(summary_model.verdict(sweep)),
        "advice": [visible(each) for each in advice(sweep)],
        "notes": [visible(note) for note in summary_model.notes(sweep)],
        "axes": axes,
        "height": drawings.HEIGHT,
        "bars": bars,
        "legend": drawings.legend(bars),
        "idle_fills": drawings.idle_fills(),
        "parts": parts,
        "toml": [visible(line) for line in sweep.spec.text.splitlines()],
        "contents": contents,
    }


def _part(table: summary_model.Table) -> Part:
    view = table_view(table.frame, table.title, table.key, "sweep")
    heads = tuple(head._replace(label=summary_model.LABELS.get(head.name, head.label)) for head in view.heads)
    return Part(table.key, table.title, table.of, view._replace(heads=heads))
