"""What a result says before it has a form: a verdict, then sections of lines, facts, tables and pictures.

A report, a comparison, the totals of many captures, a sweep, a history and a gate each make one ``Document``;
``html_writer``, ``text_writer`` and ``markdown_writer`` turn any document into their form. Texts are raw here: the
writers make names that programs and users chose safe, each in the way of its form.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from nsyswrap.base import units
from nsyswrap.base.units import ColumnUnit
from nsyswrap.render import rows
from nsyswrap.render.drawings import Picture
from nsyswrap.render.vocabulary import WEIGHTS, column_label

if TYPE_CHECKING:
    import pandas as pd

    from nsyswrap.model import TimelineData
    from nsyswrap.render.charts import LegendRow
    from nsyswrap.rules.code import CodeChange

Form = Literal["html", "slim", "text", "markdown"]
"""A page, a short page for mail and CI, a text for a terminal, a comment on a pull request."""
EVERYWHERE: frozenset[Form] = frozenset({"html", "slim", "text", "markdown"})
PAGE: frozenset[Form] = frozenset({"html"})
SLIM: frozenset[Form] = frozenset({"slim"})
PAGES: frozenset[Form] = PAGE | SLIM
TERMINAL: frozenset[Form] = frozenset({"text"})
MARKDOWN: frozenset[Form] = frozenset({"markdown"})
WRITTEN: frozenset[Form] = TERMINAL | MARKDOWN
Tone = Literal["", "good", "bad", "unsure"]
# Before the name of a row that is part of another one, in a text.
_INDENT = "\N{NO-BREAK SPACE}" * 2
# Rows of a table in each form. Ours: what a browser sorts at once, 60 kB, a screen, and a comment.
MOST_ROWS: Mapping[Form, int] = MappingProxyType({"html": 100, "slim": 6, "text": 5, "markdown": 8})


class Span(NamedTuple):
    """An interval of the timeline, ns since capture start."""

    start_ns: int
    end_ns: int

    @property
    def anchor(self) -> str:
        """Return the anchor of a link to it, without the #."""
        return f"t={self.start_ns}-{self.end_ns}"


@dataclass(frozen=True, slots=True)
class Lines:
    """Sentences: paragraphs, headlines, small print, limits of the numbers, a list, or lines of code.

    Attributes:
        links: Where each line leads, on a page that has the place; empty for nowhere.
    """

    kind: ClassVar[str] = "lines"
    lines: tuple[str, ...]
    role: Literal["plain", "headline", "fine", "notes", "bullets", "code"] = "plain"
    forms: frozenset[Form] = EVERYWHERE
    links: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """Pairs of a label and a value."""

    kind: ClassVar[str] = "facts"
    facts: tuple[tuple[str, str], ...]
    forms: frozenset[Form] = EVERYWHERE


class Meaning(NamedTuple):
    """A label with words about it, which may be a command, and its anchor."""

    label: str
    words: str
    anchor: str = ""
    is_code: bool = False


@dataclass(frozen=True, slots=True)
class Meanings:
    """Labels with sentences about them, under a heading of their own where there is one."""

    kind: ClassVar[str] = "meanings"
    meanings: tuple[Meaning, ...]
    title: str = ""
    forms: frozenset[Form] = PAGE


class Effect(NamedTuple):
    """What a change does to a step, on the scale of the step now.

    Attributes:
        after: The time of a step with it; "unknown" where no number can be given.
        label: What is different then, such as "with CUDA graphs".
        saving: What it saves, such as "saves 3.29 ms"; empty where that is unknown.
        range: The range of the time with it; empty where that is unknown or has no width.
        how: How it is known: simulated, measured, benchmarked or estimated.
        bar: The step with it and the step without it, in per cent of the step now; empty for no bar.
        ends: The range in per cent of the step now.
        why: Why no number can be given.
    """

    after: str
    label: str
    saving: str = ""
    range: str = ""
    how: str = ""
    bar: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    why: str = ""


class Evidence(NamedTuple):
    """One line of evidence, and the interval that it names."""

    text: str
    span: Span | None = None


