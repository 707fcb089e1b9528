"""What every form of a comparison shows, in the same words: step times, tables of changes, findings."""

from collections.abc import Sequence
from typing import NamedTuple

from nsyswrap import units
from nsyswrap.compare import Change, ChangeTable, Comparison, Estimate, FindingPair, Side
from nsyswrap.render import vocabulary
from nsyswrap.render.rows import MISSING

# The parts of the ledger and the causes are named by the report's vocabulary, all else by the program.
_OWN_NAMES = {"ledger": vocabulary.column_label, "tensor_cores": vocabulary.fact_label}
MOVED = "moved"
NOTABLE_SHARE = 0.005
IDLE = "idle_ns"

_HELD = "The intervals of both measures are made to hold together in 95 of 100 comparisons"
_OF_STEPS = (
    _HELD + ", with what two runs of one program differ by where nothing changed: here up to {noise}; the less of the "
    "time kernels run, the more it is. Several runs of each side, --base-run and --new-run, show how these differ."
)
_ONE_RUN_EACH = "one run each: with nothing changed two differ by up to {noise}; add --base-run and --new-run"
_OF_RUNS = _HELD + ", from how the runs of a side differ. What moved is told of the run in the middle of each side."
PARTS = "Parts of the ledger with idle time by cause; together they are the change of the time per step."


class Line(NamedTuple):
    """A change as text.

    Attributes:
        name: What it is about, as it stands in the report.
        base: Amount in base.
        new: Amount in new.
        delta: Difference with its sign.
        counts: How often, base and new; empty where that is not known or the same.
        interval: Interval of the difference; empty where steps do not tell.
    """

    name: str
    base: str
    new: str
    delta: str
    counts: str
    interval: str


class Table(NamedTuple):
    """A table of changes cut to what is shown, and the sentence that states the cut."""

    key: str
    title: str
    of: str
    lines: tuple[Line, ...]
    changes: tuple[Change, ...]
    cut: str


def lines_of(table: ChangeTable, most: int, least: float = 0.0) -> Table:
    """Return the rows of a table that moved, as text; of the ledger and the tensor share all that are not nothing.

    Args:
        table: The table.
        most: How many rows are shown at most.
        least: The smallest difference that is shown, in the unit of the table.
    """
    whole = table.key in _OWN_NAMES
    kept = [one for one in table.changes if (one.base or one.new if whole else abs(one.delta) >= least and one.delta)]
    shown = tuple(kept if whole else kept[:most])
    left = len(table.changes) - len(shown)
    moved = sum(1 for one in table.changes if one.delta) - len(shown)
    rest = [f"{units.count(moved)} more moved"] if moved > 0 else []
    rest += [f"{units.count(left - moved)} did not move"] if left > max(moved, 0) else []
    cut = "" if whole else ", ".join(rest)
    return Table(table.key, table.title, table.of, tuple(line_of(one, table) for one in shown), shown, cut)


def least_of(comparison: Comparison, table: ChangeTable) -> float:
    """Return the smallest difference worth a line where there is room for few: half a per cent of a step."""
    if table.unit == "share":
        return NOTABLE_SHARE
    whole = comparison.estimates[-1].base_ns if comparison.estimates else 0.0
    return NOTABLE_SHARE * whole if table.unit == "ns" else 0.0


def scale_of(comparison: Comparison) -> float:
    """Return the difference that fills a bar on the whole page: the largest part of what moved, or the margin at least.

    One scale for all tables, so that noise in a table of small amounts does not look like much.
    """
    parts = moved(comparison)
    if parts is None:
        return max(
            (abs(one.delta) for table in comparison.tables for one in table.changes if table.unit == "share"),
            default=1.0,
        )
    whole = comparison.estimates[-1].base_ns if comparison.estimates else 0.0
    return max(comparison.options.margin * whole, *(abs(one.delta) for one in parts.changes))


def tensor_words(comparison: Comparison) -> str:
    """Return the share of kernel time on tensor cores on both sides, in words; nothing where neither side knows."""
    table = comparison.table("tensor_cores")
    if table is None:
        return ""
    shares = {one.name: one for one in table.changes}
    low, high = shares.get("share_low"), shares.get("share_high")
    if low is None or high is None:
        return ""
    before, now = units.share_band(low.base, high.base), units.share_band(low.new, high.new)
    return f"{before} of kernel time in base, {now} in new"


