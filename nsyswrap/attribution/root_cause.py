"""What a root cause of idle time is: its rule, and the function that finds the pieces that it explains."""

from collections.abc import Callable
from typing import NamedTuple

from nsyswrap.attribution.idle_pieces import IdlePieces, Mask
from nsyswrap.rules.rule import Rule


class RootCause(NamedTuple):
    """One root cause.

    Attributes:
        place: When it is tried: the root cause with the lowest number first.
        rule: Rule of its finding.
        find: Returns the pieces that it explains, given all pieces and a mask of those not explained yet.
        own_causes: Causes of the idle time inside its own calls; empty where the root cause is not a kind of call.
        has_section: Whether another section than that on idle time makes its findings.
    """

    place: int
    rule: Rule
    find: Callable[[IdlePieces, Mask], Mask]
    own_causes: tuple[str, ...] = ()
    has_section: bool = False
