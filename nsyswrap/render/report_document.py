"""The report for a terminal and for a comment on a pull request: its answer, and the first rows of its tables."""

from collections.abc import Iterator, Sequence

from nsyswrap.base import units
from nsyswrap.model import Finding, Report, Section
from nsyswrap.render import document as parts
from nsyswrap.render import key_numbers, plan_view, rank_rows, summary_model, vocabulary
from nsyswrap.render.document import EVERYWHERE, TERMINAL, Column, Document, Entries, Entry, Lines, Table, frame_columns
from nsyswrap.render.escape import elide
from nsyswrap.render.section_heads import is_on_page_only

_MARKDOWN: frozenset[parts.Form] = frozenset({"markdown"})
# Columns of the table of phases about the GPU.
_OF_GPU = ("gpu_ns", "idle_ns", "kernel_count")
_SHOWN = ("ledger", "idle", "tensor_cores", "steps", "phases", "ranks")
_LEFT_OUT = ("p05_ns", "p95_ns")
_EXPOSED = "exposed "
_MOST_FINDINGS = (3, 6)
_MOST_EVIDENCE = 4
_MOST_RANKS = 8
_MOST_COLUMNS = 8
_MOST_PARTS = 4
_CAUSE_WIDTH = 17
_IDLE = "Why the GPU was idle"


def document(report: Report) -> Document:
    """Return the report as a document."""
    window = f"{report.window.label}, {units.duration(report.window.length_ns)}"
    return Document(
        command="",
        title=report.capture.name,
        about=(("GPU", f"{summary_model.gpus_in_words(report)}; {window}"),),
        verdict=report.verdict,
        sections=(
            _plan(report),
            *_ranks(report),
            *_ledger(report),
            *_idle(report),
            _findings(report),
            parts.DocumentSection("numbers", "", "", (Lines(tuple(_numbers(report)), "bullets"),)),
            *_phases(report),
            *_gaps(report),
            *_kernels(report),
            *_unknown(report),
            *_elsewhere(report),
        ),
    )


def _plan(report: Report) -> parts.DocumentSection:
    shown = plan_view.plan(report)
    now, changes = (shown.rows[0], shown.rows[1:]) if shown.rows else (None, ())
    of = "" if now is None else f"{now.time} {now.label}: {shown.measure}"
    entries = tuple(
        Entry(
            row.time,
            row.label,
            headline=", ".join(filter(None, (row.saving, row.speed))),
            advice=row.action.advice if row.action else "",
        )
        for row in changes
    )
    check = (shown.check_words,) if shown.check else ()
    blocks = (
        Entries(entries, "changes", (len(entries),) * 2, is_numbered=True, advised=_MARKDOWN),
        Lines(shown.notes),
        Lines(check, forms=_MARKDOWN),
        Lines((shown.check,) if check else (), "code", _MARKDOWN),
        Lines(report.notes, "notes"),
    )
    return parts.DocumentSection("plan", plan_view.TITLE if entries else "", of, blocks)


def _ranks(report: Report) -> Iterator[parts.DocumentSection]:
    """Yield the ranks: the mean step of each in parts, and why others wait for it or for whom it waits."""
    found = rank_rows.shown(report, _MOST_RANKS)
    if found is None:
        return
    rest, times = found.total - len(found.rows), {"compute": "compute_ns", "copies": "copies_ns", "waiting": "wait_ns"}
    times |= {"transfer": "transfer_ns", "idle": "idle_ns"}
    columns = (
        Column("rank", "rank", "number", [int(row["rank"]) for row in found.rows]),
        *(Column(name, label, "ns", [int(row[name]) for row in found.rows]) for label, name in times.items()),
        Column(
            "waited_for_ns", "others wait", "ns", [int(row["waited_for_ns"]) for row in found.rows], forms=_MARKDOWN
        ),
        Column("why", "why", "text", list(map(rank_rows.said, found.rows))),
    )
    table = Table("ranks", "Ranks", columns, most={"text": _MOST_RANKS}, cut=f"{rest} more on the page" if rest else "")
    yield parts.DocumentSection(
        "ranks", "Ranks", f"{found.measure}, {units.duration(int(found.rows[0]['length_ns']))}", (table,)
    )


