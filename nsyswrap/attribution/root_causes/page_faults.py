"""Root cause: the training process waits for pages of memory that are read from disk."""

import re

import numpy as np

from nsyswrap.attribution.idle_pieces import IdlePieces, Mask
from nsyswrap.attribution.root_cause import RootCause
from nsyswrap.events import api_calls
from nsyswrap.rules import host

_NAME = re.compile(f"{api_calls.PAGE_FAULT_NAME}$")


def find(idle: IdlePieces, free: Mask) -> Mask:
    """Return the waits of launching threads for pages of memory: of a mapped file, or that were swapped out."""
    found, rows = idle.none, np.flatnonzero(free & idle.is_cause("file_io", "data_wait"))
    found[rows] = idle.is_named(_NAME, rows)
    return found


ROOT_CAUSE = RootCause(50, host.PAGE_FAULTS, find, own_causes=("file_io", "data_wait"))
