"""Communication between GPUs: what collectives take, who waits for whom in them, and advice on both."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.attribution.attribution import Attribution
from nsyswrap.base import units
from nsyswrap.base.intervals import Indices, Times, Window, covered, total
from nsyswrap.base.rows import taken
from nsyswrap.events.operations import COMMUNICATION
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.own_windows import find_own_windows
from nsyswrap.model import Fact, Finding, Section
from nsyswrap.ranks.collectives import Collectives, bus_bytes
from nsyswrap.ranks.lateness import Lateness
from nsyswrap.ranks.links import fast_ns
from nsyswrap.ranks.parts import NONE
from nsyswrap.rules import rule_of
from nsyswrap.sections import job_code, late_ranks, pipeline_bubbles
from nsyswrap.sections.communication_advice import advice_for, is_split
from nsyswrap.sections.missing_events import lost_processes
from nsyswrap.sections.places import LISTED
from nsyswrap.sections.severity import make_finding, worth_printing
from nsyswrap.sections.spec import About, Kind, PageGroup, SectionSpec
from nsyswrap.trace import tables
from nsyswrap.trace.tables import coded
from nsyswrap.what_if.simulate import Simulation

# Place of transfer among the spans of ``Collectives.exclusive``.
TRANSFER = 2
ALL_TRANSFER = (
    "The capture shows no other rank in these collectives, so waiting and transfer are not separated: all exposed "
    "communication counts as transfer. Predicted savings hold if the other ranks are as fast."
)
PART_TRANSFER = (
    "For {share} of the time of collectives the capture shows no other rank: there all of it counts as transfer."
)
PART_OF_RANKS = (
    "The capture shows the GPU work of {seen} of {all} ranks: a wait for any other counts as transfer, or as one for "
    "the last of these. Predicted savings hold if the other ranks are as fast."
)
NOTHING_RECORDED = "No collective was recorded in the window."
EXCHANGES = "The GPU exchanges data with other GPUs and computes nothing for {share} of the time."
EXCHANGES_OR_WAITS = (
    "The GPU exchanges data with other GPUs, or waits for a rank whose work the capture does not show, and computes "
    "nothing for {share} of the time."
)
COLLECTIVES = (
    *("communicator", "kind", "bytes", "count", "wait_ns", "transfer_ns", "exposed_wait_ns", "exposed_transfer_ns"),
    "bus_bandwidth",
)
WAITS = ("waiting_rank", "late_rank", "rule", "phase", "wait_ns")


def by_kind(
    collectives: Collectives, lateness: Lateness, window: Window, fast: npt.NDArray[np.float64]
) -> pd.DataFrame:
    """Return a row for each communicator, kind and size of collectives in a window, the most exposed first.

    Times are sums over all ranks, clipped to the window. ``count`` counts a collective once, however many ranks it has.
    ``bus_bandwidth`` is bytes a second on each link while it transfers; NaN where the size or the number of ranks is
    not known, and ``link_bandwidth`` is what these links can do; there is no such column where that is not known at
    all: ``fast`` is how long each transfers on them, in ns, or NaN. ``bytes`` is -1 where NCCL did not record it.
    """
    start, end = (np.clip(each, window.start_ns, window.end_ns) for each in (collectives.start, collectives.end))
    arrival = np.clip(collectives.arrival, start, end)
    touches = (collectives.start < window.end_ns) & (collectives.end > window.start_ns)
    frame = pd.DataFrame(
        {
            "communicator": collectives.communicator,
            "kind": np.array(collectives.kinds, object)[collectives.kind],
            "bytes": collectives.bytes,
            # A collective that is known on one rank only counts as a separate collective.
            "part": np.where(collectives.matched, collectives.group, -1 - np.arange(len(start))),
            "wait_ns": arrival - start,
            "transfer_ns": end - arrival,
            "exposed_wait_ns": lateness.exposed_wait,
            "exposed_transfer_ns": lateness.exposed_transfer,
            "matched": collectives.matched,
            "fast_ns": fast,
        }
    )[touches]
    keys = ["communicator", "kind", "bytes"]
    times = list(COLLECTIVES[4:8])
    found = frame.groupby(keys, as_index=False).agg(
        count=("part", "nunique"),
        parts=("part", "size"),
        matched=("matched", "all"),
        fast_ns=("fast_ns", "mean"),
        **{name: (name, "sum") for name in times},
    )
    columns = (found[name].tolist() for name in (*keys, "parts", "transfer_ns", "matched"))
    bandwidth = [
        _bandwidth(kind, size, collectives.sizes[communicator], parts, transfer) if matched else float("nan")
        for communicator, kind, size, parts, transfer, matched in zip(*columns, strict=True)
    ]
    carried = [
        bus_bytes(kind, size, collectives.sizes[communicator]) or float("nan")
        for communicator, kind, size in zip(*(found[name].tolist() for name in keys), strict=True)
    ]
    links = np.array(carried, float) / found["fast_ns"] * 1e9
    exposed = -found["exposed_wait_ns"] - found["exposed_transfer_ns"]
    whole: pd.DataFrame = found.assign(bus_bandwidth=np.array(bandwidth, float), link_bandwidth=links, exposed=exposed)
    known = ["link_bandwidth"] if np.isfinite(links).any() else []
    return whole.sort_values(["exposed", *keys], ignore_index=True)[[*COLLECTIVES, *known]]


def _bandwidth(kind: str, size: int, ranks: int, parts: int, transfer_ns: int) -> float:
    """Return the bytes a second on each link, from the transfer of all parts; NaN where it is not known."""
    carried = bus_bytes(kind, size, ranks)
    return carried * parts / (transfer_ns / 1e9) if carried is not None and transfer_ns else float("nan")


def who_waits(collectives: Collectives, lateness: Lateness) -> pd.DataFrame:
    """Return who waits for whom: a row for each pair of ranks, rule and phase, the longest wait first.

    The rows of each waiting rank add up to its row ``communication_wait_ns`` of the ledger.
    """
    charges = lateness.charges
    names = [lateness.phase_name(code) for code in range(-1, len(lateness.phases))]
    frame = pd.DataFrame(
        {
            "waiting_rank": _numbers(collectives, charges.waiting),
            "late_rank": _numbers(collectives, charges.late),
            "rule": charges.rule,
            "phase": np.array(names, object)[charges.phase + 1] if len(charges.phase) else np.empty(0, object),
            "wait_ns": charges.wait_ns,
        }
    )
    keys = list(WAITS[:4])
    found: pd.DataFrame = frame.groupby(keys, as_index=False).agg(wait_ns=("wait_ns", "sum"))
    return found.sort_values(["wait_ns", *keys], ascending=[False, True, True, True, True], ignore_index=True)


def _numbers(collectives: Collectives, devices: Indices) -> Times:
    """Return the number of the rank on each GPU."""
    known = {rank.device_id: rank.number for rank in collectives.ranks.each}
    distinct, codes = np.unique(devices, return_inverse=True)
    numbers = np.array([known.get(int(each), int(each)) for each in distinct], np.int64)
    found: Times = numbers[codes] if len(codes) else np.empty(0, np.int64)
    return found


def unmatched_share(collectives: Collectives, window: Window) -> float:
    """Return the share of the time of collectives in a window whose other ranks are not in the capture."""
    length = np.clip(collectives.end, window.start_ns, window.end_ns) - np.clip(
        collectives.start, window.start_ns, window.end_ns
    )
    alone = collectives.group == NONE
    return float(length[alone].sum() / max(int(length.sum()), 1))


def run(  # noqa: PLR0913, PLR0917 - one argument a value
    context: TraceContext,
    window: Window,
    of_all_ranks: Collectives,
    attributions: tuple[Attribution, ...],
    lateness_of_all: Lateness,
    simulation: Simulation,
) -> Section:
    """Return what collectives wait and transfer, and findings on late ranks and on much exposed transfer.

    ``lateness_of_all`` and the tables of collectives and waits are also of ranks that are not in the context.
    """
    own = find_own_windows(context, window)
    rows = {device: _collectives(context, device, own.on(device)) for device in context.operations.used_in(window)}
    if not any(len(each) for each in rows.values()):
        return SECTION.made(window, notes=(NOTHING_RECORDED,))
    each = [_by_kernel(context, device, mine, own.on(device)) for device, mine in rows.items()]
    table = pd.concat(each, ignore_index=True)
    kinds = by_kind(of_all_ranks, lateness_of_all, window, fast_ns(context, of_all_ranks))
    return SECTION.made(
        window,
        facts=(
            Fact("communication_ns", int((kinds["wait_ns"] + kinds["transfer_ns"]).sum()), "ns"),
            Fact("exposed_ns", int((lateness_of_all.exposed_wait + lateness_of_all.exposed_transfer).sum()), "ns"),
            Fact("exposed_wait_ns", int(lateness_of_all.exposed_wait.sum()), "ns"),
            Fact("exposed_transfer_ns", int(lateness_of_all.exposed_transfer.sum()), "ns"),
        ),
        tables={
            "collectives": kinds,
            "waits": who_waits(of_all_ranks, lateness_of_all),
            "kernels": table,
        },
        findings=(
            *late_ranks.find_findings(simulation, of_all_ranks, lateness_of_all, attributions, window),
            *pipeline_bubbles.find_findings(context, of_all_ranks, lateness_of_all, window),
            *job_code.find_findings(simulation, of_all_ranks, lateness_of_all, window),
            *_findings(simulation, rows, window),
        ),
        notes=(*_notes(of_all_ranks, window), *lost_processes(context)),
    )


def _notes(collectives: Collectives, window: Window) -> tuple[str, ...]:
    alone, ranks = unmatched_share(collectives, window), collectives.ranks
    if not collectives.matched.any():
        return (ALL_TRANSFER,)
    notes = [PART_TRANSFER.format(share=units.share(alone))] if alone else []
    if ranks.missing:
        notes.append(PART_OF_RANKS.format(seen=len(ranks.each), all=ranks.world_size))
    return tuple(notes)


def _collectives(context: TraceContext, device: int, window: Window) -> Indices:
    """Return the collectives of one device that touch the window, as rows of the context's operations."""
    operations = context.operations
    rows = operations.on(device)
    inside = (taken(operations.start, rows) < window.end_ns) & (taken(operations.end, rows) > window.start_ns)
    found: Indices = rows[inside & (taken(operations.kind, rows) == COMMUNICATION)]
    return found


