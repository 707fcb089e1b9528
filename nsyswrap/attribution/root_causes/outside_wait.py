"""Root cause: the step waits for another process, the network or a timer, outside the data phase."""

from nsyswrap.attribution.idle_pieces import IdlePieces, Mask
from nsyswrap.attribution.root_cause import RootCause
from nsyswrap.events import api_calls
from nsyswrap.rules import host


def find(idle: IdlePieces, free: Mask) -> Mask:
    """Return the waits in calls such as recv, poll, waitpid and sleep; a loader's are waits for data instead."""
    return idle.in_os_call(api_calls.OTHER_WAIT, free & idle.is_cause("cpu"))


ROOT_CAUSE = RootCause(160, host.OUTSIDE_WAIT, find)
