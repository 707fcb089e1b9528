# ruff: noqa: INP001 - a part of tools/judge_faults.py, not a package
"""What reports say of the planted faults: was each found first, was anything else raised, did the gain come true."""

import ast
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import fault_captures

from nsyswrap.db.load import load_export
from nsyswrap.model import Finding, Report, Severity
from nsyswrap.report import build_report

MENDED = "--mended"
NEAR = 0.25
LIMITS = """
## Limits

The programs are small and each has one fault; a real program has several, which hide one another. Three numbers of the
rules were measured on these programs themselves: what writing down a range costs, by how much pinned copies are faster,
and what dividing gradients takes. A first form of `low_occupancy` read scattered memory: mended, it was bound by memory
and gained 297 ms, where 423 ms had been promised.

What `exposed_communication` promises was worked out with captures of it in view, and with those of two other sizes of
the same network, which are not kept: 22.8 ms promised and 19.5 gained with four convolutions, 21.4 and 21.1 with images
of 112 by 112 in 128 channels. The row above is of a later run. A first form of it, eight equal matrices of 4096 by
4096, gained 10.7 ms of 25.5: there each product fills the GPU in one wave, takes two beside a collective, and makes the
collective longer too.

Programs run one after another with nothing beside them. In an earlier run reports were written while the next program
ran: that held hosts up for 4 ms at a time, and `many_ranges` and `launch_bound` measured mostly this.

## Other hosts

What the GPU does takes the same time on each machine with this GPU, what the host does not. The program `compilation`
compiles, and took 956 ms for the steps above, where two earlier machines took 793 and 1255.

All 18 programs were profiled one after another on a machine with two GPUs. All 18 faults were the first finding there,
and 17 predictions within 25 %; but three reports raised something besides (`idle/host` beside `many_ranges` and
`synchronization`, `launches/launch_bound` beside `optimizer_kernels`), four mended programs were bound by that host
(`idle/input_wait` in `few_workers` and `loading_in_the_training_process`, `idle/host` in `optimizer_kernels` and
`synchronization`), and `synchronization` gained 77.2 ms where 46.4 had been promised: its host code took different
times in the two forms. What was raised was there, but it was not planted. So these five programs now give the GPU more
work a launch, or the loader less work a sample. Their rows above are of this form, profiled in the same hour on another
machine; the other 13 rows are of the first machine.

Before, the former programs had given 18 of 18 in each column on a fast host; on a slow one, where 15 of them were
profiled, two reports raised something besides and four mended programs were bound by the host.
"""
HEAD = """# Planted faults

Each program of `workloads/faults` has one fault, and a switch that mends it. Both forms were profiled on the GPU named
below. The numbers are of the whole captures; cut short they lie in `tests/captures/faults`, where the tests read them.
`make faults` profiles them anew and writes this page.

- **first**: whether the planted fault is the report's first finding.
- **others**: other warnings and problems that the report raises with the fault, and, behind the stroke, without it.
- **predicted**: the least and the most gain that the finding promises, over the steps that both captures hold.
- **measured**: by how much these steps are shorter without the fault, of their length with it.
- **within 25 %**: whether the most that was promised is so near to the measured gain, since all of the fault is mended.

"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one planted fault; times in ns, over the steps that both captures hold.

    Attributes:
        name: Of the program.
        expected: The rule that must come first.
        found: The rule that comes first; empty for none.
        others: Other rules raised as warnings or problems.
        mended: Rules raised so without the fault.
        low_ns: The least gain that the expected finding promises; None where there is no finding or no prediction.
        high_ns: The most.
        measured_ns: By how much the steps are shorter without the fault.
        faulty_ns: How long they are with it.
        steps: How many they are.
    """

    name: str
    expected: str
    found: str
    others: tuple[str, ...]
    mended: tuple[str, ...]
    low_ns: int | None
    high_ns: int | None
    measured_ns: int
    faulty_ns: int
    steps: int

    @property
    def is_first(self) -> bool:
        """Return whether the planted fault came first."""
        return self.found == self.expected

    @property
    def is_near(self) -> bool:
        """Return whether the most that was promised is within a quarter of what mending the whole fault gained."""
        return self.high_ns is not None and abs(self.high_ns - self.measured_ns) <= NEAR * abs(self.measured_ns)


def judge(name: str, expected: str, faulty: Report, mended: Report) -> Verdict:
    """Return what two reports of one program say of the fault planted in it."""
    raised = _raised(faulty)
    mine = next((each for each in faulty.findings if each.rule == expected), None)
    common, scale = _common_steps(faulty, mended)
    with_it, without = (_length(report, common) for report in (faulty, mended))
    return Verdict(
        name=name,
        expected=expected,
        found=faulty.findings[0].rule if faulty.findings else "",
        others=tuple(dict.fromkeys(each.rule for each in raised if each.rule != expected)),
        mended=tuple(dict.fromkeys(each.rule for each in _raised(mended))),
        low_ns=_scaled(mine.gain_low_ns if mine else None, scale),
        high_ns=_scaled(mine.gain_high_ns if mine else None, scale),
        measured_ns=with_it - without,
        faulty_ns=with_it,
        steps=len(common),
    )


