"""Root cause: the launching thread waits off its core, in a call that was not traced."""

import re

import numpy as np

from nsyswrap.attribution.idle_pieces import IdlePieces, Mask
from nsyswrap.events import api_calls

RULE = "host/untraced_wait"
_NAME = re.compile(f"{api_calls.UNTRACED_NAME}$")


def find(idle: IdlePieces, free: Mask) -> Mask:
    """Return the time off the core that switches show where operating system calls were not traced."""
    found, rows = idle.none, np.flatnonzero(free & idle.is_cause("off_cpu"))
    found[rows] = idle.is_named(_NAME, rows)
    return found
