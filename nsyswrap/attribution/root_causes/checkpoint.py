"""Root cause: the step writes or reads a checkpoint (torch.save, torch.load)."""

from nsyswrap.attribution.idle_pieces import IdlePieces, Mask
from nsyswrap.attribution.root_cause import RootCause
from nsyswrap.events import api_calls
from nsyswrap.rules import host


def find(idle: IdlePieces, free: Mask) -> Mask:
    """Return the pieces inside marked calls of torch.save and torch.load: files, copies to the host and pickling.

    Time without a core, and launches that come late, are no part of the checkpoint.
    """
    return free & idle.is_marked(api_calls.CHECKPOINT) & ~idle.is_cause("off_cpu", "queued", "not_traced")


ROOT_CAUSE = RootCause(20, host.CHECKPOINT, find, own_causes=("file_io", "blocking_copy", "synchronization"))
