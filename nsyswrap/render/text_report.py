"""The report for a terminal: one screen, the same words as the page, readable without colour."""

import io
from collections.abc import Iterator, Sequence
from typing import Literal

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nsyswrap import units
from nsyswrap.model import Finding, Report, Section, Severity
from nsyswrap.render import outline, rows, vocabulary
from nsyswrap.render.visible import elide, visible

_HEADING = "bold"
_MUTED = "dim"
_STYLES = {Severity.PROBLEM: "bold red", Severity.WARNING: "bold yellow", Severity.NOTE: "bold cyan"}
_TOLD_ELSEWHERE = ("kernels", "copies", "launches", "host_calls", "os_calls", "ranges", "capture_check")
_SHOWN = ("ledger", "idle", "tensor_cores", "steps", "phases")
_MOST_FINDINGS = 5
_MOST_CAUSES = 5
_MOST_PHASES = 6
_MOST_GAPS = 3
_MOST_ROWS = 5


def render(report: Report, *, width: int = 80, colour: bool = False) -> str:
    """Return the report as text for a terminal.

    Args:
        report: The report.
        width: Columns no line exceeds.
        colour: Whether to add terminal colours; nothing is said by colour alone.
    """
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
    console.print(Group(*_blocks(report)))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).rstrip() + "\n"


def _blocks(report: Report) -> Iterator[RenderableType]:
    yield _header(report)
    yield Text("\n").join([Text(""), Text(visible(report.verdict), style=_HEADING)])
    yield from (_line(f"Note: {note}", _MUTED) for note in report.notes)
    yield from _ledger(report)
    yield from _causes(report)
    yield from _findings(report)
    yield from _tensor_cores(report)
    yield from _steps(report)
    yield from _phases(report)
    yield from _gaps(report)
    yield from _unknown(report)
    yield from _elsewhere(report)


def _header(report: Report) -> Text:
    gpus = sorted({gpu.name for gpu in report.gpus})
    what = " + ".join(visible(name) for name in gpus) if gpus else "no GPU"
    count = f"{len(report.gpus)} x " if len(report.gpus) > 1 else ""
    window = report.window
    line = Text("nsyswrap  ", style=_MUTED)
    line.append(visible(report.capture.name), style=_HEADING)
    return line.append(f"  {count}{what}  {visible(window.label)}, {units.duration(window.length_ns)}")


def _ledger(report: Report) -> Iterator[RenderableType]:
    found = outline.ledgers(report)
    if not found:
        return
    section = report.section("ledger")
    yield _title("Where the GPU's time went", f"share of {section.window.label}" if section else "")
    table = _table(("GPU", "window", *(amount.part.label for amount in found[0].parts)))
    for one in found:
        shares = (units.share(amount.share) for amount in one.parts)
        table.add_row(str(one.device_id), units.duration(one.window_ns), *shares)
    yield _indented(table)


def _causes(report: Report) -> Iterator[RenderableType]:
    ledgers = outline.ledgers(report)
    found = outline.causes(report, {one.device_id: one.window_ns for one in ledgers})
    if not found:
        return
    section = report.section("idle")
    yield _title("Why it was idle", f"share of {section.window.label}" if section else "")
    table = _table(("cause", "phase", "GPU", "idle", "share", "gaps"), left=2)
    for one in found[:_MOST_CAUSES]:
        cells = (visible(one.cause), elide(one.phase, 24), str(one.device_id), units.duration(one.ns))
        table.add_row(*cells, units.share(one.share), units.count(one.gap_count))
    yield _indented(table)
    yield from _cut(len(found), _MOST_CAUSES, "causes", sum(o.ns for o in found[_MOST_CAUSES:]))


def _findings(report: Report) -> Iterator[RenderableType]:
    if not report.findings:
        yield _title("Findings", "none")
        return
    yield _title("Findings", "gains are upper bounds and do not add up")
    for place, finding in enumerate(report.findings[:_MOST_FINDINGS], 1):
        yield _finding(place, finding)
    rest = len(report.findings) - _MOST_FINDINGS
    if rest > 0:
        yield _line(f"  {rest} more findings in the page.", _MUTED)