def _ledger(report: Report) -> Iterator[parts.DocumentSection]:
    found, section = summary_model.ledgers(report), report.section("ledger")
    if not found or section is None:
        return
    shown = rank_rows.first_ledgers(report, found, _MOST_RANKS)
    rest = len(found) - len(shown)
    ranks = [one.rank for one in shown]
    columns = (
        Column("device_id", "GPU", "number", [one.device_id for one in shown]),
        *([Column("rank", "rank", "number", ranks)] if any(rank is not None for rank in ranks) else []),
        Column("window_ns", "window", "ns", [one.window_ns for one in shown]),
        *(
            Column(amount.part.key, _starred(amount.part.label), "share", [one.parts[at].share for one in shown])
            for at, amount in enumerate(found[0].parts)
        ),
    )
    cut = f"{rest} more on the page" if rest else ""
    table = Table("ledger", "GPU time breakdown", columns, most={"text": _MOST_RANKS}, cut=cut)
    exposed = "; * exposed: no kernel runs" if any(column.label.endswith("*") for column in columns) else ""
    of = f"share of {summary_model.short(section.window)}{exposed}"
    yield parts.DocumentSection("ledger", "GPU time breakdown", of, (table,))


def _starred(label: str) -> str:
    """Return a heading with a star for "exposed", which would make the line too long."""
    return f"{label.removeprefix(_EXPOSED)}*" if label.startswith(_EXPOSED) else label


def _idle(report: Report) -> Iterator[parts.DocumentSection]:
    found = summary_model.idle_by_phase(report, {one.device_id: one.window_ns for one in summary_model.ledgers(report)})
    section = report.section("idle")
    if not found or section is None:
        return
    shown, rest = found[:_MOST_PARTS], found[_MOST_PARTS:]
    more = f"{len(rest)} more take {units.duration(sum(one.ns for one in rest))}" if rest else ""
    with_gpu = len(report.gpus) > 1
    causes = [elide(one.cause_names, _CAUSE_WIDTH) for one in shown]
    brief = Table("idle", _IDLE, _idle_columns(shown, causes, with_gpu=with_gpu), most={"markdown": 0}, cut=more)
    columns = _idle_columns(found, [one.cause_names for one in found], with_gpu=with_gpu)
    whole = Table("idle", _IDLE, columns, most={"text": 0}, folded=_MARKDOWN)
    yield parts.DocumentSection("idle", _IDLE, f"share of {summary_model.short(section.window)}", (brief, whole))


def _idle_columns(
    found: Sequence[summary_model.IdlePart], causes: Sequence[str], *, with_gpu: bool
) -> tuple[Column, ...]:
    return (
        Column("why", "why", "text", [vocabulary.rule_name(one.rule) for one in found]),
        Column("phase", "phase", "text", [one.phase for one in found]),
        *([Column("device_id", "GPU", "number", [one.device_id for one in found])] if with_gpu else []),
        Column("idle_ns", "idle", "ns", [one.ns for one in found]),
        Column("share", "share", "share", [one.share for one in found]),
        Column("cause_text", "cause", "text", causes),
    )


def _findings(report: Report) -> parts.DocumentSection:
    groups = summary_model.finding_groups(report)
    entries = tuple(_entry(report, group) for group in groups)
    none = Lines(() if entries else ("No rule found a problem.",))
    of = "by predicted saving; savings do not add up" if entries else ""
    listed = Entries(entries, "on the page", _MOST_FINDINGS, is_numbered=True, advised=EVERYWHERE)
    return parts.DocumentSection("findings", "Findings", of, (none, listed))


