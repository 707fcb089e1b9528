"""A document for a terminal: the answer in 20 lines, then the first rows of its tables, readable without colour."""

import io
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Drawn
from rich.text import Text

from nsyswrap.render.distinct_names import shorten_all
from nsyswrap.render.document import Bars, Block, Document, Entries, Entry, Facts, Hero, Lines, Table, blocks_of
from nsyswrap.render.escape import ELISION, elide, visible
from nsyswrap.render.rows import is_prose

_HEADING, _MUTED = "bold", "dim"
_STYLES = {
    "good": "bold green",
    "bad": "bold red",
    "unsure": "bold yellow",
    "": _HEADING,
    "problem": "bold red",
    "warning": "bold yellow",
    "note": "bold cyan",
}
_TITLE_WIDTH, _NAME_WIDTH, _LEAST_NAME = 120, 36, 16
_GAP = 2
# Lists of several words have their texts below each other.
_WORD_WIDTH = 7
# The answer: hero, cards and what comes after them. Ours: what stays in sight above the prompt of a small terminal.
MOST_LINES = 20
_BAR, _BAR_WIDTH = "\N{FULL BLOCK}", 30


def write(document: Document, *, width: int = 80, colour: bool = False, is_brief: bool = False) -> str:
    """Return the document as text for a terminal."""
    return printed(_parts(document, width, is_brief=is_brief), width=width, colour=colour)


def _parts(document: Document, width: int, *, is_brief: bool) -> Iterator[RenderableType]:
    head = list(_head(document, width))
    yield from head
    sections = list(document.in_form("text"))
    for section in sections[:1] if is_brief else sections:
        cuts = [block.cut_in("text") for block in section.blocks if isinstance(block, Table) and not block.is_titled]
        note = "; ".join(filter(None, (section.of, *cuts)))
        line = Text("\n" if section.title else "").append(visible(section.title).upper(), style=_HEADING)
        above = [line.append(f"  {visible(note)}", style=_MUTED) if note else line]
        yield from above
        for at, block in enumerate(section.blocks):
            if isinstance(block, Entries) and block.is_numbered:
                below = [part for each in section.blocks[at + 1 :] if _is_answer(each) for part in _block(each, width)]
                yield from _cards(block, width, MOST_LINES - _height([*head, *above, *below], width))
            elif _is_answer(block) or not is_brief:
                indent = 2 if section.title else 0
                parts = _block(block, width - indent)
                yield from (Padding(part, (0, 0, 0, indent)) for part in parts) if indent else parts


def _is_answer(block: Block) -> bool:
    """Return whether a block is part of the answer; notes about the capture are not."""
    return not isinstance(block, Lines) or block.role != "notes"


def _head(document: Document, width: int) -> Iterator[RenderableType]:
    title = elide(document.title, _TITLE_WIDTH)
    yield Text(f"nsyswrap {document.command}".rstrip() + "  ", style=_MUTED).append(title, style=_HEADING)
    longest = max((len(label) for label, _ in document.about), default=0)
    for label, words in document.about:
        yield Text(f"{visible(label):{longest}}  {visible(words)}", style=_MUTED)
    yield Text("\n").append(visible(document.verdict), style=_STYLES[document.tone])
    lead = blocks_of(document.lead, "text")
    yield from [Text("")] if lead and not isinstance(lead[0], Hero) else []
    for block in lead:
        yield from _hero(block, width) if isinstance(block, Hero) else _block(block, width)