class Entry(NamedTuple):
    """A card: a finding, an issue or a change.

    Attributes:
        word: Its first word, such as "smaller".
        note: Where it is, or the numbers behind its name.
        headline: A sentence; a text for the terminal has it only where there is no name.
        lines: Further sentences for all forms.
        severity: problem, warning or note; empty for none.
        evidence: What shows it; behind a click.
        anchor: Its anchor on a page; empty for none.
        effect: What fixing it does to a step; None where that is no time.
        cost: Pairs of a label and a value: its times.
        also: Place and times of the same finding on other GPUs.
        measured: What a measured fix saves, in a sentence; empty where none was measured.
        place: Module and line of Python; empty where that is not known.
        code: The change as code; empty where no few lines make it.
        span: Its longest evidence in time; None where no interval shows it.
        source: Anchor and title of the section that holds its numbers; empty for none.
    """

    word: str
    title: str = ""
    note: str = ""
    headline: str = ""
    lines: tuple[str, ...] = ()
    advice: str = ""
    severity: str = ""
    evidence: tuple[Evidence, ...] = ()
    anchor: str = ""
    rule: str = ""
    effect: Effect | None = None
    cost: tuple[tuple[str, str], ...] = ()
    also: tuple[tuple[str, str], ...] = ()
    measured: str = ""
    place: str = ""
    code: "tuple[CodeChange, ...]" = ()
    span: Span | None = None
    source: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class Entries:
    """Findings, issues or changes of one kind.

    Attributes:
        noun: What more of them are.
        most: Largest number of them in text and in Markdown.
        is_numbered: Whether their order says something.
        advised: Forms that say what to do.
    """

    kind: ClassVar[str] = "entries"
    entries: tuple[Entry, ...]
    noun: str = ""
    most: tuple[int, int] = (5, 5)
    is_numbered: bool = False
    advised: frozenset[Form] = PAGE
    forms: frozenset[Form] = EVERYWHERE

    def cut(self, form: Literal["text", "markdown"]) -> tuple[tuple[Entry, ...], str]:
        """Return the first entries, and how many more there are; empty for none."""
        most = self.most[form == "markdown"]
        rest = len(self.entries) - most
        return self.entries[:most], f"{rest} more {self.noun}" if rest > 0 else ""


@dataclass(frozen=True, slots=True)
class Pictures:
    """Drawings side by side, where there is room; ``wide`` ones take what a narrow one beside them leaves."""

    kind: ClassVar[str] = "pictures"
    pictures: tuple[Picture, ...]
    forms: frozenset[Form] = PAGE
    is_wide: bool = False


class Bar(NamedTuple):
    """A length of time as a bar.

    Attributes:
        amount: Its length as text.
        range: The range of its length as text; empty for none.
        ends: The range in per cent of the width; empty for none.
    """

    name: str
    amount: str
    parts: "tuple[LegendRow, ...]"
    range: str = ""
    ends: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hero:
    """The answer as bars on one scale: now and then, or one run and the other.

    Attributes:
        bars: The bars; the first one has a legend.
        sure: How sure the numbers are: words and the anchor of how they are known; empty for nothing.
        notes: Sentences: what the bars leave out.
    """

    kind: ClassVar[str] = "hero"
    bars: tuple[Bar, ...]
    sure: tuple[str, str] = ("", "")
    notes: tuple[str, ...] = ()
    forms: frozenset[Form] = PAGES


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars with one legend; a text for the terminal has the legend where it has amounts."""

    kind: ClassVar[str] = "bars"
    bars: tuple[Bar, ...]
    legend: "tuple[LegendRow, ...]" = ()
    with_amounts: bool = False
    forms: frozenset[Form] = PAGE


class DrawnStep(NamedTuple):
    """A step that the script draws.

    Attributes:
        side: Which of the steps it is.
        name: What ran.
        note: The step in words.
        data: The timeline of the step alone.
        span: Its start and end, ns since capture start.
        inferred: Whether its phases are inferred.
    """

    side: str
    name: str
    note: str
    data: "TimelineData"
    span: tuple[int, int]
    inferred: bool


@dataclass(frozen=True, slots=True)
class DrawnSteps:
    """Steps one above the other."""

    kind: ClassVar[str] = "steps"
    steps: tuple[DrawnStep, ...]
    forms: frozenset[Form] = PAGE


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        name: Its name in JSON and CSV; empty for one that cannot be sorted or copied.
        unit: Unit of its values, ``text``, or ``picture``.
        raw: Its values, or pictures; None for one that is missing.
        cells: The values as text; empty where their unit says how they read.
        links: Where each cell leads; empty for nowhere.
        tags: A word behind each cell; empty for none.
        spans: The interval that each row is about; empty for none.
        more: Lines that a click on each cell opens; empty for none.
        shades: How dark the ground of each cell is, from 0 to 5; empty for plain cells.
        forms: Forms that have it, where a table has no brief columns.
    """

    name: str
    label: str
    unit: ColumnUnit | Literal["picture"]
    raw: Sequence[Any]
    cells: Sequence[str] = ()
    links: Sequence[str] = ()
    tags: Sequence[str] = ()
    spans: Sequence[Span] = ()
    more: Sequence[Sequence[str]] = ()
    shades: Sequence[int] = ()
    forms: frozenset[Form] = EVERYWHERE

    @property
    def is_text(self) -> bool:
        """Return whether it holds texts, which are aligned left."""
        return self.unit == "text"


