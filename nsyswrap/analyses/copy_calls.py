"""Which copies hold the host until they are done: one rule for the copies and for what idle time is explained by.

Source: "API synchronization behavior" in the CUDA Runtime API reference. A call without Async returns when the data has
moved, but for copies inside a device or between two, which no host waits for; one with Async does the same where memory
at an end is pageable.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables
from nsyswrap.analyses.call_kinds import BLOCKING_COPY, base_name, call_kind, is_copy
from nsyswrap.intervals import Indices
from nsyswrap.tables import Trace, array

PAGEABLE, DEVICE = "Pageable", "Device"
# Directions without the host. Source: the labels of copy kinds in an export.
INSIDE = ("Device-to-Device", "Peer-to-Peer")

Mask = npt.NDArray[np.bool_]


def is_pageable(trace: Trace, rows: Indices) -> Mask:
    """Return which rows of ``trace[COPIES]`` copy from or to pageable memory."""
    return np.logical_or(*_ends(trace, rows, PAGEABLE))


def holds_host(trace: Trace, rows: Indices, call: Indices) -> Mask:
    """Return which copies hold the host until they are done.

    Args:
        trace: The tables of one export.
        rows: Rows of ``trace[COPIES]``.
        call: The row in ``trace[CALLS]`` of the call of each; -1 where it is unknown: of these none holds the host. A
            copy inside a CUDA graph belongs to the graph's launch, which does not wait for it.
    """
    copying, held = _calls(trace, call)
    kinds = [kind for kind, label in trace.copy_kinds.items() if label in INSIDE]
    inside = np.isin(array(trace[tables.COPIES], "copy_kind")[rows], kinds)
    inside |= np.logical_and(*_ends(trace, rows, DEVICE))
    found: Mask = copying & (is_pageable(trace, rows) | (held & ~inside))
    return found


def _ends(trace: Trace, rows: Indices, label: str) -> tuple[Mask, Mask]:
    """Return which copies are from memory of a kind, and which are to it."""
    wanted = [kind for kind, each in trace.memory_kinds.items() if each == label]
    copies = trace[tables.COPIES]
    return np.isin(array(copies, "source_kind")[rows], wanted), np.isin(array(copies, "target_kind")[rows], wanted)


def _calls(trace: Trace, call: Indices) -> tuple[Mask, Mask]:
    """Return which calls copy, and which of these hold the host by their name; a launch of a graph does neither."""
    known = call >= 0
    copying, held = np.zeros(len(call), bool), np.zeros(len(call), bool)
    codes, ids = pd.factorize(array(trace[tables.CALLS], "name_id")[call[known]])
    names = [base_name(trace.text(int(each))) for each in ids]
    copying[known] = np.array([is_copy(name) for name in names], bool)[codes]
    held[known] = np.array([call_kind(name) == BLOCKING_COPY for name in names], bool)[codes]
    return copying, held
