"""Root cause: loader processes are started again, for example for each epoch."""

from nsyswrap.attribution.idle_pieces import DATA_CAUSES, IdlePieces, Mask
from nsyswrap.attribution.loader_starts import find_starts
from nsyswrap.attribution.root_cause import RootCause
from nsyswrap.base.intervals import containing
from nsyswrap.rules import data


def find(idle: IdlePieces, free: Mask) -> Mask:
    """Return the pieces of gaps in which loader processes are started, where that happens in more than one step."""
    starts = find_starts(idle.context, idle.window)
    if not len(starts):
        return idle.none
    where = containing(idle.gaps.spans, starts)
    started = idle.none[: len(idle.first)]
    started[where[where >= 0]] = True
    return free & started[idle.gap] & idle.is_cause(*DATA_CAUSES, "cpu", "unknown", "lock", "file_io", "off_cpu")


ROOT_CAUSE = RootCause(100, data.WORKER_START, find)
