"""Migrations of managed memory: pages that move between host and GPU without a call, because somebody touched them."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nsyswrap.base.memo import memo
from nsyswrap.loop.context import TraceContext
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array

# Why a page moved. Source: CUpti_ActivityUnifiedMemoryMigrationCause in cupti_activity.h.
PREFETCHED, EVICTED = 1, 4


class Migrations(NamedTuple):
    """The copies of managed memory that no call launched, as masks over the operations.

    Attributes:
        by_faults: Those that an access started, by a page fault, speculation or access counters. Exports without a
            cause have page faults.
        evicted: Those that made room on the GPU for other pages.
    """

    by_faults: npt.NDArray[np.bool_]
    evicted: npt.NDArray[np.bool_]


@memo
def find_migrations(context: TraceContext) -> Migrations:
    """Return which operations are migrations of managed memory that the program did not ask for."""
    operations, copies = context.operations, context.trace[tables.COPIES]
    cause = np.full(len(operations.start), PREFETCHED, np.int32)
    rows = operations.from_table(tables.COPIES)
    cause[rows] = array(copies, "migration_cause")[operations.row[rows]]
    unasked = operations.migration & (cause != PREFETCHED)
    return Migrations(unasked, unasked & (cause == EVICTED))
