"""Compare reports with the planted faults: their first finding, other findings, and predicted and measured savings."""

import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import fault_captures
from fault_programs import Program, by_root_cause

from nsyswrap.capture_file import with_recorded, xray_of
from nsyswrap.events.blocked_calls import name_blocked_calls
from nsyswrap.events.host_record import read_record
from nsyswrap.hardware.link_rates import read_rates
from nsyswrap.loop.context import Settings
from nsyswrap.model import Finding, Report, Severity
from nsyswrap.report import build_report
from nsyswrap.trace.load import load_export

FORMS = ("", "-fixed")
# The rates of pinned copies, as `profile` measured them on one of the machines; all had the same GPU and link.
COPY_RATES = Path(__file__).resolve().parent.parent / "tests" / "captures" / "faults" / "copy_rates.json"
NEAR = 0.25
# Times from 100 ms on are written without decimals.
WHOLE_NS = 100_000_000
NO_GPU = "no GPU"
HEAD = """# Planted faults

Each program of `workloads/faults` has one fault, and a switch, `--fixed`, that leaves it out. Both forms do the same
steps and are profiled on one machine, one after the other.

```sh
make faults                                   # profile all programs on a GPU, judge them, and write this page
.venv/bin/python tools/judge_faults.py NAME   # some of them
```

Each root cause of idle time has at least three programs of different shape, one of them with the training loop of a
library, named in the table. Programs of `host/...` were recorded without a GPU. Faults of one rank among several, of
links and of pipelines are on the page [Ranks](ranks.md#what-it-finds). The captures, cut short, are in
`tests/captures/faults`.

- **first**: "no" where the planted fault is not the report's first finding.
- **others**: other warnings and problems of the report with the fault, and of that without it.
- **predicted**: the least and the most that the finding predicts to save, over the steps of both captures.
- **measured**: how much shorter these steps are without the fault, of their length with it. Where steps were timed
  without nsys, it is these.
- **near**: "no" where the prediction for the whole fault is not within 25 % of the measured saving.

"""
HEADS = "| root cause | program | first | others | predicted, ms | measured, ms | near |"
LIMITS = """
## Limits

The programs are small and each has one fault. A real program has several, which hide one another. The rules read no
number that was measured on these programs. How wide the range of a prediction is was chosen with some of them.

- `emptied_by_trainer` gives memory back after each step. The CPU loses its lead and launches late for longer than the
  calls took. That time goes to launches and CPU code.
- `operator_ranges`: the shortest times between two ranges are half of what one costs on average, so the report does not
  name them.
- `unpinned_columns` waits for the data loader as long as its copies are slow. The simulation takes the loader's pace as
  given and predicts no saving.
- `attributes_one_by_one` and `growing_history` save more than idle time: fewer kernels run, and less is copied.
- `one_shard` communicates with FSDP: the prediction counts the reductions alone.
- Without a GPU only waits count as reading files or pages, and page faults are a lower bound. So
  `pictures_without_workers`, `rows_of_a_table` and the programs with mapped files save more than predicted.
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for one planted fault; times in ns, over the steps that both captures hold.

    Attributes:
        expected: The rule that must come first.
        found: The rule that comes first; empty for none.
        low_ns: The least that the expected finding predicts; None where there is no finding or no prediction.
        point_ns: What it predicts where the whole fault is fixed.
        measured_ns: By how much the steps are shorter without the fault.
    """

    name: str
    expected: str
    found: str
    others: tuple[str, ...]
    fixed: tuple[str, ...]
    low_ns: int | None
    point_ns: int | None
    high_ns: int | None
    measured_ns: int
    faulty_ns: int
    steps: int
    machine: str
    is_cut: bool = False

    @property
    def is_first(self) -> bool:
        return self.found == self.expected

    @property
    def is_near(self) -> bool:
        """Return whether the predicted saving is within a quarter of the measured one."""
        return self.point_ns is not None and abs(self.point_ns - self.measured_ns) <= NEAR * abs(self.measured_ns)


