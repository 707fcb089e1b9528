"""What limits the step of each cell, and between which values of an axis that changes."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from nsyswrap.rules import rule_name, rule_of
from nsyswrap.rules.rule import Group
from nsyswrap.sweep.results import CellResult, StepPart, Sweep
from nsyswrap.sweep.spec import Axis

_ROWS = {
    "compute_ns": Group.COMPUTE,
    "communication_wait_ns": Group.COMMUNICATION,
    "communication_transfer_ns": Group.COMMUNICATION,
    "copy_exposed_ns": Group.COPIES,
    "memset_exposed_ns": Group.COPIES,
}


class Limit(NamedTuple):
    """What takes the largest part of a step.

    Attributes:
        rule: Rule with most of its idle time; empty where it is not idle time.
    """

    group: Group
    share: float
    rule: str

    @property
    def words(self) -> str:
        """Return it as a phrase: ``launch-bound kernels (host)``."""
        name = rule_name(self.rule) if self.rule else self.group.value
        return name if self.group.value in name else f"{name} ({self.group.value})"


class LimitChange(NamedTuple):
    """Two neighbouring cells of an axis with other limits."""

    axis: str
    others: tuple[tuple[str, str], ...]
    before: str
    after: str
    limit_before: Limit
    limit_after: Limit


def group_of(part: StepPart) -> Group:
    """Return what a part of a step is spent on; idle time by the rule that it belongs to."""
    found = _ROWS.get(part.row)
    if found is not None:
        return found
    return rule_of(part.rule).group


def groups_of(result: CellResult) -> dict[Group, float]:
    """Return the time per step of each group, in ns; they add up to the step."""
    sums = dict.fromkeys(Group, 0.0)
    for part in result.parts:
        sums[group_of(part)] += part.step_ns
    return sums


def limit_of(result: CellResult) -> Limit | None:
    """Return what limits a cell; None without GPU work."""
    whole = result.step_ns
    if not whole:
        return None
    sums = groups_of(result)
    group = max(sums, key=lambda each: sums[each])
    idle = [part for part in result.parts if part.rule and group_of(part) is group]
    most = max(idle, key=lambda part: part.step_ns, default=None)
    return Limit(group, sums[group] / whole, most.rule if most and most.step_ns else "")


def lines_of(cells: Sequence[CellResult], axis: Axis) -> Iterator[tuple[tuple[tuple[str, str], ...], list[CellResult]]]:
    """Yield the cells that differ on one axis only, in the order of its values, with their values on the others.

    A line whose cells are all the same as those of another line is left out.
    """
    place = {value.name: at for at, value in enumerate(axis.values)}
    lines: dict[tuple[tuple[str, str], ...], list[CellResult]] = {}
    for each in cells:
        lines.setdefault(each.cell.others(axis.name), []).append(each)
    for others, found in lines.items():
        if all(each.cell.same_as for each in found):
            continue
        yield others, sorted(found, key=lambda each: place[each.cell.value(axis.name)])


def limit_changes(sweep: Sweep) -> tuple[LimitChange, ...]:
    """Return where the limit changes from one value of an axis of numbers to the next."""
    found = []
    varied = {axis.name for axis in sweep.spec.axes if len(axis.values) > 1}
    for axis in sweep.spec.axes:
        if any(value.number is None for value in axis.values):
            continue
        for others, line in lines_of(sweep.measured(), axis):
            for left, right in pairwise(line):
                one, other = limit_of(left), limit_of(right)
                if one and other and one.group is not other.group:
                    values = left.cell.value(axis.name), right.cell.value(axis.name)
                    shown = tuple(each for each in others if each[0] in varied)
                    found.append(LimitChange(axis.name, shown, *values, one, other))
    return tuple(found)
