"""The numbers that a report shows large: busy and idle share, tensor-core share, median step.

They are those of the program as it runs alone, as far as they are known; the others say that they are as recorded.
"""

from dataclasses import dataclass

from nsyswrap.base import units
from nsyswrap.model import Fact, Report, Section
from nsyswrap.render import summary_model
from nsyswrap.what_if.fixed_step import is_known

AS_RECORDED = ", as recorded"


@dataclass(frozen=True, slots=True)
class KeyNumber:
    """One number that is shown large.

    Attributes:
        value: The number with its unit.
        note: What it is a share of, and related numbers.
    """

    label: str
    value: str
    note: str


def key_numbers(report: Report) -> tuple[KeyNumber, ...]:
    """Return busy share, idle share, tensor-core share and median step, those that were measured."""
    return (*_busy_and_idle(report), *_tensor_cores(report), *_median_step(report))


def median_step(report: Report) -> Fact | None:
    """Return the median time of a step; None where no steps were found."""
    section = report.section("steps")
    found = None if section is None else section.fact("median_ns")
    return None if found is None or units.is_missing(found.value) else found


def _busy_and_idle(report: Report) -> tuple[KeyNumber, ...]:
    found = summary_model.ledgers(report)
    section, program = report.section("ledger"), report.section("program")
    if not found or section is None:
        return ()
    accounts = None if program is None else program.tables.get("step")
    if accounts is not None and len(accounts):
        window, idle = (int(part["ns"].sum()) for part in (accounts, accounts[accounts["rule"] != ""]))
        note = "of a step"
    else:
        window, idle = sum(one.window_ns for one in found), sum(one.idle_ns for one in found)
        note = f"of {summary_model.short(section.window)}{AS_RECORDED}"
    if len(found) > 1:
        note += f", mean of {len(found)} GPUs"
    return (
        KeyNumber("GPU busy", units.share_of(window - idle, window), note),
        KeyNumber("GPU idle", units.share_of(idle, window), note),
    )


def _tensor_cores(report: Report) -> tuple[KeyNumber, ...]:
    section = report.section("tensor_cores")
    if section is None:
        return ()
    low, high, counter = (section.fact(label) for label in ("share_low", "share_high", "counter_share"))
    if low is None or high is None:
        return ()
    note = f"in {summary_model.short(section.window)}{AS_RECORDED}"
    if _number(low) is not None:
        note = f"of kernel time {note}"
    if counter is not None and not units.is_missing(counter.value):
        least = section.fact("counter_share_low") or counter
        note += f"; by counter {units.share_band(_number(least), _number(counter))}"
    return (KeyNumber("tensor-core share", units.share_band(_number(low), _number(high)), note),)


def _median_step(report: Report) -> tuple[KeyNumber, ...]:
    fact, section = median_step(report), report.section("steps")
    if fact is None or section is None:
        return ()
    if (alone := report.step.alone) is not None and is_known(alone):
        return (KeyNumber("median step", units.text(alone.point, "ns"), "alone, without nsys"),)
    note = f"over {_median_of(report, section)}{AS_RECORDED}"
    return (KeyNumber("median step", units.text(fact.value, "ns"), note),)


def _median_of(report: Report, section: Section) -> str:
    """Return in words how many steps the median counts: the window, or all steps where several processes took them."""
    count = section.fact("measured_steps")
    number = None if count is None else _number(count)
    if number is None or report.step.count in {None, number}:
        return summary_model.short(section.window)
    return f"the {units.count(int(number))} steps of all processes"


def _number(fact: Fact) -> float | None:
    return None if fact.value is None or isinstance(fact.value, str) else float(fact.value)