def judge(name: str, expected: str, faulty: Report, fixed: Report) -> Verdict:
    """Return the verdict on the two reports of a program with a planted fault."""
    raised = _raised(faulty)
    mine = next((each for each in faulty.findings if each.rule == expected), None)
    saving = None if mine is None else mine.saving
    common, scale = _common_steps(faulty, fixed)
    with_it, without = (_length(report, common) for report in (faulty, fixed))
    timed = [each.step.alone_total_ns for each in (faulty, fixed)]
    if all(timed) or not common:
        # Reports about steps that were timed alone, and captures of other steps of the same work: by the mean step.
        common, scale = list(_steps(faulty)), 1.0
        ends = zip((faulty, fixed), timed, strict=True)
        each_ns = [(total or _length(one, list(_steps(one)))) / max(one.step.count or 0, 1) for one, total in ends]
        with_it, without = (round(each * len(common)) for each in each_ns)
    return Verdict(
        name=name,
        expected=expected,
        found=faulty.findings[0].rule if faulty.findings else "",
        others=tuple(dict.fromkeys(each.rule for each in raised if each.rule != expected)),
        fixed=tuple(dict.fromkeys(each.rule for each in _raised(fixed))),
        low_ns=None if saving is None else round(saving.low * scale),
        point_ns=None if saving is None else round(saving.point * scale),
        high_ns=None if saving is None else round(saving.high * scale),
        measured_ns=with_it - without,
        faulty_ns=with_it,
        steps=len(common),
        machine=f"{faulty.gpus[0].name if faulty.gpus else NO_GPU}, nsys {faulty.session.nsys_version}",
    )


def _raised(report: Report) -> list[Finding]:
    return [each for each in report.findings if each.severity is not Severity.NOTE]


def _steps(report: Report) -> dict[str, tuple[int, int]]:
    """Return start and end of each measured step, by name."""
    section = report.section("steps")
    if section is None:
        return {}
    table = section.tables["steps"]
    table = table[~table["warm_up"].astype(bool)]
    return dict(zip(table["name"], zip(table["start_ns"], table["end_ns"], strict=True), strict=True))


def _common_steps(faulty: Report, fixed: Report) -> tuple[list[str], float]:
    """Return the measured steps that are in both reports, and their share of the first report's steps."""
    with_it, without = _steps(faulty), _steps(fixed)
    common = [name for name in with_it if name in without]
    return common, len(common) / max(len(with_it), 1)


def _length(report: Report, names: list[str]) -> int:
    """Return the time from the start of the first to the end of the last of some steps, in ns."""
    steps = _steps(report)
    return steps[names[-1]][1] - steps[names[0]][0] if names else 0


def find_capture(folders: Sequence[Path], name: str, form: str) -> Path | None:
    """Return the capture of one form of a program from the first folder that holds it."""
    paths = (folder / f"{name}{form}.sqlite.xz" for folder in folders)
    return next((path for path in paths if path.exists()), None)


def reports(folders: Sequence[Path], name: str) -> tuple[Report, Report] | None:
    """Return the reports of a program with its fault and without it, both from the first folder that holds both.

    Returns:
        The two reports; None where no folder holds both captures.
    """
    whole = [each for each in folders if all(find_capture([each], name, form) for form in FORMS)]
    if not whole:
        return None
    settings = Settings(copy_rates=read_rates(json.loads(COPY_RATES.read_text())))
    with tempfile.TemporaryDirectory() as folder:
        exports = (fault_captures.unpack(whole[0] / f"{name}{form}.sqlite.xz", Path(folder)) for form in FORMS)
        faulty, fixed = (_report(whole[0], export, settings) for export in exports)
    return faulty, fixed


