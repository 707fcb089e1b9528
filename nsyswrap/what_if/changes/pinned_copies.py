"""The change "pinned memory"."""

from nsyswrap.rules import idle
from nsyswrap.rules.copies import PAGEABLE
from nsyswrap.what_if.affected_parts import copies_and_their_waits, pinned_factor, spans_of_calls, staged_copies
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import Fix
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation


def pinned_copies(simulation: Simulation, _lost: object = None) -> WhatIf:
    """Return the change "pinned memory": staged copies and waits after them do not block the host, and run faster."""
    copies = staged_copies(simulation)
    rows = copies_and_their_waits(simulation, copies)
    factor, known = pinned_factor(simulation, copies)
    rate = "run at the rate of pinned copies" if known else "run as before: the rate of pinned copies is not known here"
    change = Change(waits=rows, host=spans_of_calls(simulation, rows), operations=copies, factor=factor)
    return WhatIf(change, f"copies and waits after them do not block the host, and copies {rate}")


FIXES = (Fix((idle.BLOCKING_COPY, PAGEABLE), pinned_copies),)
