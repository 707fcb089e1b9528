"""A loop whose CPU or whose GPU sets the pace, as recorded, and the steps that it takes alone."""

import numpy as np
from export_builder import ExportBuilder
from measured_costs import US

from nsyswrap.hardware.steps_alone import ProcessSteps, StepsAlone

LAUNCHES = 10


def loop(*, every: float, kernel: float = 5, steps: int = 12) -> ExportBuilder:
    """Return steps of ten launches, each with so many us to the next one. The end of a step waits for the GPU.

    A call takes 8 us; a kernel begins 2 us after it, or when the GPU is free.
    """
    builder, at = ExportBuilder(), 0.0
    for number in range(steps):
        first = free = at
        for launch in range(LAUNCHES):
            start = max(at + 10, free)
            free = start + kernel
            called = (round(at * US), round((at + 8) * US))
            builder.kernel(round(start * US), round(free * US), f"kernel {launch}", launched=called)
            at += every
        if free > at:
            builder.call("cudaStreamSynchronize", round(at * US), round(free * US))
        at = max(at, free)
        builder.range(f"step {number}", round(first * US), round(at * US))
    return builder


def alone(length_us: float) -> StepsAlone:
    """Return 41 steps alone around a median length, a hundredth shorter to a hundredth longer, without a drift."""
    lengths = np.rint(length_us * US * np.random.default_rng(0).permutation(np.linspace(0.99, 1.01, 41)))
    return StepsAlone((ProcessSteps(1, None, lengths.astype(np.int64)),))