def _scaled(gain: int | None, scale: float) -> int | None:
    return None if gain is None else round(gain * scale)


def _raised(report: Report) -> list[Finding]:
    return [each for each in report.findings if each.severity is not Severity.NOTE]


def _steps(report: Report) -> dict[str, tuple[int, int]]:
    """Return start and end of each steady step, by name."""
    section = report.section("steps")
    if section is None:
        return {}
    table = section.tables["steps"]
    table = table[~table["warm_up"].astype(bool)]
    return dict(zip(table["name"], zip(table["start_ns"], table["end_ns"], strict=True), strict=True))


def _common_steps(faulty: Report, mended: Report) -> tuple[list[str], float]:
    """Return the steady steps that both have, and how much of the first one's they are."""
    with_it, without = _steps(faulty), _steps(mended)
    common = [name for name in with_it if name in without]
    return common, len(common) / max(len(with_it), 1)


def _length(report: Report, names: list[str]) -> int:
    """Return how long the report's program took from the start of the first to the end of the last of some steps."""
    steps = _steps(report)
    return steps[names[-1]][1] - steps[names[0]][0] if names else 0


def expectations(folder: Path) -> dict[str, str]:
    """Return the rule that each program of a folder plants a fault for."""
    found = {}
    for path in sorted(folder.glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "EXPECTS":
                found[path.stem] = ast.literal_eval(node.value)[""][0]
    return found


def reports(captures: Path, name: str) -> tuple[Report, Report]:
    """Return the reports of a program with its fault and without it, from the captures in a folder."""
    with tempfile.TemporaryDirectory() as folder:
        exports = (
            fault_captures.unpack(captures / f"{name}{form}.sqlite.xz", Path(folder)) for form in ("", "-mended")
        )
        faulty, mended = (build_report(load_export(export)) for export in exports)
    return faulty, mended


def judged(captures: Path, programs: Path) -> Iterator[tuple[Verdict, Report]]:
    """Yield the verdict on each program whose captures are both there, and the report of its fault."""
    for name, expected in expectations(programs).items():
        if all((captures / f"{name}{form}.sqlite.xz").exists() for form in ("", "-mended")):
            faulty, mended = reports(captures, name)
            yield judge(name, expected, faulty, mended), faulty


def page(captures: Path, programs: Path) -> str:
    """Return the page about all programs whose captures are there."""
    found = list(judged(captures, programs))
    verdicts = [verdict for verdict, _ in found]
    machines = sorted({f"{gpu.name}, nsys {report.session.nsys_version}" for _, report in found for gpu in report.gpus})
    lines = [
        "| program | planted | first | others | steps | predicted, ms | measured, ms | within 25 % |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(each) for each in verdicts),
        "",
        _summary(verdicts),
        "",
        f"Captured on: {'; '.join(machines) or 'nothing yet'}.",
    ]
    left_out = sorted(set(expectations(programs)) - {each.name for each in verdicts})
    if left_out:
        lines += ["", f"Not captured: {', '.join(f'`{name}`' for name in left_out)}."]
    return HEAD + "\n".join(lines) + "\n" + LIMITS


def _summary(verdicts: list[Verdict]) -> str:
    return (
        f"{sum(each.is_first for each in verdicts)} of {len(verdicts)} planted faults are the first finding; "
        f"{sum(not each.others for each in verdicts)} reports raise nothing else, and "
        f"{sum(not each.mended for each in verdicts)} raise nothing without the fault; "
        f"{sum(each.is_near for each in verdicts)} predictions are within 25 % of what was measured."
    )


def _row(verdict: Verdict) -> str:
    def rules(names: tuple[str, ...]) -> str:
        return ", ".join(f"`{name}`" for name in names) or "none"

    def ms(time_ns: int | None) -> str:
        return "-" if time_ns is None else re.sub(r"^-0\.0$", "0.0", f"{time_ns / 1e6:.1f}")

    first = "yes" if verdict.is_first else f"no: `{verdict.found or 'nothing'}`"
    predicted = "-" if verdict.low_ns is None else f"{ms(verdict.low_ns)} to {ms(verdict.high_ns)}"
    cells = (
        f"`{verdict.name}`",
        f"`{verdict.expected}`",
        first,
        f"{rules(verdict.others)} / {rules(verdict.mended)}",
        str(verdict.steps),
        predicted,
        f"{ms(verdict.measured_ns)} of {ms(verdict.faulty_ns)}",
        "yes" if verdict.is_near else "no",
    )
    return f"| {' | '.join(cells)} |"
