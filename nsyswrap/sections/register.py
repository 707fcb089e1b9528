"""The questions asked of a trace, in the order of the report; each answers with a section about one window.

They stand here and not in the package, so that a name is classified without loading all of them.
"""

from nsyswrap.loop.context import Analysis
from nsyswrap.sections import (
    capture_check,
    copies,
    counters,
    cuda_graphs,
    device_memory,
    host_waits,
    idle,
    launches,
    ledger,
    occupancy,
    phases,
    prediction,
    python_lines,
    ranges,
    step_breakdown,
    steps,
    summaries,
    tensor_cores,
)

ANALYSES: tuple[Analysis, ...] = (
    ledger.ANALYSIS,
    idle.ANALYSIS,
    python_lines.ANALYSIS,
    tensor_cores.ANALYSIS,
    counters.ANALYSIS,
    phases.ANALYSIS,
    step_breakdown.ANALYSIS,
    steps.ANALYSIS,
    summaries.KERNELS,
    occupancy.ANALYSIS,
    copies.ANALYSIS,
    launches.ANALYSIS,
    device_memory.ANALYSIS,
    cuda_graphs.ANALYSIS,
    summaries.HOST_CALLS,
    ranges.ANALYSIS,
    host_waits.ANALYSIS,
    summaries.OS_CALLS,
    prediction.ANALYSIS,
    capture_check.ANALYSIS,
)
