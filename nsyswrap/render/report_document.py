"""The report as a document: its answer in all forms, the first rows of its tables as text, and all of it on a page."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pandas as pd

from nsyswrap.base import units
from nsyswrap.model import Report, Section
from nsyswrap.render import (
    key_numbers,
    page_ledger,
    page_peak,
    page_ranks,
    page_sections,
    rank_rows,
    report_cards,
    report_hero,
    step_view,
    summary_model,
    vocabulary,
)
from nsyswrap.render.document import (
    EVERYWHERE,
    MARKDOWN,
    PAGE,
    PAGES,
    TERMINAL,
    WRITTEN,
    Block,
    Column,
    Deferred,
    Document,
    DocumentSection,
    Entries,
    Facts,
    Fold,
    Form,
    Lines,
    PagePart,
    Table,
    frame_columns,
)
from nsyswrap.render.escape import elide
from nsyswrap.render.section_heads import is_on_page_only
from nsyswrap.what_if.fixed_step import WIDEST_FACTOR

STYLES = ("ranks.css", "selection.css", "flame.css")
SCRIPTS = (
    *("summary_picture.js", "things.js", "selection.js", "selection_rows.js", "selection_panel.js", "palette.js"),
    "flame.js",
)
# Groups of the contents above those of the sections.
_ANSWER, _OVER_TIME = "Answer", "Over time"
# Cards in sight on a page; a slim page has no others.
_SHOWN_CARDS = 3
_TITLE_WIDTH = 80
# Columns of the table of phases about the GPU.
_OF_GPU = ("gpu_ns", "idle_ns", "kernel_count")
_SHOWN = ("ledger", "idle", "tensor_cores", "steps", "phases", "ranks")
_EXPOSED = "exposed "
_MOST_CARDS = (3, 6)
# From so many gaps in a step on, a fraction of one says nothing.
_FEW = 10
_MOST_RANKS = 8
_MOST_COLUMNS = 8
_MOST_PARTS = 4
# Of fewer steps, nine in ten are all.
_MANY = 10
_LEDGER, _IDLE = "GPU time breakdown", "Why the GPU was idle"


def document(report: Report) -> Document:
    """Return the report as a document."""
    length = units.duration(report.window.length_ns)
    window = f"{report.window.label}, {length}"
    gpus, started = summary_model.gpus_in_words(report), report.session.started_utc
    below = tuple(page_sections.sections(report))
    return Document(
        command="",
        title=report.capture.name,
        about=(("GPU", f"{gpus}; {summary_model.short(report.window)}, {length}"),),
        verdict=report.verdict,
        lead=tuple(_lead(report)),
        sections=(
            DocumentSection("step", "Typical step", "", (PagePart("step", _step(report)),), group=_ANSWER),
            _plan(report),
            _next(report),
            *page_peak.peak(report, _ANSWER),
            _key_numbers(report),
            _ranks(report),
            _ledger(report),
            *_idle(report),
            DocumentSection("numbers", "", "", (Lines(tuple(_numbers(report)), "bullets", WRITTEN),)),
            *_over_time(report),
            *_phases(report),
            *_gaps(report),
            *_kernels(report),
            *_unknown(report),
            *_elsewhere(report),
            *below,
        ),
        scripts=SCRIPTS,
        styles=STYLES,
        page_title=_title(report),
        page_about=(("GPU", gpus), ("window", window), *((("started", started),) if started else ())),
        source=report_cards.verdict_anchor(report),
        closing=f"This is the short form. The whole report has {_left_out(report, below)}"
        f"{report_cards.page_command(report)}",
        is_explored=True,
    )


def _lead(report: Report) -> Iterator[Block]:
    """Yield the answer as bars, what to do first, and line and module of that where they are known."""
    hero = report_hero.hero(report)
    if hero is not None:
        yield hero
    finding = next((each for each in report.findings if each.rule == report.verdict_rule), None)
    if finding is not None:
        yield Lines((f"Do first: {finding.advice}",), "headline", PAGES, links=(report_cards.verdict_anchor(report),))
        place, forms = summary_model.code_line(finding), PAGES | MARKDOWN
    else:
        operators, forms = report.section("operators"), EVERYWHERE
        line = None if operators is None else operators.fact("costliest_line")
        place = "" if line is None or not line.value else f"Launched at: {line.value}"
    yield Lines((f"{place}.",) if place else (), "fine", forms)


def _title(report: Report) -> str:
    """Return what was profiled: the script of the command, else its module or program, else the capture's name."""
    command = report.session.command
    modules = [word for option, word in pairwise(command) if option == "-m"]
    words = [word for word in command if not word.startswith("-")]
    scripts = [word for word in words if word.endswith(".py")]
    chosen = next(iter((*scripts, *modules, *words)), report.capture.name)
    return elide(chosen.rsplit("/", maxsplit=1)[-1] or chosen, _TITLE_WIDTH)


