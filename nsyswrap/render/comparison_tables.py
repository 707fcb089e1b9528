"""What a comparison says in words, and its tables of changes."""

from collections.abc import Iterator, Mapping, Sequence

from nsyswrap.base import units
from nsyswrap.compare.comparison import AmountChange, ChangeTable, Comparison, FindingPair, Side
from nsyswrap.model import Unit
from nsyswrap.render import vocabulary
from nsyswrap.render.document import PAGE, Column, Form, Table
from nsyswrap.render.drawings import difference_bar
from nsyswrap.render.rows import MISSING
from nsyswrap.render.summary_model import NO_GPU_WORK, gpu_names


def _rule_in_phase(key: str) -> str:
    rule, _, phase = key.partition(" in ")
    return f"{vocabulary.rule_name(rule)} in {phase}"


_SCALING = {"copies_ns": "exposed copies and memsets", "step_ns": "whole step"}

_NAMES = {
    "ledger": vocabulary.column_label,
    "scaling": lambda name: _SCALING.get(name) or vocabulary.column_label(name),
    "tensor_cores": vocabulary.fact_label,
    "idle": vocabulary.rule_name,
    "idle_in_phases": _rule_in_phase,
}
"""Function from the key of a row to its name, by table; the names of all other rows come from the program."""

# Tables whose rows are all shown, in their own order.
_WHOLE = ("ledger", "scaling", "tensor_cores")
NOTABLE_SHARE = 0.005
IDLE = "idle_ns"

_JOINT = "The intervals of both measures hold together in 95 of 100 comparisons"
_OF_STEPS = (
    _JOINT
    + ". They include the difference between two runs of an unchanged program, here up to {noise}; it grows with "
    "the share of time in which no kernel runs. Several runs of each side, --base-run and --new-run, measure it."
)
_ONE_RUN_EACH = "one run of each side: unchanged runs may differ by {noise} and more; add --base-run and --new-run"
_OF_RUNS = _JOINT + " and come from the differences between runs. The tables show the median run of each side."
PARTS = (
    "The parts of the GPU time breakdown, idle time by root cause. Together they are the change of the time per step."
)


# Rows on the page. Ours: more fill several screens.
_MOST_ROWS = 30
# Tables that only the page has, and those whose names the profiled program chose.
_ONLY_PAGE = ("idle_in_phases", "phases_on_gpu", "copied")
_OF_PROGRAMS = ("phases", "families", "kernels", "copies", "host_calls")
_FOLDED = (*_ONLY_PAGE, "copies", "host_calls")


def changes(table: ChangeTable, least: float, scale: float) -> Table:
    """Return the changed rows of a table; the ledger and the tensor share keep all rows that are not zero.

    Args:
        table: The table.
        least: The smallest difference that text and Markdown have, in the unit of the table.
        scale: The difference that fills a bar.
    """
    whole = table.key in _WHOLE
    kept = [one for one in table.changes if (one.base or one.new if whole else one.delta)]
    notable = len(kept) if whole else sum(abs(one.delta) >= least for one in kept)
    still = len(table.changes) - len(kept)
    of_brief = 0 if table.key in _ONLY_PAGE else notable
    most: Mapping[Form, int] = {
        "html": len(kept) if whole else _MOST_ROWS,
        "text": of_brief if whole else min(of_brief, 5),
        "markdown": of_brief if whole else min(of_brief, 8),
    }
    return Table(
        table.key,
        table.title,
        tuple(_columns(kept, table, scale)),
        most=most,
        cut=f"{units.count(still)} did not change" if still and not whole else "",
        folded=frozenset((*(PAGE if table.key in _FOLDED else ()), *(("markdown",) if not whole else ()))),
        of_programs=table.key in _OF_PROGRAMS,
    )


def _columns(kept: Sequence[AmountChange], table: ChangeTable, scale: float) -> Iterator[Column]:
    names = [_NAMES.get(table.key, str)(one.name) for one in kept]
    tags = ["new" if one.base is None else "gone" if one.new is None else "" for one in kept]
    deltas = [one.delta for one in kept]
    most = max(map(abs, deltas), default=1.0) if table.unit == "bytes" else scale
    yield Column("name", "what", "text", names, tags=tags)
    for name, values in (("base", [one.base for one in kept]), ("new", [one.new for one in kept])):
        cells = [MISSING if value is None else units.text(value, table.unit) for value in values]
        yield Column(name, name, "number", values, cells)
    yield Column("difference", "difference", "number", deltas, [_signed(delta, table.unit) for delta in deltas])
    if any(intervals := [_interval(one, table.unit) for one in kept]):
        lowest = [None if one.difference is None else one.difference.low for one in kept]
        yield Column("interval", "95 % interval", "number", lowest, intervals)
    if any(counts := [_counts(one) for one in kept]):
        yield Column("times", "times", "number", [one.new_count for one in kept], counts)
    yield Column("", "less | more", "picture", [difference_bar(delta, most) for delta in deltas])


def _signed(value: float, unit: str) -> str:
    return units.difference(value, unit) if value else "0"


def _interval(change: AmountChange, unit: str) -> str:
    """Return the interval of a change; empty where it has none."""
    if change.difference is None:
        return ""
    return " to ".join(units.difference(end, unit) for end in change.difference.ends)


