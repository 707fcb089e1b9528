"""The change "fewer NVTX ranges"."""

from collections.abc import Mapping

from nsyswrap.attribution.attribution import Attribution
from nsyswrap.attribution.root_causes.capture_overhead import find_marks
from nsyswrap.base.intervals import Spans
from nsyswrap.loop.context import TraceContext
from nsyswrap.rules import capture
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import Fix, LostTime
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation


def fewer_marks(simulation: Simulation, lost: LostTime) -> WhatIf:
    """Return the change for the ranges that the host records in the time lost."""
    return without_marks(lost.on_host(simulation), _mark_share(simulation.context, lost.device))


def without_marks(spans: Mapping[int, Spans], share: float) -> WhatIf:
    """Return the change "fewer NVTX ranges".

    Args:
        spans: The time in which the host records ranges, by launching thread.
        share: The share of it that the marks themselves take.
    """
    return WhatIf(
        Change(host=spans, host_factor=1 - min(share, 1.0)),
        Change(host=spans),
        "the host saves the time of the marks, or all of the time around them",
    )


def _mark_share(context: TraceContext, attribution: Attribution) -> float:
    """Return an upper bound of the share of the rule's idle time that the marks of ranges take."""
    chosen = attribution.of_rule(capture.OVERHEAD.key)
    pieces, spent = attribution.pieces.of(chosen), 0.0
    for thread, marks in find_marks(context, attribution.window).items():
        mine = pieces.is_thread(thread)
        spent += float(marks.time_inside(pieces.start[mine], pieces.end[mine]).sum())
    return spent / max(int(pieces.length.sum()), 1)


FIXES = (Fix((capture.OVERHEAD,), fewer_marks, is_of_device=True),)
