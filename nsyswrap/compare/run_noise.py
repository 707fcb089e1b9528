"""By how much two runs of one program differ where nothing changed: what one run of each side cannot show.

The GPU does the same work in nearly the same time again. The host does not: other processes, clocks, memory and the
place of a thread change from run to run, and with them the time in which the GPU waits for it. So the spread between
runs follows from how much of a step is the host's time.
"""

import math
from collections.abc import Sequence

from nsyswrap.compare.bootstrap import Spread, student_quantile
from nsyswrap.compare.step_times import StepTimes

# Standard deviation of ln(time per step) between runs where the host sets the pace, from 30 runs in six groups, each
# group of one program on one machine, and what there is of degrees of freedom; docs/compare.md has the runs.
HOST_SPREAD = 0.12
FREEDOM = 24
# The same of time in which kernels run, from 16 programs that the GPU paces, each run twice with hours between.
GPU_SPREAD = 0.005


def run_noise(base: Sequence[StepTimes], new: Sequence[StepTimes], confidence: float) -> float:
    """Return how far ln(new / base) of one run of each side may be from 0 with nothing changed.

    Args:
        base: The steps of each run of base, one at least; of several the mean share of the host's time counts.
        new: The same of new.
        confidence: Share of such pairs of runs that are to lie within it, such as 0.95.
    """
    shares = [sum(run.host_share for run in runs) / len(runs) for runs in (base, new)]
    variance = sum((HOST_SPREAD * share) ** 2 + GPU_SPREAD**2 for share in shares)
    return student_quantile((1 + confidence) / 2, FREEDOM) * math.sqrt(variance)


def widened(spread: Spread, centre: float, noise: float) -> Spread:
    """Return an interval of a change between two runs as one between two programs: wider by what runs differ by."""
    return Spread(centre - math.hypot(centre - spread.low, noise), centre + math.hypot(spread.high - centre, noise))
