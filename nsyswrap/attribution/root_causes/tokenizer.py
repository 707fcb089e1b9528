"""Root cause: the training process turns text into tokens inside the step."""

from nsyswrap.attribution.idle_pieces import IdlePieces, Mask
from nsyswrap.attribution.root_cause import RootCause
from nsyswrap.events import api_calls
from nsyswrap.rules import host


def find(idle: IdlePieces, free: Mask) -> Mask:
    """Return the pieces inside marked calls of a tokenizer: its work, and waits for its threads."""
    return (
        free & idle.is_marked(api_calls.TOKENIZER) & idle.is_cause("data_work", "data_wait", "cpu", "lock", "unknown")
    )


ROOT_CAUSE = RootCause(40, host.TOKENIZER, find, own_causes=("data_work",))
