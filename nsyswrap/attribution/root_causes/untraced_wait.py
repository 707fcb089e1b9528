"""Root cause: the launching thread waits off its core, in a call that was not traced."""

from nsyswrap.attribution.idle_pieces import IdlePieces, Mask
from nsyswrap.attribution.root_cause import RootCause
from nsyswrap.events import api_calls
from nsyswrap.rules import host


def find(idle: IdlePieces, free: Mask) -> Mask:
    """Return the time off the core that switches show where operating system calls were not traced."""
    return idle.is_named(api_calls.UNTRACED_NAME.__eq__, free & idle.is_cause("off_cpu"))


ROOT_CAUSE = RootCause(170, host.UNTRACED_WAIT, find, own_causes=("off_cpu",))
