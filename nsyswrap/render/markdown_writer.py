"""A document as Markdown for a comment on a pull request: under 8 KB, with folded parts and inert names."""

import re
from collections.abc import Iterator, Sequence

from nsyswrap.render.document import Bars, Block, Document, Entries, Entry, Facts, Lines, Table, blocks_of
from nsyswrap.render.escape import elide, shorten

MOST_BYTES = 8_000
_NAME_WIDTH = 60
TEXT_WIDTH = 400
_LEFT_OUT = "The rest is on the page; it does not fit into a comment."
# Characters of Markdown; and what GitHub makes a link: mentions, numbers of issues, addresses, and hashes of commits.
_MARKUP = re.compile(
    r"[<>&|\\`*_\[\]~$]|:(?=\S)|[@#]|(?<=www)\.|(?<=\bGH)-(?=\d)|\b(?=\d*[a-f])[0-9a-f]{7,40}\b", re.IGNORECASE
)


def write(document: Document) -> str:
    """Return the document as Markdown that fits into a comment; where a part does not fit, a line says so."""
    kept: list[str] = []
    left = MOST_BYTES - len(_LEFT_OUT.encode()) - 3
    for part in _parts(document):
        left -= len(part.encode()) + 2
        if left < 0:
            kept.append(_LEFT_OUT)
            break
        kept.append(part)
    return "\n\n".join(kept) + "\n"


def escape(text: str, width: int = TEXT_WIDTH) -> str:
    """Return text that Markdown shows unchanged, on one line: no markup, no link, no mention.

    Args:
        text: Any text.
        width: Most characters; longer text is cut in the middle.
    """
    return _MARKUP.sub(_inert, elide(text, width))


def name(text: str, width: int = _NAME_WIDTH) -> str:
    """Return a name that the profiled program chose, set as code and inert."""
    brief = shorten(text, width)
    shown = re.sub(r"[^\w\s.,()=…/-]|_", lambda found: f"&#{ord(found[0])};", brief)
    return f"<code>{shown}</code>" if shown else ""


def _inert(found: re.Match[str]) -> str:
    # GitHub looks for mentions, references and addresses in the rendered text, but not inside code.
    if len(found[0]) > 1:
        return f"<code>{found[0]}</code>"
    entity = f"&#{ord(found[0])};"
    return f"<code>{entity}</code>" if found[0] in "@#.-" else entity


def _parts(document: Document) -> Iterator[str]:
    """Yield the parts of the comment, the most important first."""
    marker = f"{document.marker}\n" if document.marker else ""
    title = escape(", ".join(filter(None, (document.outcome, document.title))))
    yield f"{marker}### {f'nsyswrap {document.command}'.rstrip()}: {title}"
    yield f"**{escape(document.verdict)}**"
    if document.about:
        yield escape(". ".join(f"{label[0].upper()}{label[1:]}: {words}" for label, words in document.about))
    yield from _blocks(blocks_of(document.lead, "markdown"))
    for section in document.in_form("markdown"):
        title = ", ".join(filter(None, (section.title, section.of)))
        if any(isinstance(block, Table) and "markdown" in block.folded for block in section.blocks):
            yield fold(escape(title), "\n\n".join(_blocks(section.blocks)))
            continue
        first, *others = _blocks(section.blocks)
        of = f", {escape(section.of)}" if section.of else ""
        yield f"**{escape(section.title)}**{of}\n\n{first}" if section.title else first
        yield from others


def _blocks(blocks: Sequence[Block]) -> Iterator[str]:
    """Yield blocks; lists of entries that follow each other are one list."""
    listed: list[str] = []
    for block in blocks:
        if isinstance(block, Entries):
            found = list(_entries(block))
            if not any(one.startswith("<details>") for one in found):
                listed += found
                continue
        else:
            found = [_block(block)]
        yield from ["\n".join(listed)] if listed else []
        listed = []
        yield from found
    yield from ["\n".join(listed)] if listed else []


def _block(block: Block) -> str:
    match block:
        case Lines():
            return _lines(block)
        case Facts():
            return "\n".join(f"- {escape(label)}: **{escape(value)}**" for label, value in block.facts)
        case Bars():
            body = [tuple(map(escape, (row.label, row.share, row.time))) for row in block.legend if row.width != "0"]
            return pipe_table(("part", "share", "time"), body, [True, False, False])
        case Table():
            return _table(block)
    return ""


def _lines(block: Lines) -> str:
    before, after = {"notes": ("> ", "  \n"), "bullets": ("- ", "\n"), "code": ("", "  \n")}.get(
        block.role, ("", "\n\n")
    )
    lines = (name(line, TEXT_WIDTH) if block.role == "code" else escape(line) for line in block.lines)
    return after.join(f"{before}{line}" for line in lines)


def _entries(block: Entries) -> Iterator[str]:
    """Yield an item of a list for each entry; an entry with evidence is folded."""
    shown, rest = block.cut("markdown")
    for number, one in enumerate(shown, 1):
        mark = f"{number}. " if block.is_numbered else "- "
        lines = [escape(line) for line in one.lines]
        lines += [f"Try this: {escape(one.advice)}"] if one.advice and "markdown" in block.advised else []
        if one.evidence:
            lines.append(f"Evidence: {'; '.join(escape(line.text, TEXT_WIDTH // 2) for line in one.evidence)}")
            yield fold(f"{mark}<strong>{escape(one.word)}</strong> {escape(_said(one))}", "  \n".join(lines))
        else:
            yield " ".join([f"{mark}**{escape(one.word)}** {escape(_said(one))}", *lines])
    if rest:
        yield escape(rest) if block.is_numbered else f"- {escape(rest)}"


def _said(entry: Entry) -> str:
    """Return an entry on one line: its name, what it is, and its numbers."""
    named = ": ".join(filter(None, (entry.title, entry.headline)))
    return f"{named} ({entry.note})" if entry.note else named


def _table(table: Table) -> str:
    columns = table.columns_of("markdown")
    cells = [
        [(name if table.of_programs and not at else escape)(cell) for cell in one.cells]
        for at, one in enumerate(columns)
    ]
    heads = [escape(one.label) for one in columns]
    body = pipe_table(heads, list(zip(*cells, strict=True)), [one.kind == "text" for one in columns])
    title, cut = f"**{escape(table.caption)}**" if table.is_titled else "", escape(table.cut_in("markdown"))
    return "\n\n".join(filter(None, (title, body, cut)))


def fold(summary: str, body: str) -> str:
    """Return a part that a click opens; both texts are escaped."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def pipe_table(heads: Sequence[str], body: Sequence[Sequence[str]], lefts: Sequence[bool]) -> str:
    """Return a table.

    Args:
        heads: Headings of the columns.
        body: The rows.
        lefts: For each column whether it is aligned left; all others go right.
    """
    rule = ["---" if is_left else "---:" for is_left in lefts]
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, rule, *body))