def line_of(change: Change, table: ChangeTable) -> Line:
    """Return one change as text."""
    name = _OWN_NAMES.get(table.key, str)(change.name)
    delta = "0" if not change.delta else units.difference(change.delta, table.unit)
    interval = ""
    if change.low is not None and change.high is not None:
        interval = f"{units.difference(change.low, table.unit)} to {units.difference(change.high, table.unit)}"
    return Line(
        name, _amount(change.base, table.unit), _amount(change.new, table.unit), delta, _counts(change), interval
    )


def moved(comparison: Comparison) -> ChangeTable | None:
    """Return the parts that add up to the change of the time per step, the largest first: ledger, idle by cause."""
    ledger, causes = comparison.table("ledger"), comparison.table("causes")
    if ledger is None or ledger.unit != "ns":
        return None
    parts = [_renamed(one, vocabulary.column_label(one.name)) for one in ledger.changes if one.name != IDLE]
    if causes is None:
        parts += [_renamed(one, "idle") for one in ledger.changes if one.name == IDLE]
    else:
        parts += [_renamed(one, f"idle: {one.name}") for one in causes.changes]
    parts = sorted((one for one in parts if one.delta), key=lambda one: (-abs(one.delta), one.name))
    return ChangeTable(MOVED, "What moved", ledger.of, ledger.unit, tuple(parts)) if parts else None


def _renamed(change: Change, name: str) -> Change:
    return Change(name, change.base, change.new)


def intervals_of(comparison: Comparison) -> str:
    """Return what the intervals are about; nothing where there are none."""
    if not comparison.estimates:
        return ""
    return _OF_RUNS if comparison.of_runs else _OF_STEPS.format(noise=_noise(comparison))


def one_run_each(comparison: Comparison) -> str:
    """Return what one run of each side cannot show, in a line; empty where there are several."""
    return "" if comparison.of_runs or not comparison.estimates else _ONE_RUN_EACH.format(noise=_noise(comparison))


def _noise(comparison: Comparison) -> str:
    return units.share(max(one.noise for one in comparison.estimates))


def steps_of(side: Side) -> str:
    """Return what a side's numbers are about."""
    window = side.report.window
    runs = f"{len(side.runs)} runs, the one in the middle: " if len(side.runs) > 1 else ""
    return f"{runs}{window.label}, {units.duration(window.length_ns)}"


def gpus_of(side: Side) -> str:
    """Return a side's GPUs in words."""
    kinds = sorted({gpu.name for gpu in side.report.gpus})
    return f"{len(side.report.gpus)} x {', '.join(kinds)}" if kinds else "no GPU"


def interval_of(estimate: Estimate) -> str:
    """Return the interval of a change of step time."""
    return f"{units.change(estimate.low)} to {units.change(estimate.high)}"


def times_of(estimate: Estimate) -> str:
    """Return how many times as fast new is: ``2.30 times``."""
    return f"{estimate.times:.2f} times"


def cost_of(pair: FindingPair, comparison: Comparison) -> str:
    """Return what a finding costs on the sides that have it: ``3.28 ms -> 14.4 µs a step``."""
    unit = "ns" if comparison.basis == "step" else "share"
    costs = [(pair.base, pair.base_cost), (pair.new, pair.new_cost)]
    shown = [units.text(cost, unit) for finding, cost in costs if finding is not None]
    if not pair.base_cost and not pair.new_cost:
        return ""
    return f"{' -> '.join(shown)} {'a step' if unit == 'ns' else 'of the window'}"


def headline_of(pair: FindingPair) -> str:
    """Return what a finding says, in the words of new where both have it."""
    finding = pair.new or pair.base
    return finding.headline if finding is not None else ""


def place_of(pair: FindingPair) -> str:
    """Return what a finding is about: a GPU, or the whole capture."""
    return "whole capture" if pair.device_id is None else f"GPU {pair.device_id}"


def findings_of(comparison: Comparison) -> tuple[tuple[str, Sequence[FindingPair]], ...]:
    """Return the findings by what became of them, with the word for it."""
    return (("solved", comparison.solved), ("new", comparison.arisen), ("left", comparison.left))


def _amount(value: float | None, unit: str) -> str:
    return MISSING if value is None else units.text(value, unit)


def _counts(change: Change) -> str:
    if change.base_count is None and change.new_count is None:
        return ""
    before, now = (MISSING if one is None else _rate(one) for one in (change.base_count, change.new_count))
    return before if before == now else f"{before} -> {now}"


def _rate(count: float) -> str:
    """Return how often something occurs in a step, with one decimal where that says something."""
    return units.count(round(count)) if abs(count - round(count)) < 0.05 else f"{count:,.1f}"  # noqa: PLR2004
