"""Where the program calls what launches kernels: module and line, for findings that name them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nsyswrap.base import units
from nsyswrap.base.intervals import Indices, Times
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import IN_MODULE, LAUNCHED_AT
from nsyswrap.operators.join import find_launchers, has_operators
from nsyswrap.operators.observed_calls import OperatorCall

# So many kernels, places or gaps are in the evidence of a finding: as many as a reader takes in. Ours.
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
    """Return the time of kernels with a known place, by that place, the most time first, in ns."""
    time: Counter[Place] = Counter()
    for at, each in zip(call.tolist(), ns.tolist(), strict=True):
        if at >= 0 and str(place := Place.of(calls[at])):
            time[place] += each
    return dict(sorted(time.items(), key=lambda each: (-each[1], each[0])))


def place_lines(context: TraceContext, rows: Indices, ns: Times, start: str = LAUNCHED_AT) -> tuple[str, ...]:
    """Return the lines that launch most of some operations, as ``lines_of`` does; none where no line is known.

    ``ns`` is the time of each operation, or before each.
    """
    if not has_operators(context):
        return ()
    found = find_launchers(context)
    return lines_of(time_by_place(found.calls, found.call[rows], ns), int(ns.sum()), start)


def lines_of(places: Mapping[Place, int], whole_ns: int, start: str = LAUNCHED_AT) -> tuple[str, ...]:
    """Return the lines of the program with most time, as evidence: the first one says its share of the whole time."""
    by_line: dict[str, dict[str, int]] = {}
    for (module, line), ns in places.items():
        by_line.setdefault(line, {})[module] = ns
    times = {_where(line, modules): sum(modules.values()) for line, modules in by_line.items() if line}
    (first, ns), *others = sorted(times.items(), key=lambda each: (-each[1], each[0])) or (("", 0),)
    if not ns:
        return ()
    rest = (f"{units.duration(ns)} at {where}" for where, ns in others[: LISTED - 1] if ns)
    return (f"{start}{first}, {units.share(ns / max(whole_ns, 1))} of the time", *rest)


def _where(line: str, modules: Mapping[str, int]) -> str:
    """Return a line and the modules that it runs in, in words."""
    named = sorted((each for each in modules if each), key=lambda each: (-modules[each], each))
    more = f" and {units.count(len(named) - 1)} more" if named[1:] else ""
    return f"{line}{IN_MODULE}{named[0]}{more}" if named else line