def _left_out(report: Report, below: Sequence[DocumentSection]) -> str:
    """Return what a slim page does not have."""
    findings = len(summary_model.finding_groups(report)) - _SHOWN_CARDS
    gpus = len(summary_model.ledgers(report)) - page_ledger.SLIM_GPUS
    sections = sum(section.key.startswith("section-") for section in below)
    more = [f"{findings} more finding{'s' * (findings > 1)}"] if findings > 0 else []
    more += [f"{gpus} more GPU{'s' * (gpus > 1)}"] if gpus > 0 else []
    return ", ".join([*more, "the timeline", "the longest gaps"]) + f" and {sections} more sections"


def _plan(report: Report) -> DocumentSection:
    """Return what to do: a card for each finding, those of the plan first."""
    found = report_cards.cards(report)
    texts, (first, more) = tuple(map(report_cards.written, found)), (found[:_SHOWN_CARDS], found[_SHOWN_CARDS:])
    blocks = (
        Lines(() if found else ("No rule found a problem.",)),
        Entries(texts, "on the page", _MOST_CARDS, is_numbered=True, advised=EVERYWHERE, forms=WRITTEN),
        Entries(first, is_numbered=True, forms=PAGES),
        Fold(f"{len(more)} more", (Entries(more, is_numbered=True, forms=PAGE),), "more-findings"),
        Lines(report.plan.notes, "fine"),
        Lines(report.notes, "notes"),
    )
    return DocumentSection(
        "plan", "What to do" if found else "", _order(report) if found else "", blocks, group=_ANSWER
    )


def _order(report: Report) -> str:
    """Return how the times of the cards belong together: those of the plan, and those of a change alone before it."""
    planned = [each.rule for each in report.plan.changes]
    if not planned:
        return "savings do not add up"
    is_first = report.findings[0].rule in planned
    return f"do these in order; each includes those above{'' if is_first else ', unless alone'}"


def _next(report: Report) -> DocumentSection:
    """Return commands for what a reader does next: see the line, check a change, share the capture."""
    has_cards = bool(report.findings)
    blocks = (
        *_command(report_cards.NO_LINE, report_cards.line_command(report) if has_cards else "", PAGES),
        *_command(report_cards.CHECK, report_cards.check(report) if report.plan.changes else "", PAGES | MARKDOWN),
        *_command(report_cards.TRY, report_cards.attempt(report) if report.plan.changes else "", PAGES),
        *_command(report_cards.SHARE, report_cards.share(report), PAGES),
    )
    return DocumentSection("next", "Check and share", "", blocks, group=_ANSWER)


def _command(words: str, command: str, forms: frozenset[Form]) -> tuple[Block, ...]:
    """Return a command below words about it; nothing without one."""
    return (Lines((words,), "fine", forms), Lines((command,), "code", forms)) if command else ()


def _step(report: Report) -> step_view.TypicalStep | None:
    step = step_view.typical_step(report)
    return step and step._replace(script_data=step_view.script_data(report))


def _key_numbers(report: Report) -> DocumentSection:
    numbers = PagePart("numbers", key_numbers.key_numbers(report), PAGES)
    return DocumentSection("key_numbers", "", "", (numbers,), group=_ANSWER)


def _ranks(report: Report) -> DocumentSection:
    """Return the ranks: the mean step of each in parts, and why others wait for it or for whom it waits."""
    section = report.section("ranks")
    found = summary_model.rows(section, "ranks")
    if section is None or not found:
        return DocumentSection("ranks", "Ranks", "", ())
    rows = rank_rows.in_order(found, _MOST_RANKS)[:_MOST_RANKS]
    rest, times = len(found) - len(rows), {"compute": "compute_ns", "copies": "copies_ns", "waiting": "wait_ns"}
    times |= {"transfer": "transfer_ns", "idle": "idle_ns"}
    columns = (
        Column("rank", "rank", "number", [int(row["rank"]) for row in rows]),
        *(Column(name, label, "ns", [int(row[name]) for row in rows]) for label, name in times.items()),
        Column("waited_for_ns", "others wait", "ns", [int(row["waited_for_ns"]) for row in rows], forms=MARKDOWN),
        Column("why", "why", "text", list(map(rank_rows.said, rows))),
    )
    cut = f"{rest} more on the page" if rest else ""
    table = Table("ranks", "Ranks", columns, most={"text": _MOST_RANKS}, forms=WRITTEN, cut=cut)
    measure = "mean step" if section.window.is_of_steps else "window"
    of = f"{measure}, {units.duration(int(rows[0]['length_ns']))}"
    blocks = (table, Deferred(lambda: page_ranks.ranks(report), PAGES))
    return DocumentSection("ranks", "Ranks", of, blocks, page_of=page_ledger.window_of(report), group=_ANSWER)


