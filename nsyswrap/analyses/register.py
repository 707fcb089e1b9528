"""The questions asked of a trace, in the order of the report; each answers with a section about one window.

They stand here and not in the package, so that a name is classified without loading all of them.
"""

from nsyswrap.analyses import (
    breakdown,
    capture_check,
    copies,
    counters,
    graphs,
    host_waits,
    idle,
    launches,
    ledger,
    memory,
    occupancy,
    phases,
    python_lines,
    ranges,
    replay,
    steps,
    summaries,
    tensor_cores,
)
from nsyswrap.analyses.base import Analysis

ANALYSES: tuple[Analysis, ...] = (
    ledger.ANALYSIS,
    idle.ANALYSIS,
    python_lines.ANALYSIS,
    tensor_cores.ANALYSIS,
    counters.ANALYSIS,
    phases.ANALYSIS,
    breakdown.ANALYSIS,
    steps.ANALYSIS,
    summaries.KERNELS,
    occupancy.ANALYSIS,
    copies.ANALYSIS,
    launches.ANALYSIS,
    memory.ANALYSIS,
    graphs.ANALYSIS,
    summaries.HOST_CALLS,
    ranges.ANALYSIS,
    host_waits.ANALYSIS,
    summaries.OS_CALLS,
    replay.ANALYSIS,
    capture_check.ANALYSIS,
)
