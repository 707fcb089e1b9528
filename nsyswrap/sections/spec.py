"""The definition of a section: its name, its place, what it needs, its words, and how it is made."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pandas as pd

from nsyswrap.base.intervals import Window
from nsyswrap.base.units import ColumnUnit
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Fact, Finding, Section
from nsyswrap.trace.tables import TableSpec

STATISTICS = "count total_ns mean_ns median_ns min_ns max_ns stddev_ns share"
"""Columns of statistics by name, in each table that has them."""


class PageGroup(StrEnum):
    """The groups of sections on the page, with their titles, in order."""

    GPU = "GPU"
    PROGRAM = "Program and CPU"
    ABOUT = "About this report"


class Kind(StrEnum):
    """What a column holds; the value says it in words."""

    TEXT = "texts"
    WHOLE = "whole numbers"
    NUMBER = "numbers"
    FLAG = "true or false"


class About(StrEnum):
    """What a section is about.

    Attributes:
        RECORDING: The recorded run, with what the profiler cost.
        PROGRAM: The program as it runs alone.
        BOTH: Its tables are about the recording and its findings about the program.
    """

    RECORDING = "recording"
    PROGRAM = "program"
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionHead:
    """The name of a section, its place, and its words.

    Attributes:
        place: Its place in the report, and among the sections of its group: the lowest number first.
        group: The group in which the page shows it.
        on_page_only: Whether the report for a terminal leaves it out, as most.
        columns: Names of the columns of each table in report.json, separated by spaces.
        some_columns: Columns that a table has in some reports, in the same form.
        kinds: Names of columns of this section alone that are texts, flags or numbers. Others are whole numbers, and
            those that end in ``_share`` numbers.
        units: Units of columns whose names do not end in them.
        captions: Headings of its tables, where the name of the table does not say it.
        headings: Headings of columns of this section alone, where the name of the column does not say it.
        facts: The words for the labels of its facts.
    """

    key: str
    title: str
    place: int
    group: PageGroup = PageGroup.PROGRAM
    on_page_only: bool = True
    columns: Mapping[str, str] = field(default_factory=dict)
    some_columns: Mapping[str, str] = field(default_factory=dict)
    kinds: Mapping[Kind, str] = field(default_factory=dict)
    units: Mapping[str, ColumnUnit] = field(default_factory=dict)
    captions: Mapping[str, str] = field(default_factory=dict)
    headings: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)

    def made(
        self,
        window: Window,
        facts: tuple[Fact, ...] = (),
        tables: Mapping[str, pd.DataFrame] | None = None,
        findings: tuple[Finding, ...] = (),
        notes: tuple[str, ...] = (),
    ) -> Section:
        """Return the section of a report, with its key and title."""
        return Section(self.key, self.title, window, facts, tables or {}, findings, notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionSpec(SectionHead):
    """One section of the report and the function that makes it.

    Attributes:
        run: Returns the section; a pure function. Its parameters name the values that it reads: ``context``,
            ``window``, and those of ``report.VALUES``, such as ``attributions`` and ``simulation``.
        about: Whether it is about the recording or about the program.
        needs: Tables that must have rows; without them the section is left out and the report says so.
        reads: The tables that it reads among those that steps, phases and operations do not need; None for all of
            them, as for sections that read the attribution of idle time or count the rows of all tables.
        of_operations: Whether it needs GPU operations; without any, the section is left out.
        of_excerpt: Whether it is made only where the trace holds a part of a capture.
        applies: Whether it is made for a trace that has all these; None for always.
        of_program: Names of tables and facts that are about the program where it is about both.
    """

    run: Callable[..., Section]
    about: About = About.RECORDING
    needs: tuple[TableSpec, ...] = ()
    reads: tuple[TableSpec, ...] | None = None
    of_operations: bool = False
    of_excerpt: bool = False
    applies: Callable[[TraceContext], bool] | None = None
    of_program: frozenset[str] = frozenset()
