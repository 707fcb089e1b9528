"""How much two runs of one program differ when nothing changed, estimated from one run of each side.

The GPU does the same work in nearly the same time. The CPU does not: other processes, clocks, memory and the core of a
thread change from run to run, and the GPU's waiting time changes with them. So the noise between runs follows from the
share of a step in which no kernel runs.
"""

import math
from collections.abc import Sequence

from nsyswrap.base.interval import Interval
from nsyswrap.compare.bootstrap import student_quantile
from nsyswrap.compare.step_times import MeasuredSteps

# Standard deviation of ln(time per step) between CPU-bound runs, and its degrees of freedom. Source: 30 runs in six
# groups, each of one program on one machine (docs/compare.md).
CPU_SPREAD = 0.12
FREEDOM = 24
# The same for the time in which kernels run. Source: 16 GPU-bound programs, each run twice, hours apart.
GPU_SPREAD = 0.005


def run_noise(base: Sequence[MeasuredSteps], new: Sequence[MeasuredSteps], confidence: float) -> float:
    """Return how far ln(new / base) of one run of each side may be from 0 when nothing changed.

    Args:
        base: The steps of each run of base, at least one; for several runs, their mean share of CPU time is used.
        new: The same for new.
        confidence: Share of such pairs of runs that lie within the result, such as 0.95.
    """
    shares = [sum(run.cpu_share for run in runs) / len(runs) for runs in (base, new)]
    variance = sum((CPU_SPREAD * share) ** 2 + GPU_SPREAD**2 for share in shares)
    return student_quantile((1 + confidence) / 2, FREEDOM) * math.sqrt(variance)


def widened(change: Interval[float], noise: float) -> Interval[float]:
    """Return a change between two programs: that between two runs, widened by the noise between runs."""
    below, above = (math.hypot(end - change.point, noise) for end in change.ends)
    return Interval(change.point - below, change.point, change.point + above)
