"""A comparison: step times, what changed, findings, what the plan promised, and what differs between the runs."""

import shlex
from collections.abc import Iterator, Sequence

from nsyswrap.base import units
from nsyswrap.base.json_codec import Tree, list_of, record_of
from nsyswrap.compare.comparison import (
    AmountChange,
    ChangeTable,
    Comparison,
    Estimate,
    FindingChange,
    FindingPair,
    MovedTime,
    Outcome,
    Side,
)
from nsyswrap.render import comparison_pictures, measured_hero, vocabulary
from nsyswrap.render.comparison_tables import (
    NOTABLE_SHARE,
    PARTS,
    changes,
    gpus_of,
    headline_of,
    intervals_of,
    least_of,
    lost_of,
    lost_words,
    moved,
    moved_of,
    one_run_each,
    scale_of,
    steps_of,
    tensor_words,
)  # fmt: skip
from nsyswrap.render.document import (
    EVERYWHERE,
    PAGE,
    TERMINAL,
    Block,
    Column,
    Document,
    DocumentSection,
    DrawnSteps,
    Entries,
    Entry,
    Hero,
    Lines,
    Pictures,
    Table,
    Tone,
    shown,
)  # fmt: skip
from nsyswrap.render.drawings import Picture, shape
from nsyswrap.render.issues import ISSUES, issue_entries
from nsyswrap.render.json_report import WINDOW, section_tree
from nsyswrap.render.measured_hero import MeasuredTime
from nsyswrap.render.summary_model import place
from nsyswrap.rules import rule_name

SCHEMA = "nsyswrap.comparison/3"
_TONES: dict[Outcome, Tone] = {Outcome.FASTER: "good", Outcome.SLOWER: "bad", Outcome.CANNOT_TELL: "unsure"}
_TABLES = (
    *("phases", "families", "kernels", "copies", "host_calls"),
    *("idle_in_phases", "phases_on_gpu", "copied"),
)


def document(comparison: Comparison) -> Document:
    """Return the comparison as a document."""
    sides = (("base", comparison.base), ("new", comparison.new))
    return Document(
        command="compare",
        title=f"{comparison.base.name} → {comparison.new.name}",
        about=tuple((word, f"{gpus_of(side)}, {steps_of(side)}") for word, side in sides),
        outcome=comparison.outcome.value,
        tone=_TONES.get(comparison.outcome, ""),
        verdict=comparison.verdict,
        lead=(
            *_hero(comparison),
            Lines((f"What helps: {comparison.hint}.",) if comparison.hint else ()),
            issue_entries(comparison.issues),
        ),
        sections=(
            *_plan(comparison),
            _pair(comparison),
            _step_time(comparison),
            _ledger(comparison),
            *_changed("scaling", comparison.table("scaling"), comparison),
            *_changed("moved", moved(comparison), comparison, Lines((PARTS,), "fine", PAGE)),
            _findings(comparison),
            *(each for key in _TABLES for each in _changed(f"table-{key}", comparison.table(key), comparison)),
            DocumentSection("quiet", "Small changes", "", (_quiet(comparison),)),
            DocumentSection("facts", "Facts of all sections", "", (_facts(comparison),)),
            DocumentSection("provenance", "What differs between the runs", "", (_provenance(comparison),)),
        ),
    )


def _hero(comparison: Comparison) -> tuple[Hero, ...]:
    """Return the step of both sides on one scale, where both have steps."""
    if not comparison.estimates:
        return ()
    first = comparison.estimates[0]
    new = first.change.map(lambda change: first.base_ns * (1 + change))
    times = MeasuredTime("base", first.base_ns), MeasuredTime("new", first.new_ns, new)
    return measured_hero.hero(*times, sure=f"measured, {first.label}")