def _finding(place: int, finding: Finding) -> RenderableType:
    where = "" if finding.device_id is None else f"GPU {finding.device_id}: "
    head = Text(f"{place} ").append(finding.severity.value.upper(), style=_STYLES[finding.severity])
    head.append(f"  {where}{visible(finding.headline)}")
    share = outline.finding_share(finding)
    cost = f"costs {units.duration(finding.cost_ns)}" + (f", {visible(share)}" if share else "")
    body = Text(f"{cost}; gain {units.gain(finding.gain_low_ns, finding.gain_high_ns)}", style=_MUTED)
    advice = Text(f"-> {visible(finding.advice)}")
    return Group(_indented(head, 0), _indented(body, 4), _indented(advice, 4))


def _tensor_cores(report: Report) -> Iterator[RenderableType]:
    section = report.section("tensor_cores")
    number = next((one for one in outline.key_numbers(report) if one.label == "tensor-core share"), None)
    if section is None or number is None:
        return
    yield _title("Tensor cores", "")
    yield _line(f"  {number.value} {number.note}")


def _steps(report: Report) -> Iterator[RenderableType]:
    section = report.section("steps")
    if section is None:
        return
    yield _title("Steps", section.window.label)
    yield _line("  " + _facts(section))


def _phases(report: Report) -> Iterator[RenderableType]:
    section = report.section("phases")
    if section is None or "phases" not in section.tables:
        return
    yield _title("Phases", section.window.label)
    yield from _generic(section, "phases", _MOST_PHASES)


def _gaps(report: Report) -> Iterator[RenderableType]:
    found, count, _ = outline.worst_gaps(report, _MOST_GAPS)
    if not found:
        return
    yield _title("Longest gaps", f"{len(found)} of {units.count(count)}")
    table = _table(("GPU", "start", "length", "causes"), left=0, last_left=True)
    for gap in found:
        causes = ", ".join(
            f"{visible(c.cause)} ({elide(c.phase, 16)}) {units.duration(c.ns)}" for c in gap.causes()[:2]
        )
        table.add_row(str(gap.device_id), units.point(gap.start_ns), units.duration(gap.length_ns), causes)
    yield _indented(table)


def _unknown(report: Report) -> Iterator[RenderableType]:
    """Yield the sections this module has no words for, by the suffixes of their columns."""
    for section in report.sections:
        if section.key in (*_SHOWN, *_TOLD_ELSEWHERE):
            continue
        yield _title(section.title, section.window.label)
        if section.facts:
            yield _line("  " + _facts(section))
        for name in section.tables:
            yield from _generic(section, name, _MOST_ROWS)


def _elsewhere(report: Report) -> Iterator[RenderableType]:
    titles = [section.title for section in report.sections if section.key in _TOLD_ELSEWHERE]
    if titles:
        yield Text("")
        yield _line(f"In the page and in JSON: {', '.join(titles)}.", _MUTED)


def _generic(section: Section, name: str, most: int) -> Iterator[RenderableType]:
    shown = rows.show(section.tables[name], most, aligned=False)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=_MUTED)
    for column in shown.columns:
        justify: Literal["left", "right"] = "left" if column.kind == "text" else "right"
        table.add_column(visible(column.label), justify=justify, overflow="ellipsis", no_wrap=True)
    for at in range(shown.row_count):
        table.add_row(*(elide(column.cells[at], 28) for column in shown.columns))
    yield _indented(table)
    if shown.cut:
        yield _line(f"  {shown.cut}", _MUTED)


def _facts(section: Section) -> str:
    shown = (f"{vocabulary.fact_label(fact.label)} {units.text(fact.value, fact.unit)}" for fact in section.facts)
    return "; ".join(shown)


def _cut(count: int, most: int, what: str, rest_ns: int) -> Iterator[RenderableType]:
    if count > most:
        yield _line(f"  {count - most} more {what} take {units.duration(rest_ns)}.", _MUTED)


def _table(labels: Sequence[str], *, left: int = 0, last_left: bool = False) -> Table:
    """Return an empty table; the first ``left`` columns, and at wish the last, are texts."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=_MUTED)
    for at, label in enumerate(labels):
        text = at < left or (last_left and at == len(labels) - 1)
        table.add_column(label, justify="left" if text else "right", vertical="bottom")
    return table


def _title(words: str, note: str) -> Text:
    line = Text("\n").append(visible(words).upper(), style=_HEADING)
    return line.append(f"  {visible(note)}", style=_MUTED) if note else line


def _line(words: str, style: str = "") -> Text:
    return Text(visible(words), style=style)


def _indented(words: RenderableType, by: int = 2) -> Padding:
    return Padding(words, (0, 0, 0, by))
