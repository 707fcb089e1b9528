"""Root cause: the training process turns text into tokens inside the step."""

from nsyswrap.attribution.idle_pieces import IdlePieces, Mask
from nsyswrap.events import api_calls

RULE = "host/tokenizer"


def find(idle: IdlePieces, free: Mask) -> Mask:
    """Return the pieces inside marked calls of a tokenizer in which the CPU works or waits for the tokenizer's threads."""
    return free & idle.is_marked(api_calls.TOKENIZER) & idle.is_cause("data_work", "data_wait", "cpu", "lock", "unknown")
