"""Profile jobs in which one rank is late, each time for another reason, and say what the report finds: docs/ranks.md.

It needs two GPUs, or as many as --gpus says. Each case of rank_cases.py is profiled once, and compared with the runs
without its fault. The redacted exports go into a folder. With --again DIR the table alone is written, from the exports
in DIR, which may be given several times: that needs no GPU. With --pack the captures that are committed are cut and
written into tests/captures/ranks.
"""

import argparse
import json
import lzma
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from types import MappingProxyType

import fault_captures
from rank_cases import CASES, LAST, Case
from rank_runs import drop_other_processes, record_all

from nsyswrap.capture_file import with_recorded
from nsyswrap.loop.context import NO_SETTINGS
from nsyswrap.model import Finding, Report
from nsyswrap.report import build_report
from nsyswrap.trace.load import load_export

ROOT = Path(__file__).resolve().parent.parent
CAPTURES = ROOT / "tests" / "captures" / "ranks"
PAGE = ROOT / "docs" / "ranks.md"
BEGIN, END = "<!-- table of tools/judge_ranks.py -->", "<!-- end of the table -->"
# Steps of each rank before those that are committed.
FIRST_STEPS, STEP = 2, "step %"
NEAR = 0.2
# Where steps without nsys were timed.
TIMED = frozenset({"this_process", "second_run"})
RANK = "ranks/late"
NO_TURNS: Mapping[str, Sequence[float]] = MappingProxyType({})


def pack(export: Path, target: Path, steps_kept: int) -> int:
    """Write the same steps of each rank of a redacted export, packed; return the bytes."""
    small = target.with_suffix(".part")
    shutil.copyfile(export, small)
    drop_other_processes(small)
    every = fault_captures.steps_of_processes(small, STEP)
    # Ranks end together, but the marks of one may begin a step earlier.
    fewest = min(map(len, every.values()))
    kept = {process: steps[-fewest:][FIRST_STEPS:][:steps_kept] for process, steps in every.items()}
    spans = {process: (steps[0][0], steps[-1][1]) for process, steps in kept.items()}
    whole = min(start for start, _ in spans.values()), max(end for _, end in spans.values())
    fault_captures.cut_processes(small, spans, whole)
    packed = lzma.compress(small.read_bytes(), preset=9 | lzma.PRESET_EXTREME)
    small.unlink()
    target.write_bytes(packed)
    return len(packed)


def is_timed(report: Report) -> bool:
    """Return whether steps were timed without nsys."""
    return report.step.alone is not None and report.step.alone_source in TIMED


def step_ns(report: Report, *, alone: bool) -> float:
    """Return the length of a step: of the median one without nsys, or of the mean recorded one, with its pauses."""
    if alone and report.step.alone is not None:
        return report.step.alone.point
    return report.window.length_ns / max(report.step.count or 0, 1)


def kept_by(report: Report, rank: int) -> tuple[str, str]:
    """Return the rule and the phase that have most of the waits for a rank; empty where no rank waits for it."""
    section = report.section("communication")
    waits = section.tables["waits"] if section else None
    if waits is None or not (waits["late_rank"] == rank).any():
        return "", ""
    first = waits[(waits["late_rank"] == rank) & (waits["rule"] != "ranks/pace")].iloc[0]
    return str(first["rule"]), str(first["phase"])


def planted_rank(case: Case, report: Report) -> int | None:
    """Return the number of the rank that has the fault; None for none."""
    return max(_ranks(report)) if case.rank == LAST else case.rank


def _ranks(report: Report) -> list[int]:
    return [each.rank or 0 for each in report.gpus]


def _rank_of(finding: Finding, report: Report) -> int | None:
    return next((gpu.rank for gpu in report.gpus if gpu.device_id == finding.device_id), None)


def is_right(case: Case, report: Report) -> bool:
    """Return whether the planted fault is named, that of one rank first, and no finding names a rank that is not late.

    A fault in the program may cost less than another change saves.
    """
    first = next(iter(report.findings), None)
    named = {_rank_of(each, report) for each in report.findings if each.rule == RANK}
    planted = planted_rank(case, report)
    if planted is None:
        may_be_named = max(_ranks(report), default=0) if case.may_be_named == LAST else case.may_be_named
        return named <= {may_be_named} and (not case.rule or any(each.rule in case.rule for each in report.findings))
    is_first = first is not None and first.rule == RANK and _rank_of(first, report) == planted
    return is_first and kept_by(report, planted)[0] in case.rule


def saved_ns(name: str, reports: Mapping[str, Report], turns: Mapping[str, Sequence[float]]) -> float | None:
    """Return by how much a step without the fault is shorter, in ns; None if that was not measured.

    It is of turns with the fix where there were such, else of steps without nsys where those of all these runs were
    timed, else of recorded ones.

    Args:
        name: The case.
        reports: The reports of all cases of one machine.
        turns: The time of a step in each turn of a case, in ms.
    """
    case, report = CASES[name], reports[name]
    if len(each := turns.get(name, ())) and (beside := [turns[one] for one in case.fixed if turns.get(one)]):
        return 1e6 * (mean(each) - mean(map(mean, beside)))
    fixed = [reports[name] for name in case.fixed if name in reports]
    alone = all(map(is_timed, [report, *fixed]))
    lengths = [step_ns(each, alone=alone) for each in fixed]
    return step_ns(report, alone=alone) - sum(lengths) / len(lengths) if lengths else None


