"""Module and line of Python that launch the kernels of a finding, where the capture shows operators."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from nsyswrap.base import units
from nsyswrap.model import Finding, Report
from nsyswrap.render import summary_model


class CodePlace(NamedTuple):
    """Where kernels are launched: the line with most of their time, and the modules that it runs in.

    Attributes:
        line: Such as "train.py:40".
        modules: The module with most of that time, and how many more there are; empty for none.
        share: Share of the kernels' time.
    """

    line: str
    modules: str
    share: float

    @property
    def words(self) -> str:
        """Return the place in words."""
        where = f"{self.line} in {self.modules}" if self.modules else self.line
        return f"Launched most: {where}, {units.share(self.share)} of the kernel time"


def place_of(report: Report, finding: Finding) -> CodePlace | None:
    """Return where the kernels are launched that the evidence of a finding names; None where that is not known."""
    lines = [each for each in finding.evidence if " of " in each]
    return _place([row for row in _kernels(report) if any(line.endswith(f" of {row['name']}") for line in lines)])


def place_of_all(report: Report) -> CodePlace | None:
    """Return where most time of all kernels is launched; None where that is not known."""
    return _place(list(_kernels(report)))


def named(times: dict[str, int], noun: str = "more") -> str:
    """Return the name with most time, and how many more there are; empty for none."""
    if not times:
        return ""
    first = min(times, key=lambda name: (-times[name], name))
    return first if len(times) == 1 else f"{first} and {units.count(len(times) - 1)} {noun}"


def _kernels(report: Report) -> Iterator[dict[str, Any]]:
    return iter(summary_model.rows(report.section("operators"), "kernels"))


def _place(kernels: list[dict[str, Any]]) -> CodePlace | None:
    times: dict[str, dict[str, int]] = {}
    for row in kernels:
        modules = times.setdefault(str(row["line"]), {})
        modules[str(row["module"])] = modules.get(str(row["module"]), 0) + int(row["total_ns"])
    whole, known = sum(int(row["total_ns"]) for row in kernels), {line: times[line] for line in times if line}
    if not known:
        return None
    line = min(known, key=lambda each: (-sum(known[each].values()), each))
    modules = {module: ns for module, ns in known[line].items() if module}
    return CodePlace(line, named(modules, "more modules"), sum(known[line].values()) / max(whole, 1))
