"""Where the program calls what launches kernels: module and line, for findings that name them."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from nsyswrap.base import units
from nsyswrap.base.intervals import Indices, Times
from nsyswrap.loop.context import TraceContext
from nsyswrap.operators.join import find_launchers, has_operators
from nsyswrap.operators.observed_calls import OperatorCall

# So many kernels, places or gaps stand in the evidence of a finding: as many as one reads. Ours.
LISTED = 3


class Place(NamedTuple):
    """Where the program calls something: a module and a line; either may be empty."""

    module: str
    line: str

    @classmethod
    def of(cls, call: OperatorCall) -> "Place":
        """Return the place of a call of an operator."""
        return cls(call.module, call.line)

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.module} ({self.line})" if self.module and self.line else self.module or self.line


def time_by_place(calls: Sequence[OperatorCall], call: Indices, ns: Times) -> dict[Place, int]:
    """Return the time of kernels with a known place, by that place, the most time first, in ns.

    Args:
        calls: The calls of operators.
        call: Index into them of each kernel; -1 for none.
        ns: Time of each kernel.
    """
    time: Counter[Place] = Counter()
    for at, each in zip(call.tolist(), ns.tolist(), strict=True):
        if at >= 0 and str(place := Place.of(calls[at])):
            time[place] += each
    return dict(sorted(time.items(), key=lambda each: (-each[1], each[0])))


def place_lines(context: TraceContext, rows: Indices, ns: Times) -> tuple[str, ...]:
    """Return one line for each of the places in which kernels take most time; none where no place is known.

    Args:
        context: The trace, its events and its loop.
        rows: Rows of the context's operations.
        ns: Time of each.
    """
    if not has_operators(context):
        return ()
    found = find_launchers(context)
    places = time_by_place(found.calls, found.call[rows], ns)
    return tuple(f"{units.duration(time)} in {place}" for place, time in list(places.items())[:LISTED] if time)