def row(name: str, reports: Mapping[str, Report], turns: Mapping[str, Sequence[float]] = NO_TURNS) -> str:
    """Return the line of the table of one case, from the reports and the turns of all cases of one machine."""
    report = reports[name]
    case, first, count = CASES[name], next(iter(report.findings), None), max(report.step.count or 0, 1)
    saved = saved_ns(name, reports, turns)
    measured = None if saved is None else saved / 1e6
    planted, named = planted_rank(case, report), None if first is None else _rank_of(first, report)
    said, predicted, near, holds = "none" if first is None else f"`{first.rule}`", "-", "-", "-"
    if named is not None and first is not None and first.rule == RANK:
        said = f"rank {named}: `{{}}`, {{}}".format(*kept_by(report, named))
    cause = first if planted is not None else next((each for each in report.findings if each.rule in case.rule), None)
    if cause is not None and case.fixed and is_right(case, report) and cause.saving is not None:
        low, point, high = (each / count / 1e6 for each in cause.saving.in_order)
        predicted = f"{point:.1f} ({low:.1f} to {high:.1f})"
        if measured is not None:
            near = "yes" if abs(point - measured) <= NEAR * measured else "no"
            holds = "yes" if low <= measured <= high else "no"
    cells = (
        f"`{name}`",
        machine(report),
        said,
        "yes" if is_right(case, report) else "no",
        f"{step_ns(report, alone=is_timed(report)) / 1e6:.1f}",
        predicted,
        "-" if measured is None else f"{measured:.1f}",
        near,
        holds,
    )
    return f"| {' | '.join(cells)} |"


def machine(report: Report) -> str:
    return f"{len(report.gpus)} {report.gpus[0].name.removeprefix('NVIDIA ').split()[0]}"


def export_of(name: str, folder: Path, temporary: Path) -> Path | None:
    """Return the export of a case, unpacked where it is packed; None where a folder has none."""
    for there in (folder / name / "capture.sqlite", folder / f"{name}.sqlite"):
        packed = there.with_name(f"{there.name}.xz")
        if there.is_file():
            return there
        if packed.is_file():
            own = temporary / name
            own.mkdir()
            record = packed.with_name("run.json")
            if record.is_file():
                shutil.copyfile(record, own / "run.json")
            return fault_captures.unpack(packed, own)
    return None


def report_of(export: Path) -> Report:
    trace, settings = with_recorded(load_export(export), export, NO_SETTINGS)
    return build_report(trace, settings=settings)


def rows(folder: Path, known: set[tuple[str, str]]) -> list[str]:
    """Return the lines of all cases that have an export in a folder."""
    with tempfile.TemporaryDirectory() as temporary:
        found = {name: export_of(name, folder, Path(temporary)) for name in CASES}
        reports = {name: report_of(path) for name, path in found.items() if path is not None}
    new = [name for name, report in reports.items() if (name, machine(report)) not in known]
    known |= {(name, machine(report)) for name, report in reports.items()}
    timed = folder / "turns.json"
    turns = json.loads(timed.read_text())["ms"] if timed.is_file() else NO_TURNS
    return [row(name, reports, turns) for name in new]


def table(folders: Sequence[Path]) -> str:
    """Return the table of the cases of some folders; of cases of one kind of machine, the first folder has the line."""
    head = (
        "| case | GPUs | first finding | right | step, ms | predicted saving, ms a step | measured | within 20 % "
        "| in its range |\n|---|---|---|---|---|---|---|---|---|"
    )
    known: set[tuple[str, str]] = set()
    return "\n".join([head, *(line for folder in folders for line in rows(folder, known))])


def write_page(text: str, page: Path = PAGE) -> None:
    before, _, rest = page.read_text().partition(BEGIN)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}")


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="CASE", help="cases (all)")
    parser.add_argument("--gpus", type=int, default=2, metavar="N", help="ranks of each job (%(default)s)")
    parser.add_argument(
        "--again", type=Path, action="append", metavar="DIR", help="read exports here instead of profiling"
    )
    parser.add_argument("--whole", type=Path, metavar="DIR", default=Path("ranks-captures"), help="keep exports here")
    parser.add_argument("--pack", action="store_true", help="write the captures that are committed")
    parser.add_argument("--seconds", type=float, default=1200, metavar="S", help="limit for all profiles (%(default)s)")
    parser.add_argument("--only-record", action="store_true", help="profile, and write no table")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Profile and judge; 0 where all profiles worked."""
    chosen = options().parse_args(arguments)
    folders = chosen.again or [chosen.whole]
    folders[0].mkdir(parents=True, exist_ok=True)
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        if not chosen.again:
            wrong = record_all(chosen.names or list(CASES), Path(temporary), chosen.whole, chosen.seconds, chosen.gpus)
        if chosen.pack:
            CAPTURES.mkdir(parents=True, exist_ok=True)
            for name in (name for name in chosen.names or CASES if CASES[name].committed):
                if export := export_of(name, folders[0], Path(temporary)):
                    print(name, pack(export, CAPTURES / f"{name}.sqlite.xz", CASES[name].committed))
    if not chosen.only_record:
        write_page(table(folders))
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