def _block(block: Block, width: int) -> Iterator[RenderableType]:
    match block:
        case Lines(role="bullets"):
            grid = Drawn.grid(padding=(0, 1, 0, 0))
            for line in block.lines:
                grid.add_row("-", visible(line))
            yield grid
        case Lines():
            style = _MUTED if block.role in {"fine", "notes"} else ""
            # A command or a path that is longer than a line stays whole, so that it can be copied.
            lines = (_wrapped(visible(line), width, is_cut=False) for line in block.lines)
            yield from (Text(line, style, no_wrap=True, overflow="ignore") for line in lines)
        case Facts():
            yield Text("; ".join(visible(f"{label} {value}") for label, value in block.facts))
        case Entries():
            yield from _entries(block)
        case Bars():
            shown = [row for row in block.legend if row.width != "0"]
            heads = [("part", "text"), ("share", "share"), ("time", "ns")]
            yield _drawn(heads, [[getattr(row, name) for row in shown] for name in ("label", "share", "time")], width)
        case Table():
            if block.is_titled:
                yield Text("\n").append(visible(block.caption), style=_HEADING)
            yield _cells(block, width)
            if block.is_titled and (cut := block.cut_in("text")):
                yield Text(visible(cut), style=_MUTED)


def _hero(hero: Hero, width: int) -> Iterator[RenderableType]:
    """Yield a line for each bar on one scale: its name, its time, the bar and its range."""
    longest = max(len(bar.name) for bar in hero.bars)
    amount = max(len(bar.amount) for bar in hero.bars)
    room = min(_BAR_WIDTH, width - longest - amount - 2 * _GAP - max(len(bar.range) for bar in hero.bars) - _GAP)
    for bar in hero.bars:
        filled = sum(float(part.width) for part in bar.parts) / 100
        drawn = _BAR * max(round(filled * room), 1) if room > 0 else ""
        line = f"{bar.name:{longest}}  {bar.amount:>{amount}}  {drawn:{max(room, 0)}}  {bar.range}"
        yield Text(visible(line), no_wrap=True)


def _cards(block: Entries, width: int, room: int) -> Iterator[RenderableType]:
    """Yield the first cards in so many lines: as many as fit with the first advice, then as many details as fit."""
    shown = block.entries[: block.most[False]]
    best = _first_cards(block, 1, 0)
    for count in range(1, len(shown) + 1):
        for details in range(1, sum(map(len, map(_details, shown[:count]))) + 1):
            parts = _first_cards(block, count, details)
            if _height(parts, width) <= room:
                best = parts
    yield from best


def _details(one: Entry) -> list[str]:
    """Return the lines of a card after its times, what to do first."""
    return [*_advice(one), *one.lines[1:]]


def _first_cards(block: Entries, count: int, details: int) -> list[RenderableType]:
    """Return some cards, so many of their details, and the number of cards that are left out."""
    parts: list[RenderableType] = []
    for number, one in enumerate(block.entries[:count], 1):
        parts.append(Text(f"{number} ").append(_word(one, _WORD_WIDTH)).append(f"  {visible(one.headline)}"))
        lines = [*one.lines[:1], *_details(one)[:details]]
        details = max(details - len(lines) + 1, 0)
        parts += [Padding(Text(visible(line)), (0, 0, 0, 2)) for line in lines]
    rest = len(block.entries) - count
    return [*parts, *([Text(visible(f"{rest} more {block.noun}"), style=_MUTED)] if rest else [])]


def _height(parts: Sequence[RenderableType], width: int) -> int:
    """Return the lines that parts take; blank lines at the end do not count."""
    return printed(parts, width=width, colour=False).count("\n") if parts else 0


def _word(one: Entry, width: int) -> Text:
    return Text(f"{visible(one.word):{width}}", style=_STYLES.get(one.severity, ""))


def _advice(one: Entry) -> list[str]:
    """Return the first clause of the advice."""
    clause, *more = re.split(r"(?<=[.;])\s", one.advice, maxsplit=1)
    return [f"Try this: {clause.rstrip('.;') + ELISION if more else clause}"] if clause else []


def _entries(block: Entries) -> Iterator[RenderableType]:
    """Yield a line for each entry, its further lines below it."""
    shown, rest = block.cut("text")
    longest = max(_WORD_WIDTH, *(len(one.word) for one in shown))
    for one in shown:
        said = f"{one.title}: {one.note}" if one.title and one.note else one.title or one.headline
        yield _word(one, longest).append(f"  {visible(said)}")
        advice = _advice(one) if "text" in block.advised else []
        yield from (Padding(Text(visible(line)), (0, 0, 0, 2)) for line in (*one.lines, *advice))
    if rest:
        yield Text(visible(rest), style=_MUTED)


