"""Root cause: the launching thread waits off its core, in a call that was not traced."""

import re

import numpy as np

from nsyswrap.attribution.idle_pieces import IdlePieces, Mask
from nsyswrap.attribution.root_cause import RootCause
from nsyswrap.events import api_calls
from nsyswrap.rules import host

_NAME = re.compile(f"{api_calls.UNTRACED_NAME}$")


def find(idle: IdlePieces, free: Mask) -> Mask:
    """Return the time off the core that switches show where operating system calls were not traced."""
    found, rows = idle.none, np.flatnonzero(free & idle.is_cause("off_cpu"))
    found[rows] = idle.is_named(_NAME, rows)
    return found


ROOT_CAUSE = RootCause(170, host.UNTRACED_WAIT, find, own_causes=("off_cpu",))