def _step_time(comparison: Comparison) -> DocumentSection:
    sides, found = (comparison.base, comparison.new), comparison.estimates
    counts = [len(side.runs) if comparison.of_runs else side.step_count for side in sides]
    of = f"{counts[0]} and {counts[1]} {'runs' if comparison.of_runs else 'steps'}"
    legend = f"Grey: changes of less than {units.percent(comparison.options.find)}."
    if not found:
        return DocumentSection("steps", "Step time", "", ())
    drawn = comparison_pictures.intervals(found, comparison.options.find)
    changed = [one.change.point for one in found]
    columns = (
        Column("measure", "measure", "text", [one.label for one in found]),
        *(
            Column(name, name, "ns", [round(ns) for ns in times], list(map(units.duration, times)))
            for name, times in (("base", [one.base_ns for one in found]), ("new", [one.new_ns for one in found]))
        ),
        shown("change", "change", "share", changed, units.change),
        shown("times", "speed-up", "number", [one.times for one in found], "{:.2f} times".format),
        Column("interval", "95 % interval", "number", [one.change.low for one in found], list(map(_interval, found))),
        Column("", "less | more", "picture", drawn),
        Column("result", "result", "text", [one.outcome.value for one in found]),
    )
    brief = ("measure", "base", "new", "change", "interval", "result")
    blocks = (
        Table("steps", "Step time", columns, brief),
        Lines((one_run_each(comparison),) if one_run_each(comparison) else (), "fine", TERMINAL),
        Lines((intervals_of(comparison),), "fine", EVERYWHERE - TERMINAL),
        Lines((legend,), "fine", PAGE),
        Pictures(comparison_pictures.curves(comparison.base.steps.length, comparison.new.steps.length)),
    )
    return DocumentSection("steps", "Step time", of, blocks)


def _interval(estimate: Estimate) -> str:
    return " to ".join(map(units.change, estimate.change.ends))


def _ledger(comparison: Comparison) -> DocumentSection:
    table, words = comparison.table("ledger"), tensor_words(comparison)
    blocks: list[Block] = [comparison_pictures.ledger(table, comparison.table("idle"))]
    blocks += [] if table is None else [_changes(table, comparison)]
    blocks.append(Lines((f"Tensor cores: {words}.",) if words else ()))
    return DocumentSection("ledger", "GPU time breakdown", "" if table is None else table.of, tuple(blocks))


def _changes(table: ChangeTable, comparison: Comparison) -> Table:
    return changes(table, least_of(comparison, table), scale_of(comparison))


def _changed(key: str, table: ChangeTable | None, comparison: Comparison, *after: Block) -> Iterator[DocumentSection]:
    """Yield a table of changes where something changed."""
    if table is not None and (shown := _changes(table, comparison)).row_count:
        yield DocumentSection(key, table.title, table.of, (shown, *after))


def _quiet(comparison: Comparison) -> Lines:
    """Return which tables the terminal leaves out because they hardly changed."""
    tables = (moved(comparison), *(comparison.table(key) for key in _TABLES[:5]))
    quiet = [one.title for one in tables if one is not None and not _changes(one, comparison).shown("text")]
    words = f"Changed by less than {units.percent(NOTABLE_SHARE)} of a step: {', '.join(quiet)}."
    return Lines((words,) if quiet else (), "fine", TERMINAL)


def _findings(comparison: Comparison) -> DocumentSection:
    groups = [(one.value, comparison.findings_that_are(one)) for one in FindingChange]
    of = ", ".join(f"{len(pairs)} {word}" for word, pairs in groups if pairs)
    lists = [Entries(tuple(_entry(word, each, comparison) for each in pairs), word) for word, pairs in groups]
    none = Lines(() if of else ("No side has a finding.",))
    return DocumentSection("findings", "Findings", of, (none, *lists))


def _entry(word: str, pair: FindingPair, comparison: Comparison) -> Entry:
    finding, moved_words = pair.new or pair.base, moved_of(pair, comparison)
    return Entry(
        word,
        title=f"{rule_name(pair.rule)}, {place(pair)}",
        note=lost_of(pair, comparison),
        headline=headline_of(pair),
        lines=(moved_words,) if moved_words else (),
        advice=pair.new.advice if pair.new is not None else "",
        severity="" if finding is None else finding.severity.value,
    )


