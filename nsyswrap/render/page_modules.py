"""GPU time by module as a table that folds like the model: modules, their operators, and the kernels of these."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from nsyswrap.base import units
from nsyswrap.model import Report, Section
from nsyswrap.operators.observed_calls import BACKWARD, RECOMPUTED
from nsyswrap.render import summary_model
from nsyswrap.render.document import Column, Form, Table
from nsyswrap.render.escape import shorten
from nsyswrap.sections.operators import NO_MODULE, NOT_JOINED, OUTSIDE, around

FORWARD = "forward"
# Rows of a large model would be the largest part of a page.
_MOST_ROWS: Mapping[Form, int] = MappingProxyType({"html": 240})
_MOST_KERNELS, _KERNEL_WIDTH = 3, 72
# The owner of kernels, or what tells operators apart.
_Key = tuple[str, ...]


@dataclass(slots=True)
class _Row:
    """A module, an optimizer, a line outside of modules, or an operator of equal shapes and line.

    Attributes:
        above: The row that it is part of; empty for none.
        word: The class of a module.
        line, shapes: Those of an operator.
        times: Its time by what of a pass it belongs to.
        known_ns, needed_ns: The part of its time whose peak share is known, and the time that this part needs at least.
        kernels: The kernels of an operator in words, the most time first.
    """

    above: _Key
    name: str
    word: str = ""
    line: str = ""
    shapes: str = ""
    bound: str = ""
    total_ns: int = 0
    times: dict[str, int] = field(default_factory=dict)
    needed_ns: float = 0.0
    known_ns: int = 0
    kernels: list[str] = field(default_factory=list)

    def add(self, role: str, ns: int, peak_share: float | None) -> None:
        """Add a part of its time."""
        self.total_ns += ns
        self.times[role] = self.times.get(role, 0) + ns
        if peak_share is not None:
            self.needed_ns += peak_share * ns
            self.known_ns += ns


def modules(_report: Report, section: Section) -> Iterator[Table]:
    """Yield GPU time by module, its operators and their kernels; of many rows those with most time."""
    found = _rows(section)
    keys = sorted(found, key=lambda key: _order(found, key))
    if not keys:
        return
    place, rows = {key: at for at, key in enumerate(keys)}, [found[key] for key in keys]
    roles = (
        Column(f"{role}_ns", role, "ns", [row.times.get(role) or None for row in rows])
        for role in (FORWARD, BACKWARD, RECOMPUTED)
    )
    columns = (
        Column(
            "module",
            "module, operator",
            "text",
            [row.name for row in rows],
            tags=[row.word for row in rows],
            more=[row.kernels for row in rows],
        ),
        Column("total_ns", "total", "ns", [row.total_ns for row in rows]),
        *(column for column in roles if any(column.raw)),
        Column(
            "peak_share",
            "peak share",
            "share",
            [row.needed_ns / row.known_ns if row.known_ns else None for row in rows],
        ),
        Column("bound", "bound by", "text", [row.bound for row in rows]),
        Column("line", "line", "text", [row.line for row in rows]),
        Column("shapes", "shapes, types", "text", [row.shapes for row in rows]),
    )
    parents = tuple(place.get(row.above, -1) for row in rows)
    yield Table("operators-modules", "GPU time by module", columns, is_titled=True, most=_MOST_ROWS, parents=parents)


def _order(found: Mapping[_Key, _Row], key: _Key) -> tuple[int, int]:
    """Return what sorts rows by time, the most first, and after the rows that they are part of."""
    row = found[key]
    if row.above not in found:
        return -row.total_ns, 0
    above, depth = _order(found, row.above)
    return max(-row.total_ns, above), depth + 1


def _rows(section: Section) -> dict[_Key, _Row]:
    """Return all rows; each comes after the row that it is part of."""
    found = dict(_modules(section))
    operators = summary_model.rows(section, "operators")
    for row in operators:
        types = " ".join(filter(None, (row["shapes"], row["dtypes"])))
        made = _Row((_owner(row),), row["operator"], "", row["line"], types, row["bound"])
        mine, phase = found.setdefault(_key(row), made), str(row["phase"])
        # What is in no module, such as the optimizer, need be no forward pass.
        role = phase if not row["module"] or phase in {BACKWARD, RECOMPUTED} else FORWARD
        above = () if row["module"] else (_owner(row), around(_owner(row)))
        for each in (mine, *(found[name,] for name in above if (name,) in found)):
            each.add(role, int(row["total_ns"]), row["peak_share"])
    for row in summary_model.rows(section, "kernels"):
        if (operator := found.get(_key(row))) and len(operator.kernels) < _MOST_KERNELS:
            time, launches = units.duration(int(row["total_ns"])), units.counted(int(row["count"]), "launch")
            operator.kernels.append(f"{time} in {launches} of {shorten(row['name'], _KERNEL_WIDTH)}")
    return found


def _modules(section: Section) -> Iterator[tuple[_Key, _Row]]:
    """Yield the owners; what is in no module is the sum of its operators."""
    outside = {_owner(row) for row in summary_model.rows(section, "operators") if not row["module"]}
    for row in summary_model.rows(section, "modules"):
        owner, above = str(row["module"]), around(str(row["module"]))
        name, word = owner.removeprefix(OUTSIDE), str(row["class_name"]).rpartition(".")[2]
        made = _Row((above,) if above else (), name, word, bound=row["bound"])
        if owner not in {*outside, NO_MODULE}:
            made.add("", int(row["total_ns"]), row["peak_share"])
            made.times = {role: int(row[f"{role}_ns"]) for role in (FORWARD, BACKWARD, RECOMPUTED)}
        yield (owner,), made


def _key(row: Mapping[str, Any]) -> _Key:
    """Return what tells an operator from others."""
    return (_owner(row), *(str(row[name]) for name in ("operator", "shapes", "dtypes", "line")))


def _owner(row: Mapping[str, Any]) -> str:
    """Return the row of the table of modules in which an operator is; reports of older versions do not have it."""
    return str(row.get("owner") or row["module"] or (NOT_JOINED if row["operator"] == NOT_JOINED else NO_MODULE))