def _report(folder: Path, export: Path, settings: Settings) -> Report:
    """Return the report of an export; the samples of the host lie beside its packed form, where there are some."""
    trace, samples = load_export(export), folder / f"{export.stem}.json"
    if xray_of(export):
        recorded = with_recorded(trace, export, settings)[1]
        settings = replace(recorded, copy_rates=recorded.copy_rates or settings.copy_rates)
    if samples.exists():
        settings = replace(settings, host=read_record(json.loads(samples.read_text()), trace.epoch_ns))
    return build_report(name_blocked_calls(trace, settings.host), settings=settings)


def judged(folders: Sequence[Path], programs: Sequence[Program]) -> Iterator[Verdict]:
    """Yield the verdict on each program whose captures are there, from the first folder that holds them."""
    for program in programs:
        if found := reports(folders, program.name):
            is_cut = find_capture(folders[:1], program.name, "") is None
            yield replace(judge(program.name, program.rule, *found), is_cut=is_cut)


def read(path: Path) -> list[Verdict]:
    """Return the verdicts in a file; none where there is no file."""
    rows = json.loads(path.read_text()) if path.exists() else []
    return [Verdict(**{**row, "others": tuple(row["others"]), "fixed": tuple(row["fixed"])}) for row in rows]


def write(path: Path, verdicts: Sequence[Verdict]) -> None:
    rows = [asdict(each) for each in sorted(verdicts, key=lambda each: each.name)]
    path.write_text(json.dumps(rows, indent=1) + "\n")


def page(verdicts: Sequence[Verdict], programs: Sequence[Program], plans: Sequence[str] = ()) -> str:
    """Return the page about programs with a fault."""
    known = {each.name: each for each in verdicts}
    ordered = by_root_cause(programs)
    found = [known[each.name] for each in ordered if each.name in known]
    # A root cause is named in its first row.
    first = {each.expected: each.name for each in reversed(found)}
    lines = [
        HEADS,
        "|---" * (HEADS.count("|") - 1) + "|",
        *(_row(each, known[each.name], first.get(each.rule) == each.name) for each in ordered if each.name in known),
        "",
        _summary(found),
        "",
        f"Captured on: {'; '.join(sorted({each.machine for each in found})) or 'nothing yet'}.",
    ]
    for title, count in (
        ("judged from captures that are cut short", sum(each.is_cut for each in found)),
        ("not captured", len({each.name for each in programs if each.module != "held_out"} - set(known))),
    ):
        if count:
            lines += ["", f"Programs {title}: {count}."]
    lines += ["", *plans] if plans else []
    return HEAD + "\n".join(lines) + "\n" + LIMITS


def _summary(verdicts: list[Verdict]) -> str:
    return (
        f"{sum(each.is_first for each in verdicts)} of {len(verdicts)} planted faults are the first finding; "
        f"{sum(not each.others for each in verdicts)} reports raise nothing else, and "
        f"{sum(not each.fixed for each in verdicts)} raise nothing without the fault; "
        f"{sum(each.is_near for each in verdicts)} predictions are within 25 % of what was measured."
    )


def _row(program: Program, verdict: Verdict, is_first: bool) -> str:  # noqa: FBT001 - the first of its root cause
    def rules(names: tuple[str, ...]) -> str:
        return ", ".join(f"`{name}`" for name in names)

    def ms(time_ns: int | None) -> str:
        return "-" if time_ns is None else re.sub(r"^-0(\.0)?$", "0", f"{time_ns / 1e6:.{time_ns < WHOLE_NS:d}f}")

    cells = (
        f"`{program.rule}`" if is_first else "",
        f"`{program.name}`{f' ({program.library})' if program.library else ''}",
        "" if verdict.is_first else f"no: `{verdict.found or 'nothing'}`",
        " / ".join(filter(None, (rules(verdict.others), rules(verdict.fixed) and f"fixed: {rules(verdict.fixed)}"))),
        "-" if verdict.low_ns is None else f"{ms(verdict.low_ns)} to {ms(verdict.high_ns)}",
        f"{ms(verdict.measured_ns)} of {ms(verdict.faulty_ns)}",
        "" if verdict.is_near else "no",
    )
    return f"| {' | '.join(cells)} |"
