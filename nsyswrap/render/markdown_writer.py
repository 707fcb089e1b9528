"""A document as Markdown for a comment on a pull request: under 8 KB, with folded parts and inert names.

The functions that escape, fold and fit serve the Markdown of a report, too.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

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
    return fitted(_parts(document))


def fitted(parts: Iterable[str]) -> str:
    """Return the first parts that fit into ``MOST_BYTES``; where a part does not fit, a line says so."""
    kept: list[str] = []
    left = MOST_BYTES - len(_LEFT_OUT.encode()) - 3
    for part in parts:
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
    about = ", ".join(filter(None, (document.outcome, document.title)))
    yield f"{marker}### nsyswrap {document.command}: {escape(about)}"
    yield f"**{escape(document.verdict)}**"
    for block in blocks_of(document.lead, "markdown"):
        yield _block(block)
    for section in document.in_form("markdown"):
        title = ", ".join(filter(None, (section.title, section.of)))
        if any(isinstance(block, Table) and "markdown" in block.folded for block in section.blocks):
            yield fold(escape(title), "\n\n".join(map(_block, section.blocks)))
            continue
        of = f", {escape(section.of)}" if section.of else ""
        first, *others = map(_block, section.blocks)
        yield f"**{escape(section.title)}**{of}\n\n{first}"
        yield from others
    if document.about:
        yield escape(". ".join(f"{label[0].upper()}{label[1:]}: {words}" for label, words in document.about))


def _block(block: Block) -> str:
    match block:
        case Lines():
            return _lines(block)
        case Facts():
            return "\n".join(f"- {escape(label)}: **{escape(value)}**" for label, value in block.facts)
        case Entries():
            shown, rest = block.cut()
            lines = [f"- **{escape(one.word)}** {_said(one)}" for one in shown]
            return "\n".join([*lines, f"- {rest}"] if rest else lines)
        case Bars():
            body = [tuple(map(escape, (row.label, row.share, row.time))) for row in block.legend if row.width != "0"]
            return pipe_table(("part", "share", "time"), body, 1)
        case Table():
            return _table(block)
    return ""


def _lines(block: Lines) -> str:
    # Code inside of a list would be markup, so its lines are texts.
    before, after = {"notes": ("> ", "  \n"), "bullets": ("- ", "\n"), "code": ("", "  \n")}.get(
        block.role, ("", "\n\n")
    )
    return after.join(f"{before}{escape(line)}" for line in block.lines)


def _said(entry: Entry) -> str:
    """Return an entry on one line: its name, what it is, and its numbers."""
    title = f"{entry.title}: " if entry.title else ""
    note = f" ({entry.note})" if entry.note else ""
    return escape(" ".join([f"{title}{entry.headline}{note}", *entry.lines]))


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


def details(summary: str, body: str, cut: str) -> str:
    """Return a folded part, with a sentence about the rows that are left out."""
    return fold(escape(summary), f"{body}\n\n{escape(cut)}" if cut else body)


def fold(summary: str, body: str) -> str:
    """Return a part that a click opens.

    Args:
        summary: Its heading, escaped.
        body: What it holds, escaped.
    """
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def pipe_table(heads: Sequence[str], body: Sequence[Sequence[str]], texts: int | Sequence[bool]) -> str:
    """Return a table.

    Args:
        heads: Headings of the columns.
        body: The rows.
        texts: How many of the first columns are aligned left, or for each column whether it is; all others go right.
    """
    left = [at < texts for at in range(len(heads))] if isinstance(texts, int) else texts
    rule = ["---" if is_left else "---:" for is_left in left]
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, rule, *body))
