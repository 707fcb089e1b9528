"""The labelled bar below the verdict: the step now, divided into the accounts of GPU time and idle time.

It has the accounts of the program's step, or the shares of the ledger where the numbers are of the recording, each
account of idle time apart. A job with several GPUs shows the mean over them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from nsyswrap.base import units
from nsyswrap.model import Report
from nsyswrap.render import charts, hues, summary_model, vocabulary
from nsyswrap.render.charts import LegendRow
from nsyswrap.render.escape import visible
from nsyswrap.rules.work_names import LEDGER_NAMES
from nsyswrap.what_if.fixed_step import typical

# Accounts of idle time in the bar; the others are one. Source: ours, more are too narrow for a label.
_MOST_RULES = 4
# Narrower parts, in per cent of the bar, are not named beside it. Source: ours, they are hardly seen.
_SEEN = 1.0
_OTHER = "other idle time"


class StepBar(NamedTuple):
    """The bar.

    Attributes:
        caption: What it shows, such as "a median step now"; the label of the window where there are no steps.
        time: How long that takes.
        whose: The GPUs that it is the mean of; empty for one.
        parts: Its parts from left to right, which add up to the whole.
    """

    caption: str
    time: str
    whose: str
    parts: tuple[LegendRow, ...]

    @property
    def colours(self) -> tuple[LegendRow, ...]:
        """Return the parts that have a colour."""
        return self.parts

    @property
    def beside(self) -> tuple[LegendRow, ...]:
        """Return the parts in their order whose name and share have no room in the bar on some page."""
        return tuple(row for row in self.parts if float(row.width) >= _SEEN and row.complete.fits != "all")


class _Account(NamedTuple):
    """One part: key of its colour, name, fill, and time of all GPUs in the window."""

    key: str
    label: str
    fill: str
    ns: int


def step_bar(report: Report) -> StepBar | None:
    """Return the bar of a report; None where no GPU has a ledger."""
    ledgers = summary_model.ledgers(report)
    if not ledgers:
        return None
    caption, length_ns = _step(report)
    accounts = [each for each in _of_program(report) or (*_work(ledgers), *_of_recording(ledgers)) if each.ns]
    rows = charts.stacked([(each.key, each.label, each.fill, each.ns) for each in accounts])
    whole = max(sum(each.ns for each in accounts), 1)
    times = [units.duration(length_ns * each.ns // whole) for each in accounts]
    parts = tuple(row._replace(time=time) for row, time in zip(rows, times, strict=True))
    whose = f"mean of {len(ledgers)} GPUs" if len(ledgers) > 1 else ""
    return StepBar(caption, units.duration(length_ns), whose, parts)


def _step(report: Report) -> tuple[str, int]:
    """Return what the bar shows, and its length in ns: the mean step, else the window."""
    now = typical(report.step, report.window)
    if now is not None:
        return "a mean step now", now.length.point
    return visible(summary_model.short(report.window)), report.window.length_ns


def _work(ledgers: Sequence[summary_model.DeviceLedger]) -> Iterator[_Account]:
    """Yield the accounts of work; the last part of a ledger is its idle time."""
    for at, amount in enumerate(ledgers[0].parts[:-1]):
        part = amount.part
        yield _Account(part.key, part.label, vocabulary.fill(part), sum(one.parts[at].ns for one in ledgers))


def _of_program(report: Report) -> list[_Account]:
    """Return the accounts of a step of the program; none where the numbers are of the recording."""
    if report.step.alone_total_ns is None:
        return []
    work, idle = dict[str, int](), dict[str, int]()
    for row in summary_model.rows(report.section("program"), "step"):
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