def _pair(comparison: Comparison) -> DocumentSection:
    steps, words = comparison_pictures.step_pair(comparison)
    if not steps:
        return DocumentSection("step", "Typical steps", "", (Lines((words,), "fine", PAGE),))
    note = (
        "Both begin at the left edge. The height of a colour is its share of the time, so its area is its time. "
        "GPU lanes add up to the step."
    )
    return DocumentSection(
        "step", "Typical steps", f"one scale, {words}", (DrawnSteps(steps), Lines((note,), "fine", PAGE))
    )


def _plan(comparison: Comparison) -> Iterator[DocumentSection]:
    """Yield the plan of base against new, where base has one: each planned change between the measured steps."""
    score, plan = comparison.plan_score, comparison.base.report.plan
    if score is None:
        return
    blocks: list[Block] = [Lines(score.notes)]
    if plan.step_ns is not None:
        blocks.append(_promised(comparison))
    yield DocumentSection("plan", "Plan of base: promised and measured", "", tuple(blocks), "Plan of base")


def _promised(comparison: Comparison) -> Table:
    """Return the steps that the plan promised, between the measured ones."""
    score, plan = comparison.plan_score, comparison.base.report.plan
    facts = {} if score is None else {fact.label: fact.value for fact in score.facts}
    table = None if score is None else score.tables["changes"]
    states = {} if table is None else dict(zip(table["rule"], table["state"], strict=True))
    now, before = facts.get("measured_step_ns"), plan.step_ns or 0
    longest = max(1, before, int(now or 0), *(each.step.high for each in plan.changes))
    rows: list[tuple[str, str, str, str, int, int]] = [("base", "", "", "", before, before)]
    for each in plan.changes:
        pairs = [pair for pair in comparison.findings if pair.rule == each.rule]
        went = " ".join(filter(None, (moved_of(pair, comparison) for pair in pairs)))
        words = rule_name(each.rule), str(states.get(each.rule, "")), _lost(comparison, pairs), went
        rows.append((*words, *each.step.ends))
    rows += [] if now is None else [("new", "", "", "", int(now), int(now))]
    names, made, lost, went_to, _, highs = zip(*rows, strict=True)
    times = [units.duration_range(low, high) + (" promised" if of else "") for _, of, _, _, low, high in rows]
    return Table(
        "plan",
        "What the plan of base promised: the step after each change and those above. Below, what was measured",
        (
            Column("step", "step", "text", names),
            Column("state", "change", "text", made),
            Column("step_ns", "time", "number", highs, times),
            Column("", "as a bar", "picture", [_reach(low / longest, high / longest) for *_, low, high in rows]),
            Column("lost", "its time lost", "text", lost),
            *([Column("moved_text", "where it went", "text", went_to)] if any(went_to) else []),
        ),
        most={"html": len(rows), "text": 0, "markdown": 0},
    )


def _reach(low: float, high: float) -> Picture:
    """Return a range of times as a bar, the part that is certain darker; both as shares of the longest."""
    certain = shape("rect", "p-compute", width=f"{100 * low:.2f}%", height=14, fill="#0054A9")
    return Picture(
        (shape("rect", "reach", width=f"{100 * high:.2f}%", height=14, fill="#0054A9", fill_opacity=".45"), certain), 14
    )


def _lost(comparison: Comparison, pairs: Sequence[FindingPair]) -> str:
    """Return the time lost to the findings of a rule, in base and in new: a step where both sides have steps."""
    if not pairs:
        return ""
    return lost_words(sum(each.base_lost for each in pairs), sum(each.new_lost for each in pairs), comparison)


def _facts(comparison: Comparison) -> Table:
    found = comparison.facts
    texts = ("section", [one.title for one in found]), ("fact", [vocabulary.fact_label(one.label) for one in found])
    values = ("base", [one.base for one in found]), ("new", [one.new for one in found])
    return Table(
        "facts",
        "Facts of all sections",
        (
            *(Column(name, name, "text", cells) for name, cells in texts),
            *(
                Column(
                    name,
                    name,
                    "number",
                    side,
                    [units.text(one, fact.unit) for one, fact in zip(side, found, strict=True)],
                )
                for name, side in values
            ),
        ),
        most={"html": len(found), "text": 0, "markdown": 0},
        folded=PAGE,
    )