def _entry(report: Report, group: tuple[Finding, ...]) -> Entry:
    """Return a finding; on further GPUs it takes one line each."""
    first = group[0]
    where = "" if first.device_id is None else f"{summary_model.place(first)}: "
    times = [(summary_model.lost_and_saved(report, one), summary_model.place(one)) for one in group]
    lines = [time for time, _ in times[:1] if time]
    lines += [f"{place}: {time}" for time, place in times[1:_MOST_RANKS]]
    lines += [f"{len(times) - _MOST_RANKS} more GPUs"] if len(times) > _MOST_RANKS else []
    evidence = [line for one in group for line in one.evidence if line not in first.lines][:_MOST_EVIDENCE]
    return Entry(
        first.severity.value,
        headline=f"{where}{first.headline}",
        lines=(*lines, *first.lines),
        advice=first.advice,
        severity=first.severity.value,
        evidence=tuple(evidence),
    )


def _numbers(report: Report) -> Iterator[str]:
    """Yield the tensor-core share and the steps."""
    tensor = next((one for one in key_numbers.key_numbers(report) if one.label == "tensor-core share"), None)
    if tensor is not None:
        yield f"{tensor.label}: {tensor.value} {tensor.note}"
    steps = report.section("steps")
    if steps is not None:
        no_median = key_numbers.median_step(report) is None and steps.notes
        yield f"steps: {' '.join(steps.notes) if no_median else _facts(steps)}"


def _phases(report: Report) -> Iterator[parts.DocumentSection]:
    section = report.section("phases")
    if section is None or "phases" not in section.tables:
        return
    table = section.tables["phases"]
    if report.section("ledger") is None:
        # Nothing is known of the GPU, which is not the same as nothing.
        table = table.drop(columns=list(_OF_GPU), errors="ignore")
    shown = Table("phases", "Phases", frame_columns(table), most={"text": 6, "markdown": 0})
    yield parts.DocumentSection("phases", "Phases", summary_model.short(section.window), (shown,))


def _gaps(report: Report) -> Iterator[parts.DocumentSection]:
    found = summary_model.gap_patterns(report)
    if not found:
        return
    often = [one.often for one in found]
    columns = (
        Column("why", "why", "text", [vocabulary.rule_name(one.rule) for one in found]),
        Column("phase", "phase", "text", [one.phase for one in found]),
        *([Column("device_id", "GPU", "number", [one.device_id for one in found])] if len(report.gpus) > 1 else []),
        Column("count", "gaps", "count", [one.count for one in found]),
        Column("median_ns", "median", "ns", [one.median_ns for one in found]),
        *([Column("often", "how often", "text", often)] if any(often) else []),
    )
    table = Table("gaps", "Gaps by reason", columns, most={"text": 3, "markdown": 0})
    yield parts.DocumentSection("gaps", "Gaps by reason", "the longest gaps are on the page", (table,))


def _kernels(report: Report) -> Iterator[parts.DocumentSection]:
    section = report.section("kernels")
    if section is None or "summary" not in section.tables:
        return
    columns = frame_columns(section.tables["summary"])[:_MOST_COLUMNS]
    table = Table("kernels", section.title, columns, most={"text": 0}, folded=_MARKDOWN, of_programs=True)
    yield parts.DocumentSection("kernels", section.title, summary_model.short(section.window), (table,))


def _unknown(report: Report) -> Iterator[parts.DocumentSection]:
    """Yield the sections that this module does not know, formatted by the suffixes of their columns."""
    for section in report.sections:
        if section.key in _SHOWN or is_on_page_only(section.key):
            continue
        tables = (
            Table(name, section.title, frame_columns(table), most={"markdown": 0})
            for name, table in section.tables.items()
        )
        facts = Lines((_facts(section),) if section.facts else (), forms=TERMINAL)
        yield parts.DocumentSection(section.key, section.title, summary_model.short(section.window), (facts, *tables))


def _elsewhere(report: Report) -> Iterator[parts.DocumentSection]:
    count = sum(is_on_page_only(section.key) for section in report.sections)
    if count:
        more = units.counted(count, "more section")
        words = f"The page and JSON hold {more}: kernels, copies, calls and the rest."
        yield parts.DocumentSection("elsewhere", "", "", (Lines((words,), "fine", TERMINAL),))


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
