"""The changes that fix rules of idle time, one file a subject: each says which rules it fixes."""

from collections.abc import Mapping
from types import MappingProxyType

from nsyswrap.base.package_modules import modules_of
from nsyswrap.what_if.changes.idle_host import OTHER
from nsyswrap.what_if.fix import Fix

FIXES: Mapping[str, Fix] = MappingProxyType(
    {rule.key: fix for each in modules_of(__name__, __path__) for fix in each.FIXES for rule in fix.rules}
)
"""The fix of each rule of idle time that has one of its own, by key."""


def fix_of(rule: str) -> Fix:
    """Return the fix of a rule of idle time; where it has none of its own, the host saves its time."""
    return FIXES.get(rule, OTHER)