def _cells(table: Table, width: int) -> Drawn:
    columns = table.columns_of("text")
    heads = [(one.label, "prose" if is_prose(one.name) else one.kind) for one in columns]
    return _drawn(heads, [one.cells for one in columns], width)


def _drawn(heads: Sequence[tuple[str, str]], columns: Sequence[Sequence[str]], width: int) -> Drawn:
    """Return a table; the names of a column stay different where they are cut.

    Where it is too wide, headings and texts take several lines; where that is not enough, names are cut further.

    Args:
        heads: Heading and unit of each column; ``text`` is a name, ``prose`` a sentence.
        columns: The cells of each column.
        width: Columns of the terminal.
    """
    drawn = Drawn(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style=_MUTED)
    labels = [visible(label) for label, _ in heads]
    # A name takes at most a quarter of a wide line; a file has no widest line.
    most = max(_NAME_WIDTH, width // 4)
    shown = [_short(cells, unit, most) for cells, (_, unit) in zip(columns, heads, strict=True)]
    room = width - _GAP * (len(heads) - 1)
    floors = list(map(_floor, labels, shown, heads))
    longest = [max([0, *map(len, cells)]) for cells in shown]
    whole = (
        floor if unit == "prose" else max(floor, most)
        for floor, most, (_, unit) in zip(floors, longest, heads, strict=True)
    )
    if sum(whole) > room:
        # Only those that hold a word without a place to break.
        shown = [
            _short(cells, unit, _LEAST_NAME) if _floor("", cells, (label, unit)) > _LEAST_NAME else cells
            for cells, (label, unit) in zip(shown, heads, strict=True)
        ]
        floors = list(map(_floor, labels, shown, heads))
        longest = [max([0, *map(len, cells)]) for cells in shown]
    widths = list(map(max, map(len, labels), longest))
    while sum(widths) > room and any(map(int.__gt__, widths, floors)):
        # Headings first, then the widest text.
        order = [
            (width > floor, width > most, width) for width, floor, most in zip(widths, floors, longest, strict=True)
        ]
        widths[order.index(max(order))] -= 1
    # Headings end and cells begin on one line.
    wrapped = list(map(_wrapped, labels, widths))
    most = max((head.count("\n") for head in wrapped), default=0)
    for at, (head, (_, unit)) in enumerate(zip(wrapped, heads, strict=True)):
        drawn.add_column(
            "\n" * (most - head.count("\n")) + head,
            justify="left" if unit in {"text", "prose"} else "right",
            overflow="fold" if at else "ellipsis",
            no_wrap=not at,
        )
    for row in zip(*shown, strict=True):
        drawn.add_row(*map(_wrapped, row, widths))
    return drawn


def _floor(label: str, cells: Sequence[str], head: tuple[str, str]) -> int:
    """Return the least width of a column: that of its longest word, and of its numbers."""
    texts = [word for cell in cells for word in cell.split()] if head[1] in {"text", "prose"} else cells
    return max(map(len, [*label.split(), *texts, ""]))


def _wrapped(text: str, width: int, *, is_cut: bool = True) -> str:
    """Return a text in lines of a width; a longer word is cut, or is a line of its own."""
    if len(text) <= width:
        return text
    return "\n".join(textwrap.wrap(text, max(width, 1), break_on_hyphens=False, break_long_words=is_cut))


def _short(cells: Sequence[str], unit: str, width: int) -> Sequence[str]:
    return shorten_all(cells, width) if unit == "text" else list(map(visible, cells))


def printed(blocks: Iterable[RenderableType], *, width: int, colour: bool) -> str:
    """Return blocks below each other as text for a terminal, without blanks at the ends of lines."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        height=100,
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        force_jupyter=False,
        legacy_windows=False,
        markup=False,
        highlight=False,
        emoji=False,
    )
    console.print(Group(*blocks), crop=False)
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n")).rstrip() + "\n"