def _ledger(report: Report) -> DocumentSection:
    """Return where the time of each GPU went; without a GPU, a page says so."""
    found, section = summary_model.ledgers(report), report.section("ledger")
    tables, of = list[Block](), ""
    if found and section is not None:
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
        tables.append(Table("ledger", _LEDGER, columns, most={"text": _MOST_RANKS}, forms=WRITTEN, cut=cut))
        exposed = "; * exposed: no kernel runs" if any(column.label.endswith("*") for column in columns) else ""
        of = f"share of {summary_model.short(section.window)}{exposed}"
    both = [one for one in (section, report.section("idle")) if one is not None]
    blocks = (
        *tables,
        Deferred(lambda: page_ledger.gpus(report), PAGES),
        Facts(tuple(fact for one in both for fact in page_sections.facts(one)), PAGES),
        Lines(tuple(note for one in both for note in one.notes), "fine", PAGES),
    )
    page_of = page_ledger.window_of(report) if found else ""
    return DocumentSection("ledger", _LEDGER, of, blocks, "Breakdown", page_of=page_of, group=_ANSWER)


def _starred(label: str) -> str:
    """Return a heading with a star for "exposed", which would make the line too long."""
    return f"{label.removeprefix(_EXPOSED)}*" if label.startswith(_EXPOSED) else label


def _idle(report: Report) -> Iterator[DocumentSection]:
    found = summary_model.idle_by_phase(report, {one.device_id: one.window_ns for one in summary_model.ledgers(report)})
    section = report.section("idle")
    if not found or section is None:
        return
    shown, rest = found[:_MOST_PARTS], found[_MOST_PARTS:]
    more = f"{len(rest)} more take {units.duration(sum(one.ns for one in rest))}" if rest else ""
    with_gpu = len(report.gpus) > 1
    causes = [one.first_cause for one in shown]
    brief = Table("idle", _IDLE, _idle_columns(shown, causes, with_gpu=with_gpu), forms=TERMINAL, cut=more)
    columns = _idle_columns(found, [one.cause_names for one in found], with_gpu=with_gpu)
    whole = Table("idle", _IDLE, columns, forms=MARKDOWN, folded=MARKDOWN)
    yield DocumentSection("idle", _IDLE, f"share of {summary_model.short(section.window)}", (brief, whole))


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


def _numbers(report: Report) -> Iterator[str]:
    """Yield the tensor-core share and the steps."""
    tensor = next((one for one in key_numbers.key_numbers(report) if one.label == "tensor-core share"), None)
    if tensor is not None:
        yield f"{tensor.label}: {tensor.value} {tensor.note}"
    steps = report.section("steps")
    if steps is not None:
        no_median = key_numbers.median_step(report) is None and steps.notes
        yield f"steps: {' '.join(steps.notes) if no_median else _steps_in_words(report, steps)}"


def _steps_in_words(report: Report, section: Section) -> str:
    """Return how many steps there are, how long they take, and how even they are."""
    found = {fact.label: float(fact.value or 0) for fact in section.facts if not isinstance(fact.value, str)}
    low, high, late_ns, median = (found.get(f"{name}_ns", 0.0) for name in ("p05", "p95", "outlier_excess", "median"))
    measured, warm_up = (int(found.get(name, 0)) for name in ("measured_steps", "warm_up_steps"))
    of = "" if report.step.count in {None, measured} else " of all processes"
    words = [
        f"{units.counted(measured, 'measured step')}{of}",
        *([f"median {units.duration(median)}"] if median else []),
    ]
    if high > WIDEST_FACTOR * low:
        words.append(f"very uneven: 5 % under {units.duration(low)}, 5 % over {units.duration(high)}")
    elif units.duration(low) != units.duration(high):
        words.append(f"{'mostly' if measured < _MANY else 'nine in ten take'} {units.duration_range(low, high)}")
    if late_ns:
        words.append(
            f"{units.counted(int(found.get('outlier_count', 0)), 'outlier')}, {units.duration(late_ns)} too long"
        )
    if warm_up:
        words.append(f"warm-up: {units.counted(warm_up, 'step')}, {units.duration(found.get('warm_up_ns', 0))}")
    return "; ".join(words)


