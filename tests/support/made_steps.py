"""Made training loops with steps of 1 ms, and the findings of their reports. Times are in microseconds: ``US``.

Twelve steps are two of warm-up and ten measured ones.
"""

from itertools import pairwise

from export_builder import ExportBuilder

from nsyswrap.model import Finding
from nsyswrap.report import build_report
from nsyswrap.trace.tables import Trace

US = 1000
STEP = 1000 * US
STEPS = 12
MEASURED = STEPS - 2
# Kernels of a step. With a single kernel the GPU would be idle before each launch, so the loop would be launch-bound.
KERNELS = 6
LAUNCH_EVERY = 2 * US


def launched_at_once(builder: ExportBuilder, at: int, start: int, end: int, **columns: int) -> ExportBuilder:
    """Add kernels that run without gaps; their launches start at ``at``, one every 2 us.

    Args:
        builder: The export.
        at: Start of the first launch call, in ns.
        start: Start of the first kernel, in ns.
        end: End of the last one, in ns.
        **columns: Columns of each kernel, such as ``device``.
    """
    edges = [start + (end - start) * number // KERNELS for number in range(KERNELS + 1)]
    for number, (begin, stop) in enumerate(pairwise(edges)):
        call = at + number * LAUNCH_EVERY
        builder.kernel(begin, stop, "k", launched=(call, call + US), gridX=9000, blockX=256, **columns)
    return builder


def made_loop(busy: int = 600, builder: ExportBuilder | None = None) -> ExportBuilder:
    """Return twelve steps; in each step the GPU is busy at first and then idle.

    ::

        GPU    ..|######600######|....400....|..######
        host   |launch 6|                    |launch 6|

    The GPU is idle from ``busy`` until 10 us into the next step: CPU code, then 1 us of launch call and 9 us queued.
    """
    made = builder or ExportBuilder().gpu()
    made.os_call("mmap", 0, 1)
    for number in range(STEPS):
        at = number * STEP
        made.range(f"batch {number}", at, at + STEP).range("forward", at, at + STEP)
        launched_at_once(made, at, at + 10 * US, at + busy * US)
    return made


def each_step(builder: ExportBuilder, name: str, start: int, end: int) -> ExportBuilder:
    """Add a call to each step, from and to these microseconds after the step's start."""
    for number in range(STEPS):
        builder.call(name, number * STEP + start * US, number * STEP + end * US)
    return builder


def findings_of(trace: Trace, window: str = "") -> dict[str, Finding]:
    """Return the findings of a whole report by rule."""
    return {each.rule: each for each in build_report(trace, window).findings}


def lost_per_step(trace: Trace) -> dict[str, float]:
    """Return the time lost in a measured step for each finding except those on kernels, in microseconds."""
    found = findings_of(trace)
    return {rule: each.lost_ns / US / MEASURED for rule, each in found.items() if not rule.startswith("compute/")}
