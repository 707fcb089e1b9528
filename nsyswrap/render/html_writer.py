"""A document as one HTML page that needs no network and is readable without scripts and styles.

Everything on the page is text, a table or inline SVG. The template escapes all values, and shows hidden characters of
each text by their numbers. A slim page has the first parts alone, at most some 60 kB, for mail and CI; its links lead
to what it has.
"""

import functools
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Literal
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from nsyswrap.base import units
from nsyswrap.render import glossary, hues, markdown_writer, page_files, table_cells, timeline_view
from nsyswrap.render.document import (
    Bars,
    Block,
    Document,
    DocumentSection,
    DrawnStep,
    Entries,
    Fold,
    Hero,
    Meanings,
    PagePart,
    blocks_of,
)
from nsyswrap.render.escape import as_json, shorten, unbroken, visible

STYLES = ("page.css", "tables.css", "folds.css", "document.css")
SCRIPTS = ("copying.js", "page.js", "tables.js")
SLIM_STYLES = ("page.css",)
SLIM_SCRIPTS = ("copying.js", "page.js")
# What a slim page adds for ranks, which have its only table and the only pictures side by side.
_RANK_STYLES = ("tables.css", "ranks.css")
# A file as frames name it, and the number of the line.
_PLACE = re.compile(r"((?:~?/)?(?:[\w.+-]+/)*[\w+-][\w.+-]*\.py):(\d+)\b")
_COPIED = Markup('<button type="button" class="place">{}</button>')
_OPENED = Markup('<a class="opens" href="{}" aria-label="Open {} in the editor">↗</a>')
# Longer lines of evidence are cut, and a click shows the whole.
_LINE_WIDTH = 200


def write(document: Document, *, form: Literal["html", "slim"] = "html", editor: str = "") -> str:
    """Return the document as one self-contained HTML page.

    Args:
        document: The document.
        form: The whole page, or its first parts.
        editor: The address that opens a line of Python in an editor, with ``{file}`` and ``{line}``; empty for none.
    """
    sections, lead = list(document.in_form(form)), blocks_of(document.lead, form)
    blocks = list(_flat([*lead, *(block for section in sections for block in section.blocks)]))
    kinds = {block.kind for block in blocks}
    is_slim = form == "slim"
    is_explored = document.is_explored and not is_slim
    if is_slim:
        styles = [*SLIM_STYLES, *(_RANK_STYLES if any(section.key == "ranks" for section in sections) else ())]
        scripts = list(map(page_files.static, SLIM_SCRIPTS))
    else:
        styles = [*STYLES, *document.styles]
        scripts = list(map(page_files.static, (*SCRIPTS, *document.scripts)))
    if "steps" in kinds or "timeline" in kinds:
        styles += timeline_view.STYLES if "timeline" in kinds else ("step.css",)
    scripts += [timeline_view.script(timeline_view.STEP_SCRIPTS)] if "steps" in kinds else []
    # This script reads the page when it starts, so it comes after it.
    late_scripts = [timeline_view.script()] if "timeline" in kinds else []
    texts = list(map(page_files.static, styles))
    page: str = (
        _environment()
        .get_template("document.html.j2")
        .render(
            document=document,
            title=document.page_title or document.title,
            lead=lead,
            groups=[(name, list(some)) for name, some in itertools.groupby(sections, key=lambda one: one.group)],
            anchors=set(_anchors(sections, blocks)),
            idle_fills=hues.patterns({key for key in _colours(blocks) if key.startswith("idle-")}),
            has_findings=any(isinstance(block, Entries) and block.entries[0].anchor for block in blocks),
            is_explored=is_explored,
            slim=is_slim,
            summary=markdown_writer.write(document) if is_explored else "",
            # Other pages have no glossary that terms could lead to.
            term_of=glossary.term_anchor if is_explored else lambda _label: "",
            view_of=functools.partial(table_cells.table_view, form=form, has_terms=is_explored),
            recording=f"{document.title.removesuffix('.sqlite').removesuffix('.nsys-rep')}.nsys-rep",
            point=units.point,
            shorten=functools.partial(shorten, width=_LINE_WIDTH),
            places=functools.partial(with_places, editor=editor),
            policy=page_files.policy(texts, [*scripts, *late_scripts]),
            # These are our own files, and the policy holds their hashes; everything else in the page is escaped.
            styles=[Markup(text) for text in texts],  # noqa: S704
            scripts=[Markup(text) for text in scripts],  # noqa: S704
            late_scripts=[Markup(text) for text in late_scripts],  # noqa: S704
        )
    )
    return page


def _flat(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks, and those inside others."""
    for block in blocks:
        yield block
        if isinstance(block, Fold):
            yield from _flat(block.blocks)


def _anchors(sections: Iterable[DocumentSection], blocks: Iterable[Block]) -> Iterator[str]:
    """Yield the places of the page that a text may lead to."""
    yield from (section.key for section in sections if section.title)
    for block in blocks:
        if isinstance(block, Entries):
            yield from (each.anchor for each in block.entries if each.anchor)
        elif isinstance(block, Meanings):
            yield from (each.anchor for each in block.meanings if each.anchor)


def _colours(blocks: Iterable[Block]) -> Iterator[str]:
    """Yield the keys of the colours of all bars."""
    for block in blocks:
        if isinstance(block, Bars | Hero):
            yield from (row.key for bar in block.bars for row in bar.parts)
        elif isinstance(block, PagePart) and block.kind == "device":
            yield from (row.key for row in block.content.colours)


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("nsyswrap.render"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: visible(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["unbroken"] = unbroken
    environment.filters["count"] = units.count
    environment.filters["step_data"] = _step_data
    environment.filters["timeline"] = timeline_view.view
    return environment


def _step_data(step: DrawnStep) -> Markup:
    content = {"data": timeline_view.packed(step.data), "span": step.span, "inferred": step.inferred}
    return as_json(content)


def with_places(text: str, editor: str = "") -> Markup:
    """Return a text, escaped, in which each line of Python can be copied."""
    found, end = Markup(), 0
    shown = visible(text)
    for each in _PLACE.finditer(shown):
        found += shown[end : each.start()] + _COPIED.format(each[0])
        if editor:
            found += _OPENED.format(editor.replace("{file}", quote(each[1])).replace("{line}", each[2]), each[0])
        end = each.end()
    return found + shown[end:]
