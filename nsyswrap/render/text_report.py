"""The report for a terminal: one screen, in the words of the page, readable without colour."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nsyswrap import units
from nsyswrap.model import Finding, Report, Section, Severity
from nsyswrap.render import key_numbers, plan_view, rank_rows, rows, summary_model, vocabulary
from nsyswrap.render.blocks_as_text import printed
from nsyswrap.render.distinct_names import shorten_all
from nsyswrap.render.escape import ELISION, elide, shorten, visible
from nsyswrap.render.section_heads import is_on_page_only

_EXPOSED = "exposed "
_HEADING = "bold"
_MUTED = "dim"
_STYLES = {Severity.PROBLEM: "bold red", Severity.WARNING: "bold yellow", Severity.NOTE: "bold cyan"}
# Columns of the table of phases about the GPU.
_OF_GPU = ("gpu_ns", "idle_ns", "kernel_count")
_SHOWN = ("ledger", "idle", "tensor_cores", "steps", "phases", "ranks")
_LEFT_OUT = ("p05_ns", "p95_ns")
_MOST_FINDINGS = 3
_MOST_PARTS = 4
_MOST_PHASES = 6
_MOST_GAPS = 3
_MOST_ROWS = 5
_MOST_RANKS = 8
_REASON_WIDTH = 25
_NAME_WIDTH = 36
_RULE_WIDTH = 30
_CAUSE_WIDTH = 17
_NUMBER_WIDTH = 7
_PHASE_WIDTH = 12


def render(report: Report, *, width: int = 80, colour: bool = False) -> str:
    """Return the report as text for a terminal.

    Args:
        report: The report.
        width: Largest line width in columns.
        colour: Whether to add terminal colours; no information is in the colour alone.
    """
    return printed(_blocks(report), width=width, colour=colour)


def _blocks(report: Report) -> Iterator[RenderableType]:
    yield from _header(report)
    yield Text("\n").append(visible(report.verdict), style=_HEADING)
    yield from _plan(report)
    yield from (_line(f"Note: {note}", _MUTED) for note in report.notes)
    yield from _ranks(report)
    yield from _ledger(report)
    yield from _idle(report)
    yield from _findings(report)
    yield from _key_numbers(report)
    yield from _phases(report)
    yield from _gaps(report)
    yield from _unknown(report)
    yield from _elsewhere(report)


def _header(report: Report) -> Iterator[Text]:
    line = Text("nsyswrap  ", style=_MUTED)
    gpus = summary_model.gpus_in_words(report)
    yield line.append(visible(report.capture.name), style=_HEADING).append(f"  {gpus}")
    yield _line(f"{report.window.label}, {units.duration(report.window.length_ns)}", _MUTED)


def _plan(report: Report) -> Iterator[RenderableType]:
    shown = plan_view.plan(report)
    if shown.rows:
        now, *changes = shown.rows
        yield _title(plan_view.TITLE, f"{now.time} {now.label}: {shown.measure}")
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        for row in changes:
            table.add_row(row.time, row.label)
        yield _indented(table)
    yield from (_indented(_line(note, _MUTED)) for note in shown.notes)


def _ranks(report: Report) -> Iterator[RenderableType]:
    """Yield the ranks: the mean step of each in parts, and why others wait for it or for whom it waits."""
    found = rank_rows.shown(report, _MOST_RANKS)
    if found is None:
        return
    rest = found.total - len(found.rows)
    more = f"; {rest} more on the page" if rest else ""
    yield _title("Ranks", f"{found.measure}, {units.duration(found.rows[0]['length_ns'])}{more}")
    table = _table(())
    for head in ("rank", "compute", "copies", "waiting", "transfer", "idle"):
        table.add_column(head, justify="right", no_wrap=True, min_width=max(len(head), 4 if head == "rank" else 7))
    table.add_column("", no_wrap=True, overflow="ellipsis")
    for row in found.rows:
        columns = ("compute_ns", "copies_ns", "wait_ns", "transfer_ns", "idle_ns")
        times = (units.duration(int(row[name])) for name in columns)
        said = rank_rows.said(row)
        said = said if len(said) <= _REASON_WIDTH else rank_rows.said({**row, "phase": ""})
        table.add_row(str(row["rank"]), *times, elide(said, _REASON_WIDTH))
    yield _indented(table)


def _ledger(report: Report) -> Iterator[RenderableType]:
    found, section = summary_model.ledgers(report), report.section("ledger")
    if not found or section is None:
        return
    exposed = any(amount.part.label.startswith(_EXPOSED) for amount in found[0].parts)
    note = f"share of {summary_model.short(section.window)}" + ("; * exposed: no kernel runs" if exposed else "")
    note += f"; {len(found) - _MOST_RANKS} more on the page" if len(found) > _MOST_RANKS else ""
    yield _title("GPU time breakdown", note)
    labels = [amount.part.label for amount in found[0].parts]
    # The note explains the star, since the word "exposed" in each heading would make the line too long.
    heads = [f"{one.removeprefix(_EXPOSED)}*" if one.startswith(_EXPOSED) else one for one in labels]
    rank = ("rank",) if any(one.rank is not None for one in found) else ()
    table = _table(("GPU", *rank, "window", *heads))
    for one in rank_rows.first_ledgers(report, found, _MOST_RANKS):
        shares = (units.share(amount.share) for amount in one.parts)
        numbers = [] if not rank else ["" if one.rank is None else str(one.rank)]
        table.add_row(str(one.device_id), *numbers, units.duration(one.window_ns), *shares)
    yield _indented(table)


def _idle(report: Report) -> Iterator[RenderableType]:
    found = summary_model.idle_by_phase(report, {one.device_id: one.window_ns for one in summary_model.ledgers(report)})
    section = report.section("idle")
    if not found or section is None:
        return
    rest = found[_MOST_PARTS:]
    more = f"; {len(rest)} more take {units.duration(sum(one.ns for one in rest))}" if rest else ""
    yield _title("Why the GPU was idle", f"share of {summary_model.short(section.window)}{more}")
    yield _indented(_idle_table(found[:_MOST_PARTS], with_gpu=len(report.gpus) > 1))


def _idle_table(shown: Sequence[summary_model.IdlePart], *, with_gpu: bool) -> Table:
    """Return the parts of idle time; the cause of a part is shown where its rule is not the cause itself."""
    names = [shorten(vocabulary.rule_name(one.rule), _RULE_WIDTH) for one in shown]
    table = _table(())
    table.add_column("why", no_wrap=True)
    table.add_column("phase", no_wrap=True, min_width=_NUMBER_WIDTH)
    for head in (*(["GPU"] if with_gpu else []), "idle", "share"):
        table.add_column(head, justify="right", no_wrap=True, min_width=_NUMBER_WIDTH if head != "GPU" else 3)
    table.add_column("cause" if any(one.cause_names for one in shown) else "", no_wrap=True, overflow="ellipsis")
    for name, one in zip(names, shown, strict=True):
        gpu = [str(one.device_id)] if with_gpu else []
        cells = (name, elide(one.phase, _PHASE_WIDTH), *gpu, units.duration(one.ns), units.share(one.share))
        table.add_row(*cells, elide(one.cause_names, _CAUSE_WIDTH))
    return table


def _findings(report: Report) -> Iterator[RenderableType]:
    groups = summary_model.finding_groups(report)
    if not groups:
        yield _title("Findings", "none")
        return
    rest = len(groups) - _MOST_FINDINGS
    more = f"; {rest} more on the page" if rest > 0 else ""
    yield _title("Findings", f"by predicted saving; savings do not add up{more}")
    for number, group in enumerate(groups[:_MOST_FINDINGS], 1):
        yield _finding(report, number, group)


def _finding(report: Report, number: int, group: tuple[Finding, ...]) -> RenderableType:
    """Return a finding; on further GPUs it takes one line each, and its advice is cut at the first semicolon."""
    first, severity = group[0], group[0].severity
    where = "" if first.device_id is None else f"{summary_model.place(first)}: "
    head = Text(f"{number} ").append(severity.value.upper(), style=_STYLES[severity])
    times = [(summary_model.lost_and_saved(report, one), summary_model.place(one)) for one in group]
    lines = [Text(visible(time)) for time, _ in times[:1] if time]
    lines += [Text(f"{place}: {visible(time)}") for time, place in times[1:_MOST_RANKS]]
    lines += [Text(f"{len(times) - _MOST_RANKS} more GPUs")] if len(times) > _MOST_RANKS else []
    lines += [Text(visible(each)) for each in first.lines]
    clause, more, _ = visible(first.advice).partition(";")
    advice = [Text(f"Try this: {clause}{more and ELISION}")] if clause else []
    return Group(head.append(f"  {where}{visible(first.headline)}"), *(_indented(one) for one in [*lines, *advice]))


def _key_numbers(report: Report) -> Iterator[RenderableType]:
    tensor = next((one for one in key_numbers.key_numbers(report) if one.label == "tensor-core share"), None)
    steps = report.section("steps")
    if tensor is None and steps is None:
        return
    yield Text("")
    if tensor is not None:
        yield _labelled("TENSOR CORES", f"{tensor.value} {tensor.note}")
    if steps is not None:
        no_median = key_numbers.median_step(report) is None and steps.notes
        yield _labelled("STEPS", " ".join(steps.notes) if no_median else _facts(steps))


def _phases(report: Report) -> Iterator[RenderableType]:
    section = report.section("phases")
    if section is None or "phases" not in section.tables:
        return
    yield _title("Phases", summary_model.short(section.window))
    if report.section("ledger") is None:
        # Nothing is known of the GPU, which is not the same as nothing.
        table = section.tables["phases"].drop(columns=list(_OF_GPU), errors="ignore")
        section = replace(section, tables={"phases": table})
    yield from _generic(section, "phases", _MOST_PHASES)


def _gaps(report: Report) -> Iterator[RenderableType]:
    found = summary_model.gap_patterns(report)
    if not found:
        return
    rest = len(found) - _MOST_GAPS
    more = f"; {rest} more, and the longest gaps, on the page" if rest > 0 else ""
    yield _title("Gaps by reason", f"number and median length{more}")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for _ in range(2):
        table.add_column(justify="right", no_wrap=True)
    for one in found[:_MOST_GAPS]:
        gpu = f"GPU {one.device_id}: " if len(report.gpus) > 1 else ""
        reason = f"{gpu}{shorten(vocabulary.rule_name(one.rule), _RULE_WIDTH)} in {elide(one.phase, _PHASE_WIDTH)}"
        table.add_row(f"{units.count(one.count)} x", units.duration(one.median_ns), reason, one.often)
    yield _indented(table)


def _unknown(report: Report) -> Iterator[RenderableType]:
    """Yield the sections that this module does not know, formatted by the suffixes of their columns."""
    for section in report.sections:
        if section.key in _SHOWN or is_on_page_only(section.key):
            continue
        yield _title(section.title, summary_model.short(section.window))
        if section.facts:
            yield _line("  " + _facts(section))
        for name in section.tables:
            yield from _generic(section, name, _MOST_ROWS)


def _elsewhere(report: Report) -> Iterator[RenderableType]:
    count = sum(is_on_page_only(section.key) for section in report.sections)
    if count:
        yield Text("")
        more = "1 more section" if count == 1 else f"{count} more sections"
        yield _line(f"The page and JSON hold {more}: kernels, copies, calls and the rest.", _MUTED)


def _generic(section: Section, name: str, most: int) -> Iterator[RenderableType]:
    shown = rows.show(section.tables[name], most, aligned=False)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=_MUTED)
    for column in shown.columns:
        justify: Literal["left", "right"] = "left" if column.kind == "text" else "right"
        table.add_column(visible(column.label), justify=justify, overflow="ellipsis", no_wrap=True)
    columns = [shorten_all(column.cells, _NAME_WIDTH) for column in shown.columns]
    for at in range(shown.row_count):
        table.add_row(*(cells[at] for cells in columns))
    yield _indented(table)
    if shown.cut:
        yield _line(f"  {shown.cut}", _MUTED)


def _facts(section: Section) -> str:
    """Return a section's facts in one line; a count comes before its label."""
    shown = []
    for fact in section.facts:
        if fact.label in _LEFT_OUT:
            continue
        label, value = vocabulary.fact_label(fact.label), units.text(fact.value, fact.unit)
        if fact.unit == "count":
            shown.append(f"{value} {label.removesuffix('s') if fact.value == 1 else label}")
        else:
            shown.append(f"{label} {value}")
    return "; ".join(shown)


def _table(labels: Sequence[str]) -> Table:
    """Return an empty table of numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=_MUTED)
    for label in labels:
        table.add_column(label, justify="right", vertical="bottom")
    return table


def _title(words: str, note: str) -> Text:
    line = Text("\n").append(visible(words).upper(), style=_HEADING)
    return line.append(f"  {visible(note)}", style=_MUTED) if note else line


def _labelled(label: str, words: str) -> Table:
    """Return a line that starts with a heading."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_row(Text(label, style=_HEADING), Text(visible(words)))
    return table


def _line(words: str, style: str = "") -> Text:
    return Text(visible(words), style=style)


def _indented(words: RenderableType) -> Padding:
    return Padding(words, (0, 0, 0, 2))
