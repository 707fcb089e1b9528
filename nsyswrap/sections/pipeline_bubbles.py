"""The finding on the bubbles of a pipeline: time in which a stage waits for the messages of another that computes."""

from collections.abc import Iterator

import numpy as np

from nsyswrap.base import units
from nsyswrap.base.interval import between
from nsyswrap.base.intervals import Window, total
from nsyswrap.hardware.kernel_names.collectives import SEND_RECEIVE
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.own_windows import find_own_windows
from nsyswrap.model import Finding
from nsyswrap.ranks.activity import COMPUTES, USUAL
from nsyswrap.ranks.collectives import MOST_NAMED, Collectives
from nsyswrap.ranks.lateness import Lateness
from nsyswrap.rules.ranks import PIPELINE
from nsyswrap.sections.severity import WARNING_SHARE, make_finding
from nsyswrap.what_if.saving import HALF, Saving

EVEN_STAGES = (
    "Move layers from {longest} to {shortest}, until all stages work for as long: each microbatch takes the time of "
    "the longest stage."
)
EVEN = "estimated: without bubbles their mean is saved; kernels of smaller microbatches take some or all of it back"
UNEVEN = (
    "estimated: with stages of equal length the bubbles that the longest stage causes are saved; at most all of them"
)


def find_findings(
    context: TraceContext, collectives: Collectives, lateness: Lateness, window: Window
) -> Iterator[Finding]:
    """Yield the finding on the bubbles of a pipeline; none where they take little time.

    A bubble is the same for all stages where they work for equally long. A stage that works for less time than the
    longest one waits for the difference as well. The time of a host between two launches is work of its stage, too.
    """
    charges, together = lateness.charges, context.steps.together(window)
    mine = charges.rule == PIPELINE.key
    devices = [rank.device_id for rank in collectives.ranks.each if rank.device_id in lateness.activities]
    if not mine.any() or not devices:
        return
    bubbles = {each: int(charges.wait_ns[mine & (charges.waiting == each)].sum()) for each in devices}
    mean = sum(bubbles.values()) // len(devices)
    if mean < WARNING_SHARE * together.length_ns:
        return
    works = {}
    for each in devices:
        activity = lateness.activities[each]
        # A stage works in its kernels, and for the usual time of its host between two launches.
        is_work = [rule == COMPUTES or rule.startswith(USUAL) for rule, _ in activity.named(len(lateness.phases))]
        works[each] = sum(total(spans) for spans, mine in zip(activity.spans, is_work, strict=True) if mine)
    uneven = {each: min(bubbles[each], max(works.values()) - works[each]) for each in devices}
    is_uneven = sum(uneven.values()) > HALF * sum(bubbles.values())
    order = sorted(bubbles, key=lambda device: -bubbles[device])
    stages = tuple(
        f"rank {collectives.ranks.number(each)}: {units.duration(bubbles[each])} in bubbles, "
        f"{units.duration(works[each])} of kernels and of launching them"
        for each in order[:MOST_NAMED]
    )
    is_message = np.array([kind == SEND_RECEIVE for kind in collectives.kinds], bool)[collectives.kind]
    low, high = find_own_windows(context, window).by_device(collectives.device_id)
    inside = (collectives.end > low) & (collectives.end <= high) & (collectives.group >= 0)
    count = len(np.unique(collectives.group[is_message & inside]))
    steps = context.steps.measured_count if window.is_of_steps else 0
    messages = f"{count / steps:.1f} exchanges of messages a step" if steps else f"{count} exchanges of messages"
    of_steps = context.steps.measured_count if together.is_of_steps else 0
    takes = f"{units.duration(mean // of_steps)} a step, " if of_steps else ""
    takes += f"{units.share(mean / together.length_ns)} of the time of {len(devices)} stages"
    by_work = sorted(works, key=lambda device: works[device])
    longest, shortest = (f"rank {collectives.ranks.number(each)}" for each in (by_work[-1], by_work[0]))
    # The whole job gets shorter by the mean of what its stages wait less.
    least = min(sum(uneven.values()) // len(uneven), mean) if is_uneven else 0
    yield make_finding(
        rule=PIPELINE,
        headline=f"Pipeline bubbles take {takes}: one waits while another computes.",
        lost_ns=mean,
        saving=Saving(between(least, mean), "estimated", (UNEVEN if is_uneven else EVEN,)),
        advice=EVEN_STAGES.format(longest=longest, shortest=shortest) if is_uneven else "",
        evidence=(*stages, messages),
        window=together,
    )