def _by_kernel(context: TraceContext, device: int, rows: Indices, window: Window) -> pd.DataFrame:
    """Return a row for each kernel of one device, the most exposed first: device_id, name, count, total_ns, exposed_ns.

    ``total_ns`` adds up collectives that run at the same time. Both times are clipped to the window.
    """
    operations = context.operations
    exposed = operations.exclusive(device, window)[COMMUNICATION]
    start, end = taken(operations.start, rows), taken(operations.end, rows)
    frame = pd.DataFrame(
        {
            "name_id": coded(context.trace[tables.KERNELS], "name_id")[taken(operations.row, rows)],
            "total_ns": np.minimum(end, window.end_ns) - np.maximum(start, window.start_ns),
            "exposed_ns": covered(exposed, start, end),
        }
    )
    summed = frame.groupby("name_id").agg(
        count=("total_ns", "size"), total_ns=("total_ns", "sum"), exposed_ns=("exposed_ns", "sum")
    )
    summed = summed.reset_index()
    names = [context.trace.text(int(each)) for each in summed.pop("name_id")]
    summed.insert(0, "device_id", device)
    summed.insert(1, "name", np.array(names, dtype=object))
    return summed.sort_values(["exposed_ns", "total_ns", "name"], ascending=[False, False, True], ignore_index=True)