def least_of(comparison: Comparison, table: ChangeTable) -> float:
    """Return the smallest difference that is shown where there is little room: half a per cent of a step."""
    if table.unit == "share":
        return NOTABLE_SHARE
    whole = comparison.estimates[-1].base_ns if comparison.estimates else 0.0
    return NOTABLE_SHARE * whole if table.unit == "ns" else 0.0


def scale_of(comparison: Comparison) -> float:
    """Return the difference that fills a bar: the largest change of a part, at least the one that must be found.

    All tables share this scale, so noise in a table of small amounts stays small.
    """
    parts = moved(comparison)
    if parts is None:
        return max(
            (abs(one.delta) for table in comparison.tables for one in table.changes if table.unit == "share"),
            default=1.0,
        )
    whole = comparison.estimates[-1].base_ns if comparison.estimates else 0.0
    return max(comparison.options.find * whole, *(abs(one.delta) for one in parts.changes))


def tensor_words(comparison: Comparison) -> str:
    """Return a clause about the tensor-core share of both sides; empty where both are unknown."""
    table = comparison.table("tensor_cores")
    if table is None:
        return ""
    shares = {one.name: one for one in table.changes}
    low, high = shares.get("share_low"), shares.get("share_high")
    if low is None or high is None:
        return ""
    before, now = units.share_band(low.base, high.base), units.share_band(low.new, high.new)
    return f"{before} of kernel time in base, {now} in new"


def moved(comparison: Comparison) -> ChangeTable | None:
    """Return the parts that add up to the change of the time per step, largest first: ledger parts and idle by rule."""
    ledger, idle = comparison.table("ledger"), comparison.table("idle")
    if ledger is None or ledger.unit != "ns":
        return None
    parts = [_renamed(one, vocabulary.column_label(one.name)) for one in ledger.changes if one.name != IDLE]
    if idle is None:
        parts += [_renamed(one, "idle") for one in ledger.changes if one.name == IDLE]
    else:
        parts += [_renamed(one, f"idle: {vocabulary.rule_name(one.name)}") for one in idle.changes]
    parts = sorted((one for one in parts if one.delta), key=lambda one: (-abs(one.delta), one.name))
    return ChangeTable("moved", "What changed", ledger.of, ledger.unit, tuple(parts)) if parts else None


def _renamed(change: AmountChange, name: str) -> AmountChange:
    return AmountChange(name, change.base, change.new)


def intervals_of(comparison: Comparison) -> str:
    """Return sentences that explain the intervals; empty where there are none."""
    if not comparison.estimates:
        return ""
    return _OF_RUNS if comparison.of_runs else _OF_STEPS.format(noise=_noise(comparison))


def one_run_each(comparison: Comparison) -> str:
    """Return a line about the limits of one run of each side; empty where there are several runs."""
    return "" if comparison.of_runs or not comparison.estimates else _ONE_RUN_EACH.format(noise=_noise(comparison))


def _noise(comparison: Comparison) -> str:
    return units.share(max(one.noise for one in comparison.estimates))


def steps_of(side: Side) -> str:
    """Return the runs, the window and its length of a side."""
    window = side.report.window
    runs = f"{len(side.runs)} runs, the median one: " if len(side.runs) > 1 else ""
    return f"{runs}{window.label}, {units.duration(window.length_ns)}"


def gpus_of(side: Side) -> str:
    """Return the kinds of a side's GPUs, with the number of each."""
    return gpu_names(side.report) or NO_GPU_WORK


def lost_of(pair: FindingPair, comparison: Comparison) -> str:
    """Return the time lost to a finding in base and in new: ``3.28 ms → 14.4 µs a step``; empty without time lost."""
    return lost_words(pair.base_lost, pair.new_lost, comparison) if pair.base_lost or pair.new_lost else ""


def lost_words(base: float, new: float, comparison: Comparison) -> str:
    """Return time lost in base and in new, in the unit of the tables."""
    unit, of = _unit(comparison)
    return f"{units.text(base, unit)} → {units.text(new, unit)} {of}"


def moved_of(pair: FindingPair, comparison: Comparison) -> str:
    """Return a sentence about time that moved between this finding and others; empty where none did."""
    unit, of = _unit(comparison)
    parts = []
    for word, to_other in (("now belongs to", True), ("belonged to", False)):
        found = [one for one in pair.moved if one.to_other is to_other]
        listed = ", ".join(f"{vocabulary.rule_name(one.rule)} ({units.text(one.amount, unit)} {of})" for one in found)
        parts += [f"{word} {listed}"] if listed else []
    return f"Idle time that {' and '.join(parts)}." if parts else ""


def _unit(comparison: Comparison) -> tuple[Unit, str]:
    return ("ns", "a step") if comparison.basis == "step" else ("share", "of the window")


def headline_of(pair: FindingPair) -> str:
    """Return the headline of a finding, that of new where both sides have it."""
    finding = pair.new or pair.base
    return finding.headline if finding is not None else ""


def _counts(change: AmountChange) -> str:
    """Return how often something occurs in base and in new; empty where it is not counted."""
    if change.base_count is None and change.new_count is None:
        return ""
    before, now = (MISSING if one is None else _rate(one) for one in (change.base_count, change.new_count))
    return before if before == now else f"{before} → {now}"


def _rate(count: float) -> str:
    """Return how often something occurs in a step, with one decimal unless it is whole."""
    return units.count(round(count)) if abs(count - round(count)) < 0.05 else f"{count:,.1f}"  # noqa: PLR2004