def _provenance(comparison: Comparison) -> Table:
    reports, sides = (comparison.base.report, comparison.new.report), (comparison.base, comparison.new)
    rows = {
        "command": [shlex.join(report.session.command) for report in reports],
        "capture": [f"{report.capture.name}, {units.size(report.capture.bytes)}" for report in reports],
        "started": [report.session.started_utc for report in reports],
        "window": [f"{report.window.label}, {units.duration(report.window.length_ns)}" for report in reports],
        "GPU": [gpus_of(side) for side in sides],
        "nsys": [report.session.nsys_version for report in reports],
        "export schema": [report.session.schema_version for report in reports],
        "driver": [report.session.driver_version for report in reports],
        "CUDA": [report.session.cuda_version for report in reports],
        "traced": [", ".join(report.session.traces) for report in reports],
        "CUDA graphs by": [report.session.graph_trace for report in reports],
        "verdict": [report.verdict for report in reports],
    }
    return Table(
        "provenance",
        "Command, versions and window of both runs",
        (
            Column("property", "property", "text", list(rows)),
            *(
                Column(f"{name}_text", name, "text", [pair[at] or "unknown" for pair in rows.values()])
                for at, name in enumerate(("base", "new"))
            ),
        ),
        most={"text": 0, "markdown": 0},
        row_attributes=tuple({"class": "differs"} if base != new else {} for base, new in rows.values()),
    )


def tree(comparison: Comparison) -> Tree:
    """Return the comparison as nested dictionaries and lists of plain Python values."""
    return {
        "schema": SCHEMA,
        "outcome": comparison.outcome.value,
        "verdict": comparison.verdict,
        "hint": comparison.hint,
        "find_share": comparison.options.find,
        "accepted": sorted(one.value for one in comparison.options.accept),
        "base": _side(comparison.base),
        "new": _side(comparison.new),
        "issues": ISSUES.write(comparison.issues),
        "step_time": [_estimate(one) for one in comparison.estimates],
        "basis": comparison.basis,
        "tables": {table.key: _table_tree(table) for table in comparison.tables},
        "facts": [
            {"section": one.section, "label": one.label, "unit": one.unit, "base": one.base, "new": one.new}
            for one in comparison.facts
        ],
        "findings": {
            change.value: [_pair_tree(one) for one in comparison.findings_that_are(change)] for change in FindingChange
        },
        "plan_score": None if comparison.plan_score is None else section_tree(comparison.plan_score),
    }


def _side(side: Side) -> Tree:
    report = side.report
    return {
        "name": side.name,
        "verdict": report.verdict,
        "step_count": side.step_count,
        "run_count": len(side.runs),
        "window": WINDOW.write(report.window),
        "gpus": [gpu.name for gpu in report.gpus],
        "nsys_version": report.session.nsys_version,
        "schema_version": report.session.schema_version,
        "started_utc": report.session.started_utc,
        "command": list(report.session.command),
    }


def _estimate(one: Estimate) -> Tree:
    return {
        "label": one.label,
        "base_ns": one.base_ns,
        "new_ns": one.new_ns,
        "change_share": one.change.point,
        "low_share": one.change.low,
        "high_share": one.change.high,
        "run_noise_share": one.noise,
        "outcome": one.outcome.value,
    }


def _table_tree(table: ChangeTable) -> Tree:
    return {"title": table.title, "of": table.of, "unit": table.unit, "rows": [_change(one) for one in table.changes]}


def _change(one: AmountChange) -> Tree:
    return {
        "name": one.name,
        "base": one.base,
        "new": one.new,
        "delta": one.delta,
        "low": None if one.difference is None else one.difference.low,
        "high": None if one.difference is None else one.difference.high,
        "base_count": one.base_count,
        "new_count": one.new_count,
    }


def _pair_tree(pair: FindingPair) -> Tree:
    return {
        "rule": pair.rule,
        "device_id": pair.device_id,
        "base_severity": None if pair.base is None else pair.base.severity.value,
        "new_severity": None if pair.new is None else pair.new.severity.value,
        "base_lost": pair.base_lost,
        "new_lost": pair.new_lost,
        "moved": list_of(record_of(MovedTime)).write(pair.moved),
        "headline": headline_of(pair),
    }