def _findings(simulation: Simulation, rows: dict[int, Indices], window: Window) -> tuple[Finding, ...]:
    """Return a finding for each device whose exposed communication takes enough of the window."""
    context, found = simulation.context, []
    for device, mine in rows.items():
        own = find_own_windows(context, window).on(device)
        lost = total(simulation.collectives.exclusive(context.operations, device, own)[TRANSFER])
        if not len(mine) or not worth_printing(lost, own):
            continue
        advice = advice_for(simulation, device, mine)
        share = units.share(lost / own.length_ns)
        found.append(
            make_finding(
                rule=rule_of(advice.rule),
                headline=(EXCHANGES if is_split(simulation.collectives) else EXCHANGES_OR_WAITS).format(share=share),
                lost_ns=lost,
                saving=advice.saving,
                advice=advice.text,
                evidence=(*_longest(_by_kernel(context, device, mine, own)), *advice.evidence),
                device_id=device,
                window=own,
            )
        )
    return tuple(found)


def _longest(table: pd.DataFrame) -> tuple[str, ...]:
    """Return one line for each of the kernels with most exposed time."""
    rows = table.head(LISTED)[["exposed_ns", "total_ns", "count", "name"]].itertuples(index=False)
    return tuple(
        f"{units.duration(int(exposed))} of {units.duration(int(whole))} in {units.counted(count, 'launch')} of {name}"
        for exposed, whole, count, name in rows
    )


SECTION = SectionSpec(
    key="communication",
    title="Communication between GPUs",
    run=run,
    about=About.BOTH,
    needs=(tables.KERNELS,),
    of_operations=True,
    place=110,
    group=PageGroup.GPU,
    columns={
        "collectives": (
            "communicator kind bytes count wait_ns transfer_ns exposed_wait_ns exposed_transfer_ns bus_bandwidth"
        ),
        "kernels": "device_id name count total_ns exposed_ns",
        "waits": "waiting_rank late_rank rule phase wait_ns",
    },
    some_columns={"collectives": "link_bandwidth"},
    kinds={Kind.NUMBER: "bus_bandwidth link_bandwidth"},
    units={"bus_bandwidth": "bytes", "link_bandwidth": "bytes"},
    headings={"bus_bandwidth": "on each link, a second", "link_bandwidth": "these links can, a second"},
)
