"""Root cause: the training process reads files for the next batch itself."""

from nsyswrap.attribution.idle_pieces import IdlePieces, Mask
from nsyswrap.attribution.root_cause import RootCause
from nsyswrap.events import api_calls
from nsyswrap.rules import host


def find(idle: IdlePieces, free: Mask) -> Mask:
    """Return the waits of the data phase in calls on files, in processes without loader workers.

    A process with workers reads from them through pipes, with the same calls.
    """
    reads = free & idle.is_cause("data_wait")
    if reads.any():
        reads = idle.in_os_call(api_calls.FILE_IO, reads) & ~idle.has_loader()
    return reads


ROOT_CAUSE = RootCause(60, host.FILE_READS, find, own_causes=("data_wait",))