@dataclass(frozen=True, slots=True)
class Table:
    """A table, the most important rows first.

    Attributes:
        name: Its name; with that of the document it names a CSV.
        caption: What it shows.
        brief: Names of the columns in text and Markdown; empty for all.
        most: Largest number of rows of a form, where it is not the usual one; 0 leaves the table out.
        cut: A sentence about rows that it does not have.
        noun: What its rows are, where they are no parts of one time.
        folded: Forms in which a click opens it.
        is_titled: Whether its caption is shown; elsewhere the heading of its section says the same.
        of_programs: Whether the profiled program chose the texts of its first column.
        has_row_heads: Whether a text in the first cell of a row is its heading on the page.
        keeps_last: Whether the last rows are kept where it is cut.
        parents: Number of the row that each row is part of, which comes before it; -1 for none. The page folds such
            rows, and texts indent them. Empty for a table without them.
        row_attributes: Attributes of each row on the page.
    """

    kind: ClassVar[str] = "table"
    name: str
    caption: str
    columns: tuple[Column, ...]
    brief: tuple[str, ...] = ()
    most: Mapping[Form, int] = field(default_factory=dict)
    forms: frozenset[Form] = EVERYWHERE
    cut: str = ""
    noun: str = ""
    folded: frozenset[Form] = frozenset()
    is_titled: bool = False
    of_programs: bool = False
    has_row_heads: bool = True
    keeps_last: bool = False
    parents: tuple[int, ...] = ()
    row_attributes: tuple[Mapping[str, str], ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def row_count(self) -> int:
        """Return its number of rows."""
        return len(self.columns[0].raw) if self.columns else 0

    def shown(self, form: Form) -> Sequence[int]:
        """Return which rows a form has, in its order: a row is followed by those that are part of it."""
        most = min(self.most.get(form, MOST_ROWS[form]), self.row_count)
        if self.parents:
            return nested(self.parents[:most])
        return range(self.row_count - most, self.row_count) if self.keeps_last else range(most)

    @property
    def depths(self) -> tuple[int, ...]:
        """Return how many rows each row is inside of."""
        found: list[int] = []
        for parent in self.parents or [-1] * self.row_count:
            found.append(found[parent] + 1 if parent >= 0 else 0)
        return tuple(found)

    def columns_of(self, form: Form) -> list[rows.ShownColumn]:
        """Return the columns of a form as text; on the page, a column has one unit where it can.

        Columns of pictures are left out.
        """
        at, brief = self.shown(form), () if form in PAGES else self.brief
        named = [one for one in self.columns if not brief or one.name in brief]
        kept = [one for one in named if one.unit != "picture" and form in one.forms]
        plain = [(one.name, one.unit, [one.raw[row] for row in at]) for one in kept if one.unit != "picture"]
        written = rows.written(plain, aligned=form in PAGES)
        found = [
            shown._replace(label=own.label, **(_given(own, at) if own.cells else {}))
            for shown, own in zip(written, kept, strict=True)
        ]
        if self.parents and form in WRITTEN and found:
            depths = self.depths
            cells = [_INDENT * depths[row] + cell for row, cell in zip(at, found[0].cells, strict=True)]
            found[0] = found[0]._replace(cells=cells)
        return found

    def cut_in(self, form: Form) -> str:
        """Return which rows a form leaves out, in words; empty where it has all."""
        at, weight = self.shown(form), next((one for one in self.columns if one.name in WEIGHTS), None)
        times = None if weight is None else [value or 0 for value in weight.raw]
        part = times and (sum(times[row] for row in at), sum(times))
        # The time of a row is part of that of the row above it.
        said = rows.part_of(len(at), self.row_count, None if self.noun or self.parents else part or None)
        return "; ".join(filter(None, (said.replace("rows", self.noun or "rows"), self.cut)))


def nested(parents: Sequence[int]) -> list[int]:
    """Return rows so that each is followed by those that are part of it.

    Args:
        parents: The row that each is part of, which comes before it; -1 for none.
    """
    inside: dict[int, list[int]] = {}
    for row, parent in enumerate(parents):
        inside.setdefault(parent, []).insert(0, row)
    found, left = [], inside.get(-1, [])
    while left:
        row = left.pop()
        found.append(row)
        left += inside.get(row, [])
    return found


def _given(column: Column, at: Sequence[int]) -> dict[str, Any]:
    """Return what replaces the texts of a column; a column with texts of its own has no bars."""
    kind = "text" if column.is_text else "number"
    return {"unit": "", "kind": kind, "cells": [column.cells[row] for row in at]}


@dataclass(frozen=True, slots=True)
class PagePart:
    """What pages alone can show, by a template of its own.

    Attributes:
        kind: Name of the template.
        content: What the template reads.
    """

    kind: str
    content: Any
    forms: frozenset[Form] = PAGE


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks of a page that a click opens."""

    kind: ClassVar[str] = "fold"
    title: str
    blocks: "tuple[Block, ...]"
    look: str = ""
    forms: frozenset[Form] = PAGE


@dataclass(frozen=True, slots=True)
class Deferred:
    """Blocks that are made when a form asks for them, so that a text does not wait for what a page alone has."""

    kind: ClassVar[str] = "deferred"
    make: "Callable[[], Iterable[Block]]"
    forms: frozenset[Form] = PAGE


Block = Lines | Facts | Meanings | Entries | Pictures | Hero | Bars | DrawnSteps | Table | PagePart | Fold | Deferred


class DocumentSection(NamedTuple):
    """A part under a heading.

    Attributes:
        key: Its anchor.
        of: What its numbers are about.
        brief: Its name in the contents; empty for its heading.
        page_of: What its numbers are about in the words of a page, where these are others.
        group: Its group in the contents; a page folds all groups but the first one.
    """

    key: str
    title: str
    of: str
    blocks: tuple[Block, ...]
    brief: str = ""
    page_of: str | None = None
    group: str = ""
    forms: frozenset[Form] = EVERYWHERE


@dataclass(frozen=True, slots=True)
class Document:
    """A result without a form.

    Attributes:
        verdict: The answer, in some sentences.
        about: Pairs of a label and a value below the title.
        outcome: The answer in a word or two; empty where there is none.
        tone: The colour of the answer.
        lead: What belongs to the answer: advice, limits, issues.
        marker: A hidden first line of Markdown, by which a job finds its earlier comment.
        scripts: Scripts of its own, which its page adds.
        styles: Style sheets of its own, which its page adds.
        page_title: Its title on a page, where that is another one.
        page_about: The pairs below the title of a page, where they are others.
        source: Anchor of the finding that the verdict states; empty for none.
        closing: The last sentence of a slim page.
        is_explored: Whether its page lets the reader select and find things, and copy a summary.
    """

    command: str
    title: str
    verdict: str
    sections: tuple[DocumentSection, ...] = ()
    about: tuple[tuple[str, str], ...] = ()
    outcome: str = ""
    tone: Tone = ""
    lead: tuple[Block, ...] = ()
    marker: str = ""
    scripts: tuple[str, ...] = ()
    styles: tuple[str, ...] = ()
    page_title: str = ""
    page_about: tuple[tuple[str, str], ...] = ()
    source: str = ""
    closing: str = ""
    is_explored: bool = False

    def in_form(self, form: Form) -> Iterator[DocumentSection]:
        """Yield the sections of a form, with the blocks that it has."""
        for section in self.sections:
            blocks = blocks_of(section.blocks, form) if form in section.forms else ()
            if blocks:
                of = section.of if form in WRITTEN or section.page_of is None else section.page_of
                yield section._replace(blocks=blocks, of=of)


def blocks_of(blocks: Sequence[Block], form: Form) -> tuple[Block, ...]:
    """Return the blocks of a form; a block that holds nothing is in none."""
    found: list[Block] = []
    for one in blocks:
        if form not in one.forms:
            continue
        if isinstance(one, Deferred):
            found += blocks_of(tuple(one.make()), form)
        else:
            found.append(replace(one, blocks=blocks_of(one.blocks, form)) if isinstance(one, Fold) else one)
    return tuple(one for one in found if _holds(one, form))


def _holds(block: Block, form: Form) -> bool:
    """Return whether a block holds something; for most, that is in the field of its kind."""
    match block:
        case Table():
            return bool(block.shown(form))
        case PagePart():
            return bool(block.content)
        case Fold():
            return bool(block.blocks)
        case Bars():
            return bool(block.bars or block.legend)
        case Hero():
            return bool(block.bars)
    return bool(getattr(block, block.kind))


def frame_columns(frame: "pd.DataFrame") -> tuple[Column, ...]:
    """Return the columns of a table of a section; a start leads to the interval of its row."""
    found = tuple(Column(name, column_label(name), unit, values) for name, unit, values in rows.plain_columns(frame))
    if not {"start_ns", "end_ns"} <= set(frame.columns):
        return found
    spans = [Span(int(start), int(end)) for start, end in zip(frame["start_ns"], frame["end_ns"], strict=True)]
    return tuple(one._replace(spans=spans) if one.name == "start_ns" else one for one in found)


def columns(records: Sequence[Mapping[str, Any]], labels: Mapping[str, str]) -> tuple[Column, ...]:
    """Return rows as columns; the end of a column's name is its unit, as in all tables.

    Args:
        records: The rows; all have the same names.
        labels: Headings of columns that are not those of a report.
    """
    found = []
    for name in records[0] if records else ():
        values = [record[name] for record in records]
        known = [value for value in values if value is not None]
        unit = rows.unit_of(name, numeric=bool(known) and all(isinstance(value, int | float) for value in known))
        found.append(Column(name, labels.get(name) or column_label(name), unit, values))
    return tuple(found)


def shown(name: str, label: str, unit: ColumnUnit, values: Sequence[Any], text: Callable[[Any], str]) -> Column:
    """Return a column whose texts are made by a function."""
    return Column(name, label, unit, values, list(map(text, values)))


def times(name: str, label: str, ns: Sequence[int]) -> Column:
    """Return a column of times, each with its own unit."""
    return shown(name, label, "ns", ns, units.duration)


def table_section(
    key: str,
    title: str,
    of: str,
    records: Sequence[Mapping[str, Any]],
    labels: Mapping[str, str],
    *blocks: Block,
    **options: Any,  # noqa: ANN401 - those of a table
) -> DocumentSection:
    """Return a section with a table of rows.

    Args:
        key: Its anchor, and the name of the table.
        title: Its heading, and the caption of the table.
        of: What its numbers are about.
        records: The rows, as for ``columns``.
        labels: Headings, as for ``columns``.
        blocks: What comes before the table.
        options: Further fields of ``Table``.
    """
    return DocumentSection(key, title, of, (*blocks, Table(key, title, columns(records, labels), **options)))
