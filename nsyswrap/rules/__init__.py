"""The rules of findings: one record a rule, one file a family, and all of them by key.

The code that finds a rule imports its record. All other code gets the record by the key that a finding has.
"""

from collections.abc import Mapping
from types import MappingProxyType

from nsyswrap.rules import (
    capture,
    communication,
    compute,
    copies,
    data,
    gpu,
    graphs,
    host,
    idle,
    launches,
    memory,
    modules,
    occupancy,
    optimizer,
    ranks,
    steps,
    synchronization,
    tensor_cores,
)
from nsyswrap.rules.code import COMPILED, COMPILED_WITH_GRAPHS, CodeChange
from nsyswrap.rules.program_kind import UNKNOWN, ProgramKind
from nsyswrap.rules.rule import Rule

FAMILIES = (
    *(idle, capture, modules, memory, data, host, gpu, copies, synchronization, optimizer, launches, steps),
    *(communication, graphs, compute, ranks, occupancy, tensor_cores),
)
RULES: Mapping[str, Rule] = MappingProxyType(
    {each.key: each for family in FAMILIES for each in vars(family).values() if isinstance(each, Rule)}
)
"""All rules, by key."""
CAUSES: Mapping[str, Rule] = MappingProxyType(
    {each.own_name: each for each in vars(idle).values() if isinstance(each, Rule)}
)
"""The rules of the causes of idle time, by cause."""


def rule_of(key: str) -> Rule:
    """Return the rule with a key; one with the words of its key as its name where the key is of another version."""
    found = RULES.get(key)
    return found if found is not None else Rule(key=key, name=key.replace("/", ": ", 1).replace("_", " "))


def rule_name(key: str) -> str:
    """Return the name of a rule."""
    return rule_of(key).name


def cause_name(cause: str) -> str:
    """Return the name of a cause of idle time; the words of its key where it has no name."""
    return CAUSES[cause].name if cause in CAUSES else cause.replace("_", " ")


def code_changes(key: str, advice: str = "", kind: ProgramKind = UNKNOWN) -> tuple[CodeChange, ...]:
    """Return the change for a finding as code, PyTorch's first; empty where no few lines make it.

    Args:
        key: Key of the finding's rule.
        advice: Its advice, which may be that of another rule, as for a rank that is late, or of a case of the rule.
        kind: What kind of program it is; there is code for PyTorch alone.
    """
    if not kind.is_pytorch:
        return ()
    known = (each for rule in RULES.values() for each in (rule, *rule.cases) if each.code and each.advice)
    found = next((each.code for each in known if kind.fitted(each.advice) == advice), rule_of(key).code)
    return COMPILED_WITH_GRAPHS if kind.uses_graphs and found == COMPILED else found
