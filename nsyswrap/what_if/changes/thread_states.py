"""The changes that save the time of one state of the launching threads."""

from functools import partial

from nsyswrap.events import api_calls
from nsyswrap.rules import idle
from nsyswrap.what_if.affected_parts import in_states
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import Fix
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation


def _saved_in(kinds: tuple[int, ...], what: str, simulation: Simulation, _lost: object = None) -> WhatIf:
    return WhatIf(Change(host=in_states(simulation, kinds)), f"no time {what}")


FIXES = (
    Fix((idle.PEER_WAIT,), partial(_saved_in, (api_calls.PEER_RANK_WAIT,), "in calls that wait for other ranks")),
    Fix((idle.LOCK,), partial(_saved_in, (api_calls.LOCK_WAIT,), "waiting for a lock")),
    Fix((idle.OFF_CPU,), partial(_saved_in, (api_calls.OFF_CPU,), "off the CPU")),
    Fix((idle.GARBAGE_COLLECTION,), partial(_saved_in, (api_calls.GARBAGE_COLLECTION,), "in garbage collection")),
    Fix((idle.FILE_IO,), partial(_saved_in, (api_calls.FILE_IO, api_calls.CHECKPOINT), "in calls on files")),
)
