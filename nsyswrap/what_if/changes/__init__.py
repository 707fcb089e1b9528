"""The changes that fix rules of idle time, one file a subject: each says which rules it fixes."""

from collections.abc import Mapping
from types import MappingProxyType

from nsyswrap.base.package_modules import modules_of
from nsyswrap.rules import idle
from nsyswrap.what_if.changes.cuda_graphs import GRAPHS
from nsyswrap.what_if.changes.idle_host import OTHER
from nsyswrap.what_if.fix import Fix, LostTime

FIXES: Mapping[str, Fix] = MappingProxyType(
    {rule.key: fix for each in modules_of(__name__, __path__) for fix in each.FIXES for rule in fix.rules}
)
"""The fix of each rule of idle time that has one of its own, by key."""


def fix_of(lost: LostTime) -> Fix:
    """Return the fix of a rule of idle time as its advice says; where it has none, the host saves its time."""
    return GRAPHS if lost.advice == idle.LAUNCH_LESS.advice else FIXES.get(lost.rule, OTHER)
