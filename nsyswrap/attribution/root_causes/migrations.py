"""Root cause: the host touches managed memory page by page, and each page fault moves a page from or to the GPU."""

import numpy as np

from nsyswrap.attribution.copy_table import find_migrations
from nsyswrap.attribution.idle_pieces import IdlePieces, Mask
from nsyswrap.attribution.root_cause import RootCause
from nsyswrap.base.intervals import places
from nsyswrap.base.rows import taken
from nsyswrap.rules import memory

# A page fault takes tens of microseconds from the access to the copy. In a longer gap before a migration the host did
# something else before it touched the page. Source: NVIDIA, "Maximizing Unified Memory Performance in CUDA".
FAULT_NS = 100_000


def find(idle: IdlePieces, free: Mask) -> Mask:
    """Return the pieces of gaps that end with a migration which a page fault started, and are no longer than a fault.

    ::

        GPU    kernel#|..gap..|copy|..gap..|copy|..gap..|copy|
        host   ...waits| reads a page: fault | reads the next: fault |
    """
    operations = idle.context.operations
    by_faults = find_migrations(idle.context).by_faults
    mine = operations.on(idle.device_id)
    mine = taken(mine, taken(by_faults, mine))
    if not len(mine):
        return idle.none
    start, spans = taken(operations.start, mine), idle.gaps.spans
    at = places(start, spans.end, side="left")
    ends = (at < len(start)) & (taken(start, np.minimum(at, len(start) - 1)) == spans.end)
    ends &= spans.end - spans.start <= FAULT_NS
    found: Mask = free & taken(ends, idle.gap) & ~idle.is_cause("not_traced")
    return found


ROOT_CAUSE = RootCause(70, memory.MIGRATIONS, find, has_section=True)
