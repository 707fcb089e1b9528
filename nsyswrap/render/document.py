"""What a result says before it has a form: a verdict, then sections of lines, facts, tables and pictures.

A comparison, the totals of many captures, a sweep, a history and a gate each make one ``Document``; ``html_writer``,
``text_writer`` and ``markdown_writer`` turn any document into their form. Texts are raw here: the writers make names
that programs and users chose safe, each in the way of its form.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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

Form = Literal["html", "text", "markdown"]
EVERYWHERE: frozenset[Form] = frozenset({"html", "text", "markdown"})
PAGE: frozenset[Form] = frozenset({"html"})
TERMINAL: frozenset[Form] = frozenset({"text"})
Tone = Literal["", "good", "bad", "unsure"]
# Rows of a table in each form. Ours: a screen, a comment, and what a browser sorts at once.
MOST_ROWS: Mapping[Form, int] = MappingProxyType({"html": 100, "text": 5, "markdown": 8})


@dataclass(frozen=True, slots=True)
class Lines:
    """Sentences: paragraphs, small print, limits of the numbers, a list, or lines of code."""

    kind: ClassVar[str] = "lines"
    lines: tuple[str, ...]
    role: Literal["plain", "fine", "notes", "bullets", "code"] = "plain"
    forms: frozenset[Form] = EVERYWHERE


@dataclass(frozen=True, slots=True)
class Facts:
    """Pairs of a label and a value."""

    kind: ClassVar[str] = "facts"
    facts: tuple[tuple[str, str], ...]
    forms: frozenset[Form] = EVERYWHERE


class Entry(NamedTuple):
    """A finding or an issue.

    Attributes:
        word: Its first word, such as "smaller".
        title: Its name; empty where the headline says all.
        note: Numbers behind its name.
        headline: A sentence; a text for the terminal has it only where there is no name.
        lines: Further sentences for all forms.
        advice: What to do.
        severity: problem, warning or note; empty for none.
        evidence: What shows it; Markdown has it behind a click.
    """

    word: str
    title: str = ""
    note: str = ""
    headline: str = ""
    lines: tuple[str, ...] = ()
    advice: str = ""
    severity: str = ""
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entries:
    """Findings, issues or changes of one kind.

    Attributes:
        entries: The entries, the most important first.
        noun: What more of them are.
        most: Largest number of them in text and in Markdown.
        is_numbered: Whether their order says something.
        advised: Forms that say what to do.
        forms: Forms that have them.
    """

    kind: ClassVar[str] = "entries"
    entries: tuple[Entry, ...]
    noun: str
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
    """Drawings side by side, where there is room."""

    kind: ClassVar[str] = "pictures"
    pictures: tuple[Picture, ...]
    forms: frozenset[Form] = PAGE


class Bar(NamedTuple):
    """A length of time as a bar: its name, its length as text, and its parts."""

    name: str
    amount: str
    parts: "tuple[LegendRow, ...]"


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
        label: Its heading.
        unit: Unit of its values, ``text``, or ``picture``.
        raw: Its values, or pictures; None for one that is missing.
        cells: The values as text; empty where their unit says how they read.
        links: Where each cell leads; empty for nowhere.
        tags: A word behind each cell; empty for none.
        forms: Forms that have it, where a table has no brief columns.
    """

    name: str
    label: str
    unit: ColumnUnit | Literal["picture"]
    raw: Sequence[Any]
    cells: Sequence[str] = ()
    links: Sequence[str] = ()
    tags: Sequence[str] = ()
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
        columns: Its columns.
        brief: Names of the columns in text and Markdown; empty for all.
        most: Largest number of rows of a form, where it is not the usual one; 0 leaves the table out.
        cut: A sentence about rows that it does not have.
        folded: Forms in which a click opens it.
        is_titled: Whether its caption is shown; elsewhere the heading of its section says the same.
        of_programs: Whether the profiled program chose the texts of its first column.
        keeps_last: Whether the last rows are kept where it is cut.
        row_attributes: Attributes of each row on the page.
        attributes: Attributes of the table on the page.
    """

    kind: ClassVar[str] = "table"
    name: str
    caption: str
    columns: tuple[Column, ...]
    brief: tuple[str, ...] = ()
    most: Mapping[Form, int] = field(default_factory=dict)
    cut: str = ""
    folded: frozenset[Form] = frozenset()
    is_titled: bool = False
    of_programs: bool = False
    keeps_last: bool = False
    row_attributes: tuple[Mapping[str, str], ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def row_count(self) -> int:
        """Return its number of rows."""
        return len(self.columns[0].raw) if self.columns else 0

    @property
    def forms(self) -> frozenset[Form]:
        """Return the forms that have it."""
        return frozenset(form for form in EVERYWHERE if self.shown(form))

    def shown(self, form: Form) -> range:
        """Return which rows a form has."""
        most = min(self.most.get(form, MOST_ROWS[form]), self.row_count)
        return range(self.row_count - most, self.row_count) if self.keeps_last else range(most)

    def columns_of(self, form: Form) -> list[rows.ShownColumn]:
        """Return the columns of a form as text; on the page, a column has one unit where it can.

        Columns of pictures are left out.
        """
        at, brief = self.shown(form), self.brief if form != "html" else ()
        named = [one for one in self.columns if not brief or one.name in brief]
        kept = [one for one in named if one.unit != "picture" and form in one.forms]
        plain = [(one.name, one.unit, [one.raw[row] for row in at]) for one in kept if one.unit != "picture"]
        written = rows.written(plain, aligned=form == "html")
        return [
            shown._replace(label=own.label, **(_given(own, at) if own.cells else {}))
            for shown, own in zip(written, kept, strict=True)
        ]

    def cut_in(self, form: Form) -> str:
        """Return which rows a form leaves out, in words; empty where it has all."""
        at, weight = self.shown(form), next((one for one in self.columns if one.name in WEIGHTS), None)
        times = None if weight is None else [value or 0 for value in weight.raw]
        part = times and (sum(times[row] for row in at), sum(times))
        return "; ".join(filter(None, (rows.part_of(len(at), self.row_count, part or None), self.cut)))


def _given(column: Column, at: range) -> dict[str, Any]:
    """Return what replaces the texts of a column; a column with texts of its own has no bars."""
    kind = "text" if column.is_text else "number"
    return {"unit": "", "kind": kind, "cells": [column.cells[row] for row in at]}


Block = Lines | Facts | Entries | Pictures | Bars | DrawnSteps | Table


class DocumentSection(NamedTuple):
    """A part under a heading.

    Attributes:
        key: Its anchor.
        title: Its heading; empty for none, in text and Markdown alone.
        of: What its numbers are about.
        blocks: What it holds.
        brief: Its name in the contents; empty for its heading.
    """

    key: str
    title: str
    of: str
    blocks: tuple[Block, ...]
    brief: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """A result without a form.

    Attributes:
        command: The command that has this result.
        title: What it is about.
        verdict: The answer, in some sentences.
        sections: The evidence.
        about: Pairs of a label and a value below the title.
        outcome: The answer in a word or two; empty where there is none.
        tone: The colour of the answer.
        lead: What belongs to the answer: advice, limits, issues.
        marker: A hidden first line of Markdown, by which a job finds its earlier comment.
        scripts: Scripts of its own, which its page adds.
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

    def in_form(self, form: Form) -> Iterator[DocumentSection]:
        """Yield the sections of a form, with the blocks that it has."""
        for section in self.sections:
            if blocks := blocks_of(section.blocks, form):
                yield section._replace(blocks=blocks)


def blocks_of(blocks: Sequence[Block], form: Form) -> tuple[Block, ...]:
    """Return the blocks of a form; a block that holds nothing is in none."""
    return tuple(one for one in blocks if form in one.forms and _holds(one))


def _holds(block: Block) -> bool:
    """Return whether a block holds something, which the field of its kind has."""
    return bool(block.row_count if isinstance(block, Table) else getattr(block, block.kind))


def frame_columns(frame: "pd.DataFrame") -> tuple[Column, ...]:
    """Return the columns of a table of a section."""
    return tuple(Column(name, column_label(name), unit, values) for name, unit, values in rows.plain_columns(frame))


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


def times(name: str, label: str, ns: Sequence[int]) -> Column:
    """Return a column of times, each with its own unit."""
    return Column(name, label, "ns", ns, list(map(units.duration, ns)))


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
