"""Root cause: the training process waits for pages of memory that are read from disk."""

from nsyswrap.attribution.idle_pieces import IdlePieces, Mask
from nsyswrap.attribution.root_cause import RootCause
from nsyswrap.events import api_calls
from nsyswrap.rules import host


def find(idle: IdlePieces, free: Mask) -> Mask:
    """Return the waits of launching threads for pages of memory: of a mapped file, or that were swapped out."""
    return idle.is_named(api_calls.PAGE_FAULT_NAME.__eq__, free & idle.is_cause("file_io", "data_wait"))


ROOT_CAUSE = RootCause(50, host.PAGE_FAULTS, find, own_causes=("file_io", "data_wait"))
