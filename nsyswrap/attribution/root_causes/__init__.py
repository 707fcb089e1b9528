"""The root causes of idle time, one file each, in the order in which they are tried.

A cause says what the host did while the GPU was idle. A root cause explains why. For example, the CPU works between two
launches because a copy blocked it until the GPU went idle. Or a step waits for data because its loader processes have
just been started. A root cause explains whole pieces of idle time; other pieces keep their cause as their rule::

    GPU          ####|..............gap...............|####
    T            .item()  |    cpu      |   launch    |
    cause        synchro. |    cpu      |   launch    |
    root cause   |-------- synchronization -----------|

The first root cause that explains a piece gets it, so no nanosecond counts twice. The result does not depend on which
findings a report prints.
"""

from collections.abc import Callable
from typing import NamedTuple

from nsyswrap.attribution.idle_pieces import IdlePieces, Mask
from nsyswrap.attribution.root_causes import (
    allocator_churn,
    between_operations,
    blocking_waits,
    capture_overhead,
    checkpoint,
    cpu_quota,
    file_reads,
    launch_bound,
    migrations,
    module_loading,
    optimizer_kernels,
    outside_wait,
    page_faults,
    pageable_copies,
    tokenizer,
    uneven_steps,
    untraced_wait,
    worker_start,
)


class RootCause(NamedTuple):
    """One root cause.

    Attributes:
        rule: Rule of its finding.
        find: Returns the pieces that it explains, given all pieces and a mask of those not explained yet.
        own_causes: Causes of the idle time inside its own calls; empty where the root cause is not a kind of call.
    """

    rule: str
    find: Callable[[IdlePieces, Mask], Mask]
    own_causes: tuple[str, ...] = ()


ROOT_CAUSES = (
    RootCause(capture_overhead.RULE, capture_overhead.find),
    RootCause(checkpoint.RULE, checkpoint.find, ("file_io", "blocking_copy", "synchronization")),
    RootCause(cpu_quota.RULE, cpu_quota.find),
    RootCause(tokenizer.RULE, tokenizer.find, ("data_work",)),
    RootCause(page_faults.RULE, page_faults.find, ("file_io", "data_wait")),
    RootCause(file_reads.RULE, file_reads.find, ("data_wait",)),
    RootCause(migrations.RULE, migrations.find),
    RootCause(module_loading.RULE, module_loading.find, ("module_load",)),
    RootCause(allocator_churn.RULE, allocator_churn.find, ("allocation",)),
    RootCause(worker_start.RULE, worker_start.find),
    RootCause(pageable_copies.RULE, pageable_copies.find, ("blocking_copy", "launch")),
    RootCause(blocking_waits.RULE, blocking_waits.find, ("synchronization", "blocking_copy")),
    RootCause(optimizer_kernels.RULE, optimizer_kernels.find),
    RootCause(launch_bound.RULE, launch_bound.find),
    RootCause(uneven_steps.RULE, uneven_steps.find),
    RootCause(outside_wait.RULE, outside_wait.find),
    RootCause(untraced_wait.RULE, untraced_wait.find, ("off_cpu",)),
    RootCause(between_operations.RULE, between_operations.find),
)
