"""The answer of a report as two bars on one scale: the step now, in parts, and the step after the plan.

The first bar is the mean step. It has the accounts of the program's step, or the shares of the ledger where the numbers
are of the recording, each account of idle time apart. A job with several GPUs shows the GPU of the verdict, or the mean
over all.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from nsyswrap.base import units
from nsyswrap.base.interval import Interval
from nsyswrap.model import Report
from nsyswrap.render import charts, hues, summary_model, vocabulary
from nsyswrap.render.document import PAGES, TERMINAL, Bar, Hero
from nsyswrap.render.escape import visible
from nsyswrap.render.step_scale import StepScale, step_scale
from nsyswrap.rules.work_names import LEDGER_NAMES
from nsyswrap.what_if.fixed_step import is_known

# Accounts of idle time in the bar; the others are one. Source: ours, more are too narrow for a label.
_MOST_RULES = 4
_NOW, _OTHER = "a step now", "other idle time"
# A range up to this factor is narrow. Source: ours; a reader who acts on the estimate is right about its size.
_LIKELY = 1.5
_OF_STEP = {
    "this_process": "the step was timed without nsys",
    "second_run": "the step was timed in a run without nsys",
    "simulated": "the step without nsys is simulated",
    None: "the step is as recorded, with nsys",
}


class _Then(NamedTuple):
    """The step after some changes: their name, its time, and how that is known."""

    name: str
    time: Interval[int]
    how: str


class _Account(NamedTuple):
    """One part: key of its colour, name, fill, and time of all GPUs in the window."""

    key: str
    label: str
    fill: str
    ns: int


def hero(report: Report) -> Hero | None:
    """Return the bars of a report; None where no GPU has a ledger."""
    device, scale, every = summary_model.device_of_verdict(report), step_scale(report), summary_model.ledgers(report)
    ledgers = [each for each in every if each.device_id == device] or every
    if not ledgers:
        return None
    length_ns = report.window.length_ns if scale is None else scale.now_ns
    accounts = [each for each in _of_program(report, device) or (*_work(ledgers), *_of_recording(ledgers)) if each.ns]
    rows = charts.stacked([(each.key, each.label, each.fill, each.ns) for each in accounts])
    whole = max(sum(each.ns for each in accounts), 1)
    text = units.duration if scale is None else scale.text
    parts = tuple(
        row._replace(time=text(length_ns * each.ns / whole)) for row, each in zip(rows, accounts, strict=True)
    )
    whose = f", mean of {len(ledgers)} GPUs" if len(ledgers) > 1 else f", GPU {device}" if len(every) > 1 else ""
    if scale is None:
        label = visible(summary_model.short(report.window))
        return Hero((Bar(f"{label}{whose}", units.duration(length_ns), parts),))
    bars = [Bar(f"{_NOW}{whose}", scale.text(length_ns), parts, _range(scale, scale.now.length))]
    then = _then(report, scale)
    if then is not None:
        row = charts.stacked([("after", then.name, "#929292", then.time.point)], length_ns)
        ends = (scale.percent(then.time.low), scale.percent(then.time.high))
        bars.append(
            Bar(then.name, scale.text(then.time.point), row, _range(scale, then.time.map(scale.at_most_now)), ends)
        )
    return Hero(tuple(bars), _sure(report, scale, then), forms=PAGES | TERMINAL)


def _range(scale: StepScale, time: Interval[int]) -> str:
    """Return the range of a time; that of the step now may be longer than its estimate."""
    low, high = map(scale.scale.text, time.ends)
    return f"{low} to {high}" if low != high else ""


def _then(report: Report, scale: StepScale) -> _Then | None:
    """Return the step after the plan, as far as its times are known; after the verdict's fix where no plan has it."""
    changes = report.plan.changes
    first = next((each for each in report.findings if each.rule == report.verdict_rule), None)
    if first is not None and first.saving is not None and all(each.rule != first.rule for each in changes):
        after = scale.now.after(first.saving)
        if scale.effect(scale.now_ns, after, "", "").saving:
            return _Then("if this is fixed", after, first.saving_method or "estimated")
    known = [number for number, each in enumerate(changes, 1) if is_known(each.step)]
    if known:
        last = changes[known[-1] - 1]
        of = "the plan" if known[-1] == len(changes) else f"{units.counted(known[-1], 'change')} of the plan"
        return _Then(f"after {of}", last.step, last.source)
    return None


def _sure(report: Report, scale: StepScale, then: _Then | None) -> tuple[str, str]:
    """Return how sure the times are, in words, and the anchor of how they are known."""
    has_prediction = report.section("prediction") is not None
    where = "section-prediction" if has_prediction and then is not None else "provenance"
    about = _OF_STEP[None if scale.now.is_recorded else report.step.alone_source]
    few = f", and only {units.counted(scale.now.count, 'step')} were recorded" if scale.now.is_of_few else ""
    if then is None:
        return f"How sure: {about}{few}", where
    is_measured = then.how in {"measured", "benchmarked"}
    is_likely = then.time.high <= _LIKELY * then.time.low and not few
    word = "measured" if is_measured else f"{'likely' if is_likely else 'rough'}, {then.how}"
    return f"How sure: {word}; {about}{few}", where


def _work(ledgers: Sequence[summary_model.DeviceLedger]) -> Iterator[_Account]:
    """Yield the accounts of work; the last part of a ledger is its idle time."""
    for at, amount in enumerate(ledgers[0].parts[:-1]):
        part = amount.part
        yield _Account(part.key, part.label, vocabulary.fill(part), sum(one.parts[at].ns for one in ledgers))


def _of_program(report: Report, device: int | None) -> list[_Account]:
    """Return the accounts of a step of the program, on one GPU or all; none where the numbers are of the recording."""
    if report.step.alone_total_ns is None:
        return []
    work, idle = dict[str, int](), dict[str, int]()
    rows = summary_model.rows(report.section("program"), "step")
    for row in [each for each in rows if each["device_id"] == device] or rows:
        sums, key = (work, row["account"]) if not row["rule"] else (idle, row["rule"])
        sums[key] = sums.get(key, 0) + int(row["ns"])
    parts = (part for part in vocabulary.LEDGER_PARTS if part.column in LEDGER_NAMES)
    busy = [
        _Account(each.key, each.label, vocabulary.fill(each), work.get(LEDGER_NAMES[each.column], 0)) for each in parts
    ]
    return [*busy, *_idle(idle, sum(idle.values()))]


def _of_recording(ledgers: Sequence[summary_model.DeviceLedger]) -> Iterator[_Account]:
    """Yield the accounts of the idle time of the recording."""
    by_rule: dict[str, int] = {}
    for one in ledgers:
        for part in one.idle:
            by_rule[part.rule] = by_rule.get(part.rule, 0) + part.ns
    yield from _idle(by_rule, sum(one.idle_ns for one in ledgers))


def _idle(by_rule: Mapping[str, int], idle_ns: int) -> Iterator[_Account]:
    """Yield the accounts of idle time, largest first; idle time without an account is part of the last one."""
    rules = sorted(by_rule, key=lambda rule: (-by_rule[rule], rule))[:_MOST_RULES]
    for rule, fill in zip(rules, hues.idle_fills(rules), strict=True):
        yield _Account(fill, visible(vocabulary.rule_name(rule)), f"url(#{fill})", by_rule[rule])
    rest = idle_ns - sum(by_rule[rule] for rule in rules)
    yield _Account("idle", _OTHER if rules else "idle", "url(#idle)", max(rest, 0))