def _over_time(report: Report) -> Iterator[DocumentSection]:
    """Yield the parts of a page that show single moments."""
    timeline = (PagePart("timeline", report.timeline),)
    yield DocumentSection("timeline", "Timeline", "", timeline, group=_OVER_TIME, forms=PAGE)
    gaps = Deferred(lambda: page_ledger.gaps(report))
    yield DocumentSection("gaps", "Gaps", page_ledger.window_of(report), (gaps,), group=_OVER_TIME, forms=PAGE)


def _phases(report: Report) -> Iterator[DocumentSection]:
    section = report.section("phases")
    if section is None or "phases" not in section.tables:
        return
    table = section.tables["phases"]
    if report.section("ledger") is None:
        # Nothing is known of the GPU, which is not the same as nothing.
        table = table.drop(columns=list(_OF_GPU), errors="ignore")
    shown = Table("phases", "Phases", frame_columns(table), most={"text": 6}, forms=TERMINAL)
    yield DocumentSection("phases", "Phases", summary_model.short(section.window), (shown,))


def _gaps(report: Report) -> Iterator[DocumentSection]:
    table = report.rows("idle", "patterns")
    if table is None:
        return
    found = table.sort_values("idle_ns", ascending=False, kind="stable")
    often = ["" if pd.isna(each) else _often(each) for each in found["per_step"].tolist()]
    columns = (
        Column("why", "why", "text", [vocabulary.rule_name(str(each)) for each in found["rule"]]),
        Column("phase", "phase", "text", [str(each) for each in found["phase"]]),
        *([Column("device_id", "GPU", "number", found["device_id"].tolist())] if len(report.gpus) > 1 else []),
        Column("count", "gaps", "count", found["count"].tolist()),
        Column("median_ns", "median", "ns", found["median_ns"].astype(int).tolist()),
        *([Column("often", "how often", "text", often)] if any(often) else []),
    )
    shown = Table("gaps", "Gaps by reason", columns, most={"text": 3}, forms=TERMINAL)
    yield DocumentSection("gaps", "Gaps by reason", "the longest gaps are on the page", (shown,))


def _often(of_step: float) -> str:
    """Return how often there is something, of its number in a step: ``12 a step``, ``1 in 38 steps``."""
    if (each := round(1 / max(of_step, 1e-9))) > 1:
        return f"1 in {units.count(each)} steps"
    return f"{f'{of_step:.1f}'.removesuffix('.0') if of_step < _FEW else units.count(round(of_step))} a step"


def _kernels(report: Report) -> Iterator[DocumentSection]:
    section, found = report.section("kernels"), report.rows("kernels", "summary")
    if section is None or found is None:
        return
    columns = frame_columns(found)[:_MOST_COLUMNS]
    table = Table("kernels", section.title, columns, forms=MARKDOWN, folded=MARKDOWN, of_programs=True)
    yield DocumentSection("kernels", section.title, summary_model.short(section.window), (table,))


def _unknown(report: Report) -> Iterator[DocumentSection]:
    """Yield the sections that this module does not know, formatted by the suffixes of their columns."""
    for section in report.sections:
        if section.key in _SHOWN or is_on_page_only(section.key):
            continue
        tables = (
            Table(name, section.title, frame_columns(table), forms=TERMINAL) for name, table in section.tables.items()
        )
        facts = Lines((_facts(section),) if section.facts else (), forms=TERMINAL)
        yield DocumentSection(section.key, section.title, summary_model.short(section.window), (facts, *tables))


def _elsewhere(report: Report) -> Iterator[DocumentSection]:
    count = sum(is_on_page_only(section.key) for section in report.sections)
    if count:
        more = units.counted(count, "more section")
        words = f"The page and JSON hold {more}{report_cards.page_command(report)}"
        yield DocumentSection("elsewhere", "", "", (Lines((words,), "fine", TERMINAL),))


def _facts(section: Section) -> str:
    """Return a section's facts in one line; a count comes before its label."""
    shown = []
    for fact in section.facts:
        label, value = vocabulary.fact_label(fact.label), units.text(fact.value, fact.unit)
        if fact.unit == "count":
            shown.append(f"{value} {label.removesuffix('s') if fact.value == 1 else label}")
        else:
            shown.append(f"{label} {value}")
    return "; ".join(shown)
