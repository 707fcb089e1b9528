"""The sections of the report in order, one file a section, with its findings and advice."""

from nsyswrap.sections import (
    capture_check,
    communication,
    copies,
    counters,
    cuda_graphs,
    device_memory,
    host_waits,
    idle,
    launches,
    ledger,
    machine,
    occupancy,
    phases,
    prediction,
    profiler_cost,
    python_lines,
    ranges,
    step_breakdown,
    steps,
    summaries,
)
from nsyswrap.sections.compute import section as compute
from nsyswrap.sections.spec import SectionSpec
from nsyswrap.sections.tensor_cores import section as tensor_cores

SECTIONS: tuple[SectionSpec, ...] = (
    ledger.SECTION,
    idle.SECTION,
    communication.SECTION,
    python_lines.SECTION,
    tensor_cores.SECTION,
    counters.SECTION,
    phases.SECTION,
    step_breakdown.SECTION,
    steps.SECTION,
    summaries.KERNELS,
    compute.SECTION,
    occupancy.SECTION,
    copies.SECTION,
    launches.SECTION,
    device_memory.SECTION,
    cuda_graphs.SECTION,
    summaries.HOST_CALLS,
    ranges.SECTION,
    host_waits.SECTION,
    machine.SECTION,
    summaries.OS_CALLS,
    prediction.SECTION,
    profiler_cost.SECTION,
    capture_check.SECTION,
)
