"""The questions asked of a trace, in the order of the report; each answers with a section about one window."""

from nsyswrap.analyses import capture_check, idle, launches, ledger, phases, ranges, steps, summaries, tensor_cores
from nsyswrap.analyses.base import Analysis

ANALYSES: tuple[Analysis, ...] = (
    ledger.ANALYSIS,
    idle.ANALYSIS,
    tensor_cores.ANALYSIS,
    phases.ANALYSIS,
    steps.ANALYSIS,
    summaries.KERNELS,
    summaries.COPIES,
    launches.ANALYSIS,
    summaries.HOST_CALLS,
    ranges.ANALYSIS,
    summaries.OS_CALLS,
    capture_check.ANALYSIS,
)
