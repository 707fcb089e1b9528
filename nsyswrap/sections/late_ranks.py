"""The findings on ranks that others wait for: which rank, by how much, why, and who waits."""

from collections.abc import Sequence
from functools import partial

from nsyswrap.attribution.attribution import RULES, Attribution
from nsyswrap.base import units
from nsyswrap.base.intervals import Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import NO_PHASE
from nsyswrap.model import Finding
from nsyswrap.ranks.collectives import Collectives, names_of
from nsyswrap.ranks.late_ranks import LateRank, by_account, find_late_ranks
from nsyswrap.ranks.lateness import Lateness
from nsyswrap.ranks.same_work import UNNAMED
from nsyswrap.rules import rule_name, rule_of
from nsyswrap.rules.ranks import LATE
from nsyswrap.sections.idle_advice import OWN_RULES, advice_for
from nsyswrap.sections.idle_findings import costliest_line
from nsyswrap.sections.severity import NOTE_SHARE, WARNING_SHARE, make_finding
from nsyswrap.what_if.late_rank import in_time
from nsyswrap.what_if.saving import Saving, predict
from nsyswrap.what_if.simulate import Simulation

LISTED = 5
OTHER_ADVICE = "Look at this rank's timeline before it arrives, beside that of a rank that waits."


def find_findings(
    simulation: Simulation,
    collectives: Collectives,
    lateness: Lateness,
    attributions: Sequence[Attribution],
    window: Window,
) -> tuple[Finding, ...]:
    """Return a finding for each rank that others wait for, for 5 % of the window or more and beyond chance.

    There is none where the range of what the simulation saves begins with nothing: then the others may come as late
    for a reason of their own.
    """
    context = simulation.context
    errors = context.settings.clock_errors
    late = find_late_ranks(context.steps, errors, window, collectives, lateness.charges)
    # Of a job of many ranks, those that are late by most are in the context.
    analyzed = {each.device_id for each in attributions}
    found = (
        _finding(simulation, collectives, lateness, attributions, window, each)
        for each in late
        if is_named(each, window) and each.device_id in analyzed
    )
    return tuple(each for each in found if each.saving is None or each.saving.low > 0)


def is_named(late: LateRank, window: Window) -> bool:
    """Return whether a late rank takes enough of a window to be named, chance left out."""
    return late.net.low >= NOTE_SHARE * window.length_ns and late.net.point >= WARNING_SHARE * window.length_ns


def _finding(  # noqa: PLR0913, PLR0917 - one argument a source
    simulation: Simulation,
    collectives: Collectives,
    lateness: Lateness,
    attributions: Sequence[Attribution],
    window: Window,
    late: LateRank,
) -> Finding:
    context, charges = simulation.context, lateness.charges
    accounts = by_account(charges, late.device_id)
    by_rule: dict[str, int] = {}
    for rule, _, ns, _ in accounts:
        by_rule[rule] = by_rule.get(rule, 0) + ns
    main = max(by_rule, key=lambda rule: (rule not in UNNAMED, by_rule[rule]))
    phase = next(phase for rule, phase, *_ in accounts if rule == main)
    number, waiting = _number(collectives, late.device_id), sorted(_number(collectives, each) for each in late.waiting)
    how_much = _how_much(context, window, late.net.point)
    waits = "waits" if len(waiting) == 1 else "wait"
    because = _because(context, lateness, main, phase)
    saving = predict(simulation, partial(in_time, lateness, late))
    if saving.method is None:
        # The interval is of any run of so many steps. In this window no more is saved than others wait.
        least = late.net.map(lambda net: min(net, late.lost_ns))
        saving = Saving(least, "estimated", ("estimated: the others no longer wait for it",))
    attribution = next(each for each in attributions if each.device_id == late.device_id)
    return make_finding(
        rule=LATE,
        headline=f"Rank {number} is late by {how_much}: {because}; {names_of(waiting)} {waits}.",
        lost_ns=late.lost_ns,
        saving=saving,
        advice=_advice(simulation, attribution, main),
        evidence=(
            f"others wait for it in {units.share(late.share_late)} of the {_parts(context, window, late.steps)}",
            *_kept(context, lateness, window, accounts, late.lost_ns),
            *(costliest_line(context, attribution, main) if main in RULES else ()),
        ),
        device_id=late.device_id,
        window=attribution.window,
    )


def _number(collectives: Collectives, device: int) -> int:
    """Return the number of the rank on a GPU; that of the GPU where it has none."""
    found = collectives.ranks.number(device)
    return device if found is None else found


def _how_much(context: TraceContext, window: Window, late_ns: int) -> str:
    steps = context.steps.measured_count
    if window.is_of_steps and steps:
        return f"{units.duration(late_ns // steps)} a step"
    return f"{units.duration(late_ns)} of {units.duration(window.length_ns)}"


def _parts(context: TraceContext, window: Window, count: int) -> str:
    if not window.is_of_steps or not context.steps.measured_count:
        return f"{count} equal parts of the window"
    return f"{count} steps"


def _because(context: TraceContext, lateness: Lateness, rule: str, phase: int) -> str:
    """Return what keeps a rank, in words."""
    if keeps := rule_of(rule).keeps_rank:
        return context.program_kind.fitted(keeps)
    return rule_name(rule) + (f" in {lateness.phase_name(phase)}" if phase != NO_PHASE else "")


def _advice(simulation: Simulation, attribution: Attribution, rule: str) -> str:
    if advice := rule_of(rule).for_late_rank:
        return advice
    if rule not in OWN_RULES:
        return OTHER_ADVICE
    return advice_for(simulation.context, simulation.states, attribution, rule).advice


def _kept(
    context: TraceContext,
    lateness: Lateness,
    window: Window,
    accounts: Sequence[tuple[str, int, int, object]],
    lost_ns: int,
) -> tuple[str, ...]:
    """Return one line for each of the accounts that kept the rank longest: its part of the time lost.

    Several ranks wait at the same time, so the waits of all of them are more than the job loses.
    """
    whole = max(sum(ns for _, _, ns, _ in accounts), 1)
    return tuple(
        f"{_how_much(context, window, lost_ns * ns // whole)}: {rule_name(rule)} in phase {lateness.phase_name(phase)}"
        for rule, phase, ns, _ in accounts[:LISTED]
    )
