"""The report as Markdown for a comment on a pull request: under 8 KB, with folded parts and inert names."""

from collections.abc import Iterator

from nsyswrap import units
from nsyswrap.model import Finding, Report, Section
from nsyswrap.render import key_numbers, plan_view, rank_rows, rows, summary_model, vocabulary
from nsyswrap.render.markdown_writer import TEXT_WIDTH, details, escape, fitted, fold, name, pipe_table

_MOST_FINDINGS = 6
_MOST_EVIDENCE = 4
_MOST_ROWS = 8
_MOST_COLUMNS = 8


def render(report: Report) -> str:
    """Return the report as Markdown of at most 8 KB; where a part does not fit, a line says so."""
    return fitted(_parts(report))


def _parts(report: Report) -> Iterator[str]:
    """Yield the parts of the comment, the most important first."""
    yield f"### nsyswrap: {name(report.capture.name)}"
    yield f"**{escape(report.verdict)}**"
    gpus = summary_model.gpus_in_words(report)
    yield escape(f"{gpus[0].upper()}{gpus[1:]}, {report.window.label}, {units.duration(report.window.length_ns)}.")
    if report.notes:
        yield "\n".join(f"> {escape(note)}  " for note in report.notes)
    yield from _plan(report)
    yield from _ranks(report)
    yield from _ledger(report)
    yield from _key_numbers(report)
    yield from _findings(report)
    yield from _idle(report)
    kernels = report.section("kernels")
    if kernels is not None and "summary" in kernels.tables and len(kernels.tables["summary"]):
        yield _folded(kernels, "summary")


def _plan(report: Report) -> Iterator[str]:
    shown = plan_view.plan(report)
    if shown.rows:
        now, *changes = shown.rows
        lines = [_change(number, row) for number, row in enumerate(changes, 1)]
        lead = f"#### {plan_view.TITLE}\n\nNow {escape(now.time)} ({escape(shown.measure)})."
        yield lead + "\n\n" + "\n".join(lines)
    if shown.notes:
        yield escape(" ".join(shown.notes))
    if shown.check:
        yield f"{shown.check_words} {name(shown.check, TEXT_WIDTH)}"


def _change(number: int, row: plan_view.PlanRow) -> str:
    """Return one change of the plan: the step with it, and what to do."""
    faster = "".join(f", {words}" for words in (row.saving, row.speed) if words)
    action = f". {escape(row.action.advice)}" if row.action else ""
    return f"{number}. {escape(row.label)}: **{escape(row.time)}**{escape(faster)}{action}"


def _ranks(report: Report) -> Iterator[str]:
    """Yield the ranks: the mean step of each in parts, and why others wait for it or for whom it waits."""
    found = rank_rows.shown(report, _MOST_ROWS)
    if found is None:
        return
    columns = ("compute_ns", "copies_ns", "wait_ns", "transfer_ns", "idle_ns", "waited_for_ns")
    body = [
        (escape(rank_rows.said(row)), str(row["rank"]), *(units.duration(int(row[name])) for name in columns))
        for row in found.rows
    ]
    heads = ("", "rank", "compute", "copies", "waiting", "transfer", "idle", "others wait")
    rest = found.total - len(found.rows)
    note = f" {rest} more ranks are on the page." if rest else ""
    length = units.duration(int(found.rows[0]["length_ns"]))
    yield f"Ranks, {found.measure} of {length}.{note}\n\n{pipe_table(heads, body, 1)}"


def _ledger(report: Report) -> Iterator[str]:
    found = summary_model.ledgers(report)
    section = report.section("ledger")
    if not found or section is None:
        return
    rank = ("rank",) if any(one.rank is not None for one in found) else ()
    heads = ("GPU", *rank, "window", *(amount.part.label for amount in found[0].parts))
    body = [
        (
            *(str(one.device_id), *(("" if one.rank is None else str(one.rank)) for _ in rank)),
            *(units.duration(one.window_ns), *(units.share(amount.share) for amount in one.parts)),
        )
        for one in rank_rows.first_ledgers(report, found, _MOST_ROWS)
    ]
    lead = f"Shares of {escape(summary_model.short(section.window))}; each row adds up to its window."
    yield f"{lead}\n\n{pipe_table(heads, body, 0)}"


def _key_numbers(report: Report) -> Iterator[str]:
    known = ("GPU", "median step") if report.plan.changes else ("GPU",)
    lines = [
        f"- {one.label}: **{one.value}** {escape(one.note)}"
        for one in key_numbers.key_numbers(report)
        if not one.label.startswith(known)
    ]
    if lines:
        yield "\n".join(lines)


def _findings(report: Report) -> Iterator[str]:
    groups = summary_model.finding_groups(report)
    if not groups:
        yield "No rule found a problem."
        return
    yield f"#### Findings\n\n{vocabulary.SAVINGS_BRIEFLY}"
    for number, group in enumerate(groups[:_MOST_FINDINGS], 1):
        yield _finding(report, number, group)
    if len(groups) > _MOST_FINDINGS:
        yield f"{len(groups) - _MOST_FINDINGS} more findings are on the page."


def _finding(report: Report, number: int, group: tuple[Finding, ...]) -> str:
    first = group[0]
    where = "" if first.device_id is None else f"{summary_model.place(first)}: "
    lines = []
    for at, one in enumerate(group[:_MOST_ROWS]):
        times = summary_model.lost_and_saved(report, one)
        lines.extend([f"{summary_model.place(one) + ': ' if at else ''}{escape(times)}"] if times else [])
    lines.extend([f"{len(group) - _MOST_ROWS} more GPUs"] if len(group) > _MOST_ROWS else [])
    lines.append(f"Try this: {escape(first.advice)}")
    evidence = [line for one in group for line in one.evidence][:_MOST_EVIDENCE]
    lines.extend(["Evidence: " + "; ".join(escape(line, TEXT_WIDTH // 2) for line in evidence)] if evidence else [])
    summary = f"{number}. <strong>{first.severity.value}</strong> {where}{escape(first.headline)}"
    return fold(summary, "  \n".join(lines))


def _idle(report: Report) -> Iterator[str]:
    section = report.section("idle")
    found = summary_model.idle_by_phase(report, {one.device_id: one.window_ns for one in summary_model.ledgers(report)})
    if not found or section is None:
        return
    body = [
        (escape(vocabulary.rule_name(one.rule)), name(one.phase), escape(one.cause_names), str(one.device_id),
         units.duration(one.ns), units.share(one.share))
        for one in found[:_MOST_ROWS]
    ]  # fmt: skip
    cut = ""
    if len(found) > _MOST_ROWS:
        part = units.share_of(sum(one.ns for one in found[:_MOST_ROWS]), sum(one.ns for one in found))
        cut = f"{_MOST_ROWS} of {units.count(len(found))} rows, {part} of the time"
    table = pipe_table(("why", "phase", "cause", "GPU", "idle", "share"), body, 3)
    yield details(f"Why the GPU was idle, share of {summary_model.short(section.window)}", table, cut)


def _folded(section: Section, table: str) -> str:
    shown = rows.show(section.tables[table], _MOST_ROWS, aligned=False)
    columns = shown.columns[:_MOST_COLUMNS]
    texts = sum(1 for column in columns if column.kind == "text")
    order = sorted(columns, key=lambda column: column.kind != "text")
    cells = [[name(cell) if column.kind == "text" else escape(cell) for cell in column.cells] for column in order]
    body = pipe_table([escape(column.label) for column in order], list(zip(*cells, strict=True)), texts)
    return details(f"{section.title}, {summary_model.short(section.window)}", body, shown.cut)
