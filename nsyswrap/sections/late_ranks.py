"""The findings on ranks that others wait for: which rank, by how much, why, and who waits."""

from collections.abc import Sequence
from functools import partial

from nsyswrap import units
from nsyswrap.attribution.attribution import RULES, Attribution
from nsyswrap.intervals import Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import NO_PHASE
from nsyswrap.model import Finding
from nsyswrap.program_kind import Wording
from nsyswrap.ranks.collectives import Collectives, names_of
from nsyswrap.ranks.late_ranks import LateRank, by_account, find_late_ranks
from nsyswrap.ranks.lateness import Lateness
from nsyswrap.ranks.same_work import MORE_WORK, SLOWER_GPU, UNNAMED
from nsyswrap.rule_names import rule_name
from nsyswrap.sections.idle_advice import ADVICE, advice_for
from nsyswrap.sections.idle_findings import most_sampled
from nsyswrap.sections.severity import NOTE_SHARE, WARNING_SHARE, make_finding
from nsyswrap.what_if.changes import Saving, predict
from nsyswrap.what_if.late_rank import in_time
from nsyswrap.what_if.simulate import Simulation

RULE = "ranks/late"
LISTED = 5
BECAUSE = {
    "idle/data_wait": Wording("its data loader", "its data"),
    "idle/data_work": Wording("it prepares its data in the training process", "it prepares its data itself"),
    "data/worker_start": "its loader processes start again",
    "idle/file_io": "it reads or writes files",
    "steps/uneven": "some steps in which its host does more",
    "synchronization/in_step": "its host waits for its GPU inside the step",
    MORE_WORK: "it has more to compute",
    SLOWER_GPU: "its GPU takes longer for the same kernels",
}
"""What keeps a rank, by rule; for other rules their name and the phase."""

WORK_ADVICE = {
    MORE_WORK: Wording(
        "Give all ranks equal work: share samples out by length or tokens instead of by number, sort them into "
        "buckets across ranks, or cut the longest.",
        "Give all ranks equal work: divide by what each part costs, not by its size.",
        server="Give all ranks equal work: share requests out by their tokens, or experts by how often they are "
        "chosen.",
    ),
    SLOWER_GPU: "Compare this GPU with the others in nvidia-smi: other programs on it, clocks, power, temperature. "
    "Move the rank to another GPU, or end the other program.",
    "steps/uneven": "Look at what this rank's host does in its slow steps: checkpoints, logging, evaluation. Do it "
    "less often, or in another thread or process.",
    "launches/launch_bound": "Look at what this rank launches then and the others do not: statistics, logging, "
    "evaluation. Do it every n steps, collect the values on the GPU, and read them together.",
    "idle/cpu": Wording(
        "Look at what this rank's host does then (nsyswrap profile --python-sampling). Move it out of the step, or "
        "into another process; log and check on one rank only every n steps.",
        "Look at what this rank's host does then (samples of its call stacks in Nsight Systems show it). Move it out "
        "of the step, or into another thread; log and check on one rank only every n steps.",
    ),
}
"""Advice by rule, where the advice for one GPU does not fit."""
OTHER_ADVICE = "Look at this rank's timeline before it arrives, beside that of a rank that waits."


def find_findings(
    simulation: Simulation,
    collectives: Collectives,
    lateness: Lateness,
    attributions: Sequence[Attribution],
    window: Window,
) -> tuple[Finding, ...]:
    """Return a finding for each rank that others wait for, for 5 % of the window or more and beyond chance.

    Args:
        simulation: The run as it was.
        collectives: The collectives of all ranks.
        lateness: Who waits for whom, and why.
        attributions: The idle time of each GPU.
        window: Interval of the findings.
    """
    context = simulation.context
    late = find_late_ranks(context, window, collectives, lateness.charges)
    # Of a job of many ranks, those that are late by most are in the context.
    analyzed = {each.device_id for each in attributions}
    return tuple(
        _finding(simulation, collectives, lateness, attributions, window, each)
        for each in late
        if is_named(each, window) and each.device_id in analyzed
    )


def is_named(late: LateRank, window: Window) -> bool:
    """Return whether a late rank takes enough of a window to be named, chance left out."""
    return late.low_ns >= NOTE_SHARE * window.length_ns and late.net_ns >= WARNING_SHARE * window.length_ns


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
    how_much = _how_much(context, window, late.net_ns)
    waits = "waits" if len(waiting) == 1 else "wait"
    because = _because(context, lateness, main, phase)
    saving = predict(simulation, partial(in_time, lateness, late))
    if saving.method is None:
        # The interval is of any run of so many steps. In this window no more is saved than others wait.
        high = min(late.high_ns, late.lost_ns)
        saving = Saving(min(late.low_ns, high), high, "estimated", ("estimated: the others no longer wait for it",))
    attribution = next(each for each in attributions if each.device_id == late.device_id)
    return make_finding(
        rule=RULE,
        headline=f"Rank {number} is late by {how_much}: {because}; {names_of(waiting)} {waits}.",
        lost_ns=late.lost_ns,
        saving=saving,
        advice=_advice(simulation, attribution, main),
        evidence=(
            f"others wait for it in {units.share(late.share_late)} of the {_parts(context, window, late.steps)}",
            *_kept(context, lateness, window, accounts, late.lost_ns),
            *(most_sampled(attribution, main) if main in RULES else ()),
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
    """Return into how many parts the window is divided."""
    if not window.is_of_steps or not context.steps.measured_count:
        return f"{count} equal parts of the window"
    return f"{count} steps"


def _because(context: TraceContext, lateness: Lateness, rule: str, phase: int) -> str:
    """Return what keeps a rank, in words."""
    if rule in BECAUSE:
        return context.program_kind.fitted(BECAUSE[rule])
    return rule_name(rule) + (f" in its phase {lateness.phase_name(phase)}" if phase != NO_PHASE else "")


def _advice(simulation: Simulation, attribution: Attribution, rule: str) -> str:
    if rule in WORK_ADVICE:
        return WORK_ADVICE[rule]
    if rule not in ADVICE:
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
