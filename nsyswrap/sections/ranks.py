"""The ranks of a job side by side: the time of each, who waits for whom, and one step of all of them."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from nsyswrap.base.intervals import Times, Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.own_windows import find_own_windows
from nsyswrap.model import Fact, Section
from nsyswrap.ranks.charging import Charges
from nsyswrap.ranks.collectives import Collectives
from nsyswrap.ranks.identity import Rank
from nsyswrap.ranks.job_steps import JobSteps, find_job_steps
from nsyswrap.ranks.late_ranks import find_late_ranks
from nsyswrap.ranks.lateness import Lateness
from nsyswrap.ranks.many import OtherRanks
from nsyswrap.ranks.same_work import UNNAMED
from nsyswrap.ranks.step_picture import find_collectives_of, find_segments
from nsyswrap.sections.late_ranks import is_named
from nsyswrap.sections.ledger import ROWS, ledger_rows
from nsyswrap.sections.missing_events import lost_processes
from nsyswrap.sections.spec import Kind, SectionSpec
from nsyswrap.trace import tables

# Ranks in the picture of a step, and groups of ranks in the matrix: as many rows as fit on one screen. Ours.
MOST_DRAWN = 64
NO_RANK = -1

MATRIX = ("waiting_first", "waiting_last", "late_first", "late_last", "wait_ns", "mean_wait_ns")
STEPS = (
    *("step", "which", "start_ns", "end_ns", "length_ns", "wait_ns"),
    *("step_count", "rank_count", "collective_count", "all_collectives"),
)
MEDIAN, LONGEST_WAIT = "median", "longest wait"

ONE_RANK = "The capture shows the GPU work of one rank, so there is nothing to compare."
NO_COLLECTIVE = "The capture shows no collective of several of these ranks, so it does not show who waits for whom."
NO_STEP = "There is no picture of a step: no measured step was found."
MISSING = "The capture shows the GPU work of {seen} of {all} ranks."
GROUPED = "The matrix has groups of {size} ranks: each cell is the sum of all waits of one group for another."
IN_DETAIL = "The picture has the {shown} of {all:,} ranks that are shown in detail; the ledger says why these."
SELECTED = (
    "The picture has {shown} of {all:,} ranks: those that others wait for longest, those that wait longest, and others "
    "at equal distances."
)


def run(  # noqa: PLR0913, PLR0917 - one argument a value
    context: TraceContext,
    window: Window,
    collectives: Collectives,
    lateness: Lateness,
    of_all_ranks: Collectives,
    lateness_of_all: Lateness,
    others: OtherRanks,
) -> Section:
    """Return a row for each rank, the matrix of waits, and the median step of all ranks.

    Of a job of many ranks, the step is drawn of those that are in the context.
    """
    ranks = of_all_ranks.ranks
    if len(ranks.each) < 2:  # noqa: PLR2004 - several
        return SECTION.made(window, notes=(ONE_RANK, *lost_processes(context)))
    own = find_own_windows(context, window)
    mine = {
        rank.device_id: ledger_rows(context.operations, rank.device_id, own.on(rank.device_id), collectives)
        for rank in collectives.ranks.each
    }
    table = _ranks(context, window, of_all_ranks, lateness_of_all, {**others.ledgers, **mine})
    steps = find_job_steps(context, collectives.ranks, window) if lateness.activities else None
    shown = drawn_ranks(collectives.ranks.each, table.set_index("device_id"))
    matrix, size = _matrix(of_all_ranks, lateness_of_all.charges, _count(context, window))
    waited = int(table["wait_ns"].sum()) / max(int(table["length_ns"].sum()), 1)
    facts = (
        Fact("ranks", len(table), "count"),
        Fact("late_ranks", int(table["late"].sum()), "count"),
        Fact("waiting_share", waited, "share"),
    )
    pictures = {} if steps is None else _pictures(context, collectives, lateness, steps, shown)
    notes = [MISSING.format(seen=len(table), all=ranks.world_size)] if ranks.missing else []
    notes += lost_processes(context)
    notes += [] if of_all_ranks.matched.any() else [NO_COLLECTIVE]
    notes += [] if steps is not None or not lateness.activities else [NO_STEP]
    notes += [GROUPED.format(size=size)] if size > 1 else []
    chosen = IN_DETAIL if others.detailed else SELECTED
    notes += [chosen.format(shown=len(shown), all=len(table))] if pictures and len(shown) < len(table) else []
    return SECTION.made(window, facts, {"ranks": table, "matrix": matrix, **pictures}, notes=tuple(notes))


def _ranks(
    context: TraceContext,
    window: Window,
    collectives: Collectives,
    lateness: Lateness,
    ledgers: Mapping[int, Mapping[str, int]],
) -> pd.DataFrame:
    """Return a row for each rank, by number: its mean step in parts that add up, who waits for it, and why.

    Without steps the numbers are of the whole window. Collectives, waits and ledgers are of all ranks.
    """
    charges = lateness.charges
    each = [rank for rank in collectives.ranks.each if rank.device_id in ledgers]
    steps = _count(context, window)
    late = find_late_ranks(context.steps, context.settings.clock_errors, window, collectives, charges)
    named = {one.device_id for one in late if is_named(one, window)}
    pairs = _others(charges).groupby(["late", "waiting"])["ns"].sum()
    waited_for = {int(late): int(ns) for late, ns in pairs.groupby(level="late").max().items()}  # type: ignore[call-overload]
    kept, waited, longest = _kept(charges, named), waited_for, _waits_for(charges)
    number = {rank.device_id: rank.number for rank in each}
    whys = [kept.get(rank.device_id, ("", -1)) for rank in each]
    times = np.array([_parts(ledgers[rank.device_id]) for rank in each], np.int64).reshape(-1, 5)
    # Each row still adds up when its times are divided by the steps.
    edges = np.rint(np.cumsum(times, axis=1) / steps).astype(np.int64)
    found: Times = np.diff(edges, axis=1, prepend=0)
    frame = {
        "rank": [rank.number for rank in each],
        "device_id": [rank.device_id for rank in each],
        "late": [rank.device_id in named for rank in each],
        "length_ns": np.rint(times.sum(axis=1) / steps).astype(np.int64),
        **dict(zip(("compute_ns", "copies_ns", "wait_ns", "transfer_ns", "idle_ns"), found.T, strict=True)),
        "waited_for_ns": [round(waited.get(rank.device_id, 0) / steps) for rank in each],
        "rule": [rule for rule, _ in whys],
        "phase": [lateness.phase_name(phase) if rule else "" for rule, phase in whys],
        "waits_for_rank": [number.get(longest.get(rank.device_id, NO_RANK), NO_RANK) for rank in each],
    }
    return pd.DataFrame(frame)


def _count(context: TraceContext, window: Window) -> int:
    """Return the number of steps of the window; 1 where it has none."""
    return max(context.steps.measured_count, 1) if window.is_of_steps else 1


def _parts(ledger: Mapping[str, int]) -> tuple[int, ...]:
    """Return compute, copies and memsets, waiting, transfer and idle time of a ledger, in ns."""
    compute, wait, transfer, copy, memset, idle = (ledger[row] for row in ROWS)
    return compute, copy + memset, wait, transfer, idle


def _others(charges: Charges) -> pd.DataFrame:
    """Return the charges of ranks that wait for another rank: waiting, late, ns."""
    frame = pd.DataFrame({"waiting": charges.waiting, "late": charges.late, "ns": charges.wait_ns})
    return frame[frame["waiting"] != frame["late"]]


def _kept(charges: Charges, late: set[int]) -> dict[int, tuple[str, int]]:
    """Return what kept each rank that others wait for longest, by GPU: rule and phase code.

    For late ranks a rule that names a cause comes first, as in their findings.
    """
    frame = pd.DataFrame({"gpu": charges.late, "rule": charges.rule, "phase": charges.phase, "ns": charges.wait_ns})
    sums: pd.DataFrame = frame.groupby(["gpu", "rule", "phase"], as_index=False).agg(ns=("ns", "sum"))
    sums["of_rule"] = sums.groupby(["gpu", "rule"])["ns"].transform("sum")
    sums["last"] = sums["rule"].isin(list(UNNAMED)) & sums["gpu"].isin(list(late))
    keys = ["gpu", "last", "of_rule", "ns", "rule", "phase"]
    order = sums.sort_values(keys, ascending=[True, True, False, False, True, True], kind="stable")
    first = order.drop_duplicates("gpu")
    columns = (first[name].tolist() for name in ("gpu", "rule", "phase"))
    return {int(gpu): (str(rule), int(phase)) for gpu, rule, phase in zip(*columns, strict=True)}


def _waits_for(charges: Charges) -> dict[int, int]:
    """Return by GPU the GPU of the rank that it waits for longest."""
    pairs: pd.DataFrame = _others(charges).groupby(["waiting", "late"], as_index=False).agg(ns=("ns", "sum"))
    first = pairs.sort_values(["ns", "late"], ascending=[False, True], kind="stable").drop_duplicates("waiting")
    return dict(zip(first["waiting"].tolist(), first["late"].tolist(), strict=True))


def drawn_ranks(each: Sequence[Rank], table: pd.DataFrame) -> tuple[Rank, ...]:
    """Return the ranks of the picture, by number: all, or a quarter waited for, a quarter waiting, and a sample."""
    if len(each) <= MOST_DRAWN:
        return tuple(each)
    table = table.loc[[rank.device_id for rank in each]]
    part = MOST_DRAWN // 4
    chosen: dict[int, None] = {}
    for name in ("waited_for_ns", "wait_ns"):
        order = table[name].to_numpy().argsort(kind="stable")[::-1]
        chosen |= dict.fromkeys(order[:part].tolist())
    others = [place for place in range(len(each)) if place not in chosen]
    spread = np.linspace(0, len(others) - 1, MOST_DRAWN - len(chosen)).round().astype(np.intp)
    chosen |= dict.fromkeys(others[place] for place in spread.tolist())
    return tuple(each[place] for place in sorted(chosen))


def _matrix(collectives: Collectives, charges: Charges, steps: int) -> tuple[pd.DataFrame, int]:
    """Return who waits for whom in the window: a row for each pair of groups with a wait; and the size of a group.

    A group is one rank, unless there are too many. The waits add up to those of the ledger; ``mean_wait_ns`` is the
    same for one step.
    """
    each = collectives.ranks.each
    size = -(-len(each) // MOST_DRAWN)
    numbers = [rank.number for rank in each]
    place = {rank.device_id: at // size for at, rank in enumerate(each)}
    waiting, late = (np.array([place[int(gpu)] for gpu in gpus], np.intp) for gpus in (charges.waiting, charges.late))
    frame = pd.DataFrame({"waiting": waiting, "late": late, "wait_ns": charges.wait_ns})
    sums = frame.groupby(["waiting", "late"], as_index=False)["wait_ns"].sum()
    first = np.array(numbers[::size], np.int64)
    last = np.array([numbers[min(at + size, len(numbers)) - 1] for at in range(0, len(numbers), size)], np.int64)
    rows, columns = sums["waiting"].to_numpy(np.intp), sums["late"].to_numpy(np.intp)
    wait = sums["wait_ns"].to_numpy(np.int64)
    mean = np.rint(wait / steps).astype(np.int64)
    values = (first[rows], last[rows], first[columns], last[columns], wait, mean)
    return pd.DataFrame(dict(zip(MATRIX, values, strict=True))), size


def _pictures(
    context: TraceContext, collectives: Collectives, lateness: Lateness, steps: JobSteps, shown: Sequence[Rank]
) -> dict[str, pd.DataFrame]:
    """Return the tables of the chosen steps: the steps, the segments of each rank, and the collectives."""
    waits = steps.waits(collectives, lateness.exposed_wait)
    about, segments, parts = [], [], []
    for which, step in zip((MEDIAN, LONGEST_WAIT), steps.chosen(waits), strict=False):
        segments.append(find_segments(context, collectives, lateness, steps, step, shown))
        part, count = find_collectives_of(collectives, steps, step, shown)
        parts.append(part)
        start, end = int(steps.begin[step].min()), int(steps.end[step].max())
        drawn = part["collective"].nunique()
        length, wait = int(steps.length[step]), int(waits[step])
        about.append((steps.names[step], which, start, end, length, wait, len(steps.names), len(shown), drawn, count))
    return {
        "steps": pd.DataFrame(about, columns=list(STEPS)),
        "segments": pd.concat(segments, ignore_index=True),
        "collectives": pd.concat(parts, ignore_index=True),
    }


SECTION = SectionSpec(
    key="ranks",
    title="Ranks",
    run=run,
    needs=(tables.KERNELS,),
    of_operations=True,
    place=30,
    on_page_only=False,
    columns={
        "collectives": "step collective rank start_ns arrival_ns end_ns kind is_last",
        "matrix": " ".join(MATRIX),
        "ranks": (
            "rank device_id late length_ns compute_ns copies_ns wait_ns transfer_ns idle_ns waited_for_ns "
            "rule phase waits_for_rank"
        ),
        "segments": (
            "step rank start_ns end_ns what phase compute_ns copies_ns transfer_ns wait_ns idle_ns rule waits_for_rank"
        ),
        "steps": " ".join(STEPS),
    },
    kinds={Kind.TEXT: "step which", Kind.FLAG: "is_last late"},
    facts={"late_ranks": "ranks that are late", "waiting_share": "waiting for other ranks"},
)
