"""One report of many ranks: ledgers, idle time, collectives and waits of all, and the rest of a few that matter."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from nsyswrap.attribution.attribution import Attribution
from nsyswrap.base import units
from nsyswrap.base.errors import ExportError
from nsyswrap.base.intervals import Indices, Window
from nsyswrap.cli.inputs import sqlite_export
from nsyswrap.cli.progress import working
from nsyswrap.cli.rank_reader import RankCapture, Unreadable, rank_report, reading
from nsyswrap.loop.context import Settings, TraceContext, find_context
from nsyswrap.model import Report
from nsyswrap.ranks.activity import find_activities
from nsyswrap.ranks.charging import Charges, charged
from nsyswrap.ranks.collectives import Collectives
from nsyswrap.ranks.identity import find_ranks
from nsyswrap.ranks.join import join, order_of
from nsyswrap.ranks.late_ranks import find_late_ranks
from nsyswrap.ranks.lateness import Lateness
from nsyswrap.ranks.many import ManyRanks, OtherRanks, in_detail, join_heads, restricted
from nsyswrap.ranks.parts import find_parts
from nsyswrap.ranks.rank_times import RankTimes
from nsyswrap.report import Whole, choose_joint_window, report_of
from nsyswrap.sections.late_ranks import is_named
from nsyswrap.trace.load import load_export

Maker = Callable[[TraceContext, Collectives, tuple[Attribution, ...]], Lateness]


def report_of_many(
    sources: Sequence[RankCapture], settings: Settings, wanted: str, *, with_timeline: bool = False
) -> Report:
    """Return one report of many ranks.

    Raises:
        ExportError: No capture can be read.
        UsageError: The captures are not of one job, or an option is invalid.
        CannotTellError: The captures hold too little.
    """
    with reading(sources, settings) as readers:
        with working(f"reading {units.counted(len(sources), 'capture')}"):
            answers = readers.heads()
        heads = {number: each for number, each in enumerate(answers) if not isinstance(each, Unreadable)}
        bad = [each for each in answers if isinstance(each, Unreadable)]
        if not heads:
            raise ExportError(f"{bad[0].name}: {bad[0].reason}")
        read = sorted(heads, key=lambda number: order_of(heads[number]))
        with working("comparing ranks"):
            many = join_heads([heads[number] for number in read])
            window = choose_joint_window(many.steps, settings, many.extent, wanted)
            place = {number: at for at, number in enumerate(read)}
            joints = [many.joint(place[at], window) if at in place else None for at in range(len(sources))]
            times = [each for some in readers.times(joints) for each in some]
    with working("analyzing"):
        report = _report(many, times, window, [sources[number] for number in read], settings, with_timeline)
    unread = tuple(f"{each.name} is left out: {each.reason}" for each in bad)
    return replace(report, notes=(*report.notes, *unread, *many.notes))


def _report(  # noqa: PLR0913, PLR0917 - one argument a source
    many: ManyRanks,
    times: Sequence[RankTimes],
    window: Window,
    sources: Sequence[RankCapture],
    settings: Settings,
    with_timeline: bool,  # noqa: FBT001 - passed on
) -> Report:
    """Return the report of all ranks, from a context of those that are shown in detail."""
    found, settings = many.collectives, replace(settings, clock_errors=many.clock_errors)
    charges = charged(found, times, window, many.phases)
    late = find_late_ranks(many.steps, many.clock_errors, window, found, charges)
    chosen = in_detail(many, times, [each for each in late if is_named(each, window)])
    context = _context(many, sources, sorted(chosen), settings)
    number, detailed = {rank.device_id: rank.number for rank in many.ranks.each}, set(context.operations.devices)
    rest = [each for each in times if each.device_id not in detailed]
    others = OtherRanks(
        {each.device_id: each.ledger for each in rest},
        {each.device_id: each.idle for each in rest},
        {number[device]: why for device, why in chosen.items()},
    )
    shown = find_ranks(context.trace, context.operations, context.settings.launched_as)
    mine, chosen_parts = restricted(found, shown, context.operations, find_parts(context.trace, context.operations))
    everything, here = _lateness_makers(many, times, charges, chosen_parts)
    values: dict[str, Callable[..., object]] = {
        "others": lambda: others,
        "of_all_ranks": lambda: found,
        "collectives": lambda: mine,
        "lateness_of_all": everything,
        "lateness": here,
    }
    whole = Whole(window, tuple(gpu for gpu in many.gpus if gpu.device_id in set(found.device_id.tolist())), values)
    report = report_of(context, with_timeline=with_timeline, whole=whole)
    return replace(report, capture=replace(report.capture, bytes=sum(head.bytes for head in many.heads)))


def _lateness_makers(
    many: ManyRanks, times: Sequence[RankTimes], charges: Charges, chosen: Indices
) -> tuple[Maker, Callable[[Lateness], Lateness]]:
    """Return the functions that make the lateness of all ranks, and that of the ranks in detail."""
    wait, transfer = (np.zeros(len(many.collectives.row), np.int64) for _ in range(2))
    for each in times:
        mine = many.collectives.on(each.device_id)
        wait[mine], transfer[mine] = each.exposed_wait, each.exposed_transfer

    def lateness(context: TraceContext, collectives: Collectives, attributions: tuple[Attribution, ...]) -> Lateness:
        activities = find_activities(context, collectives, attributions)
        return Lateness(charges, activities, wait, transfer, many.phases)

    def in_detail(lateness_of_all: Lateness) -> Lateness:
        devices = list(lateness_of_all.activities)
        shown = charges.of(np.isin(charges.waiting, devices) & np.isin(charges.late, devices))
        return replace(lateness_of_all, charges=shown, exposed_wait=wait[chosen], exposed_transfer=transfer[chosen])

    return lateness, in_detail


def _context(
    many: ManyRanks, sources: Sequence[RankCapture], devices: Sequence[int], settings: Settings
) -> TraceContext:
    """Return the context of the reports that some GPUs are in, in the clock of all and with their numbers."""
    reports = sorted({many.report_of(device) for device in devices})
    found = []
    for number in reports:
        source = sources[number]
        with sqlite_export(source.path) as export:
            found.append(rank_report(source, load_export(export, os.environ)))
    clocks, numbers = [many.clocks[each] for each in reports], [many.gpu_numbers[each] for each in reports]
    whole = join(found, units.counted(len(many.heads), "rank"), clocks, numbers)
    context = find_context(whole.trace, replace(whole.settings(settings), clock_errors=settings.clock_errors))
    return replace(context, steps=replace(context.steps, of_job=many.steps.shared))
