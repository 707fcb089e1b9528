"""What stands behind the causes of idle time, one file a root cause, in the order in which they are tried.

A cause says what the host did while the GPU was idle. Often that has a reason of its own: the CPU runs between two
launches because a copy held the host until the GPU had nothing left, or a step waits for data because its loader
processes have just been started. A root cause takes whole pieces of idle time; what none takes keeps its cause::

    GPU          ####|..............gap...............|####
    T            .item()  |    cpu      |   launch    |
    cause        synchro. |    cpu      |   launch    |
    root cause   |-------- synchronization -----------|

The first that takes a piece has it, so no nanosecond has two. Whether a report prints a finding has no part in it.
"""

from collections.abc import Callable
from typing import NamedTuple

from nsyswrap.attribution.idle_pieces import IdlePieces, Mask
from nsyswrap.attribution.root_causes import (
    allocator_churn,
    between_operations,
    blocking_waits,
    capture_overhead,
    launch_bound,
    module_loading,
    optimizer_kernels,
    pageable_copies,
    uneven_steps,
    worker_start,
)


class RootCause(NamedTuple):
    """One root cause.

    Attributes:
        rule: Rule of its finding.
        find: Returns which pieces it explains, given the pieces and which of them are still free.
        own_causes: Where the root cause is a kind of call: the causes of idle time inside such calls.
    """

    rule: str
    find: Callable[[IdlePieces, Mask], Mask]
    own_causes: tuple[str, ...] = ()


ROOT_CAUSES = (
    RootCause(capture_overhead.RULE, capture_overhead.find),
    RootCause(module_loading.RULE, module_loading.find, ("module_load",)),
    RootCause(allocator_churn.RULE, allocator_churn.find, ("allocation",)),
    RootCause(worker_start.RULE, worker_start.find),
    RootCause(pageable_copies.RULE, pageable_copies.find, ("blocking_copy", "launch")),
    RootCause(blocking_waits.RULE, blocking_waits.find, ("synchronization", "blocking_copy")),
    RootCause(optimizer_kernels.RULE, optimizer_kernels.find),
    RootCause(launch_bound.RULE, launch_bound.find),
    RootCause(uneven_steps.RULE, uneven_steps.find),
    RootCause(between_operations.RULE, between_operations.find),
)
