"""A document as one HTML page in the style of the report: no network, readable without scripts and styles.

The template escapes all values, and shows hidden characters of each text by their numbers.
"""

import functools

import jinja2
from markupsafe import Markup

from nsyswrap.base import units
from nsyswrap.render import hues, page_files, page_tables, timeline_view
from nsyswrap.render.content_policy import policy
from nsyswrap.render.document import Bars, Document, DrawnStep, DrawnSteps, blocks_of
from nsyswrap.render.escape import as_json, visible

STYLES = ("page.css", "tables.css", "document.css")
SCRIPTS = ("copying.js", "page.js", "tables.js")


def write(document: Document) -> str:
    """Return the document as one self-contained HTML page."""
    sections, lead = tuple(document.in_form("html")), blocks_of(document.lead, "html")
    blocks = [block for section in sections for block in section.blocks]
    styles, scripts = (list(map(page_files.static, some)) for some in (STYLES, (*SCRIPTS, *document.scripts)))
    if any(isinstance(one, DrawnSteps) for one in blocks):
        styles.append(page_files.static("step.css"))
        scripts.append(timeline_view.script(timeline_view.STEP_SCRIPTS))
    keys = {row.key for one in blocks if isinstance(one, Bars) for bar in one.bars for row in bar.parts}
    page: str = (
        _environment()
        .get_template("document.html.j2")
        .render(
            document=document,
            lead=lead,
            sections=sections,
            idle_fills=hues.patterns(key for key in keys if key.startswith("idle-")),
            policy=policy(styles, scripts),
            # These are our own files, and the policy holds their hashes; everything else in the page is escaped.
            styles=[Markup(text) for text in styles],  # noqa: S704
            scripts=[Markup(text) for text in scripts],  # noqa: S704
        )
    )
    return page


@functools.cache
def _environment() -> jinja2.Environment:
    environment = page_files.environment()
    environment.finalize = lambda value: visible(value) if type(value) is str else value
    # These pages have no glossary that terms could lead to.
    environment.filters["term"] = lambda _label: ""
    environment.filters["duration"] = units.duration
    environment.filters["count"] = units.count
    environment.filters["step_data"] = _step_data
    environment.filters["view"] = page_tables.document_table
    return environment


def _step_data(step: DrawnStep) -> Markup:
    content = {"data": timeline_view.packed(step.data), "span": step.span, "inferred": step.inferred}
    return as_json(content)
