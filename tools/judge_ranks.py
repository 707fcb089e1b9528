# ruff: noqa: INP001, T201 - a program for the terminal, not a package
"""Profile two ranks where one is late, each time for another reason, and say what the report finds: docs/ranks.md.

It needs two GPUs. Each case of workloads/ranks is profiled once; the case without a fault is what the others are
compared with. The captures go, redacted, cut and packed, into tests/captures/ranks. With --again DIR the table alone is
written, from the whole exports in DIR: that needs no GPU.
"""

import argparse
import lzma
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import fault_captures
from judge_faults import redact

from nsyswrap.db.load import load_export
from nsyswrap.model import Report
from nsyswrap.report import build_report

ROOT = Path(__file__).resolve().parent.parent
WORKLOADS = ROOT / "workloads" / "ranks"
CAPTURES = ROOT / "tests" / "captures" / "ranks"
PAGE = ROOT / "docs" / "ranks.md"
BEGIN, END = "<!-- table of tools/judge_ranks.py -->", "<!-- end of the table -->"
GPUS, BUSY_S = 2, 60
SLOW_LINKS = {"NCCL_P2P_DISABLE": "1", "NCCL_MAX_NCHANNELS": "1"}
# Steps that are committed, of each rank, after the first ones.
KEPT_STEPS, FIRST_STEPS, STEP = 9, 2, "step %"
NEAR = 0.25


class Case(NamedTuple):
    """One run.

    Attributes:
        fault: The value of --fault.
        planted: The fault in words.
        rank: The rank that has it; None for none.
        rule: What keeps that rank: the rule that has most of the waits for it.
        beside: Whether another program uses the last GPU.
        variables: Variables of NCCL.
        committed: Whether its capture is committed.
    """

    fault: str
    planted: str
    rank: int | None = None
    rule: tuple[str, ...] = ()
    beside: bool = False
    variables: tuple[tuple[str, str], ...] = ()
    committed: bool = False


CASES = {
    "balanced": Case("none", "nothing", committed=True),
    "balanced_again": Case("none", "nothing"),
    "loader": Case("loader", "the loader of rank 1 is slow", 1, ("idle/data_wait",), committed=True),
    "loading_in_process": Case("loading_in_process", "rank 1 prepares its data itself", 1, ("idle/data_work",)),
    "uneven_input": Case(
        "uneven_input", "rank 1 has sequences of twice the length", 1, ("ranks/uneven_input",), committed=True
    ),
    "host_in_backward": Case(
        "host_in_backward", "rank 1 works on the host inside backward", 1, ("idle/cpu",), committed=True
    ),
    "host_in_forward": Case("host_in_forward", "rank 1 works on the host inside forward", 1, ("idle/cpu",)),
    "slower_gpu": Case(
        "none", "another program uses the GPU of rank 1", 1, ("ranks/slower_gpu",), beside=True, committed=True
    ),
    "checkpoints": Case(
        "checkpoints", "rank 0 writes a checkpoint each fourth step", 0, ("idle/file_io",), committed=True
    ),
    "logging": Case("logging", "rank 0 logs the norm of each weight", 0, ("idle/cpu", "synchronization/in_step")),
    "slow_links": Case("none", "no peer-to-peer, one channel", variables=tuple(SLOW_LINKS.items())),
}


def profile(name: str, case: Case, folder: Path) -> str:
    """Profile one case; return what went wrong."""
    launcher = ["-m", "torch.distributed.run", "--nnodes", "1", "--master-addr", "127.0.0.1"]
    program = [sys.executable, *launcher, "--nproc-per-node", str(GPUS), "one_late_rank.py", "--fault", case.fault]
    variables = [word for pair in case.variables for word in ("--env", "=".join(pair))]
    words = [sys.executable, "-m", "nsyswrap", "profile", "-q", "-o", str(folder), "--annotate", "auto"]
    command = [*words, "--cwd", str(WORKLOADS), *variables, "--", *program]
    busy = [sys.executable, str(WORKLOADS / "busy_gpu.py"), str(BUSY_S)]
    last = {**os.environ, "CUDA_VISIBLE_DEVICES": str(GPUS - 1)}
    beside = subprocess.Popen(busy, env=last) if case.beside else None  # noqa: S603 - a program of this folder
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - nsyswrap itself
    finally:
        if beside is not None:
            beside.terminate()
            beside.wait()
    return "" if done.returncode == 0 else f"{name}: exit code {done.returncode}\n{done.stderr[-2000:]}"


def pack(export: Path, target: Path) -> int:
    """Write the steps of a redacted export that are committed; return the bytes."""
    small = target.with_suffix(".part")
    shutil.copyfile(export, small)
    with closing(sqlite3.connect(small)) as database:
        # System calls of processes that use no GPU, such as the launcher and the loaders, are most rows.
        used = "SELECT DISTINCT globalPid >> 24 FROM CUPTI_ACTIVITY_KIND_KERNEL"
        database.execute(f"DELETE FROM OSRT_API WHERE globalTid >> 24 NOT IN ({used})")  # noqa: S608 - our query
        database.commit()
    steps = fault_captures.step_starts(small, STEP)[GPUS * FIRST_STEPS :]
    fault_captures.cut(small, steps, min(GPUS * KEPT_STEPS, len(steps)))
    packed = lzma.compress(small.read_bytes(), preset=9 | lzma.PRESET_EXTREME)
    small.unlink()
    target.write_bytes(packed)
    return len(packed)


def step_ns(report: Report) -> float:
    """Return the length of a step of the window, warm-up and pauses between steps included."""
    return report.window.length_ns / max(report.step.count or 0, 1)


def kept_by(report: Report, rank: int) -> tuple[str, str]:
    """Return the rule and the phase that have most of the waits for a rank; empty where no rank waits for it."""
    section = report.section("communication")
    waits = section.tables["waits"] if section else None
    if waits is None or not (waits["late_rank"] == rank).any():
        return "", ""
    first = waits[(waits["late_rank"] == rank) & (waits["rule"] != "ranks/pace")].iloc[0]
    return str(first["rule"]), str(first["phase"])


def is_right(case: Case, report: Report) -> bool:
    """Return whether the first finding names the planted fault; without one, that no finding names a rank."""
    if case.rank is None or not report.findings:
        return case.rank is None and all(each.rule != "ranks/late" for each in report.findings)
    first = report.findings[0]
    gpu = next((gpu for gpu in report.gpus if gpu.device_id == first.device_id), None)
    named = first.rule == "ranks/late" and gpu is not None and gpu.rank == case.rank
    return named and kept_by(report, case.rank)[0] in case.rule


def row(name: str, report: Report, balanced: float | None) -> str:
    """Return the line of the table of one case; ``balanced`` is a step without a fault in ns, None if not measured."""
    case, first, count = CASES[name], next(iter(report.findings), None), max(report.step.count or 0, 1)
    measured = None if balanced is None or case.rank is None else (step_ns(report) - balanced) / 1e6
    rule, phase = kept_by(report, case.rank) if case.rank is not None else ("", "")
    said, predicted, near = "none" if first is None else f"`{first.rule}`", "-", "-" if measured is None else "no"
    if first is not None and first.rule == "ranks/late":
        said = first.headline.split(":")[0]
        low, high = ((each or 0) / count / 1e6 for each in (first.saving_low_ns, first.saving_high_ns))
        predicted = f"{low:.1f} to {high:.1f}" if case.rank is not None else "-"
        near = "yes" if measured is not None and abs(high - measured) <= NEAR * measured else near
    cells = (
        f"`{name}`",
        case.planted,
        said,
        "yes" if is_right(case, report) else "no",
        f"`{rule}`, {phase}" if rule else "-",
        f"{step_ns(report) / 1e6:.1f}",
        predicted,
        "-" if measured is None else f"{measured:.1f}",
        near,
    )
    return f"| {' | '.join(cells)} |"


def table(folder: Path) -> str:
    """Return the table of all cases that have an export in a folder."""
    found = {name: folder / f"{name}.sqlite" for name in CASES if (folder / f"{name}.sqlite").is_file()}
    reports = {name: build_report(load_export(path)) for name, path in found.items()}
    plain = [step_ns(report) for name, report in reports.items() if name.startswith("balanced")]
    balanced = sum(plain) / len(plain) if plain else None
    head = (
        "| case | planted | first finding | right | what kept the rank | step, ms | predicted saving, ms a step "
        "| measured | within 25 % |\n|---|---|---|---|---|---|---|---|---|"
    )
    return "\n".join([head, *(row(name, report, balanced) for name, report in reports.items())])


def write_page(text: str, page: Path = PAGE) -> None:
    """Put the table into the page, between its marks."""
    before, _, rest = page.read_text().partition(BEGIN)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}")


def record_all(names: Sequence[str], folder: Path) -> list[str]:
    """Profile cases and write their redacted exports into a folder; return what went wrong."""
    wrong = []
    for name in names:
        result = folder / f"{name}-result"
        if said := profile(name, CASES[name], result):
            wrong.append(said)
        else:
            redact(result, folder / f"{name}.sqlite")
    return wrong


def main(arguments: list[str] | None = None) -> int:
    """Profile and judge; 0 where all profiles worked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="CASE", help="cases (all)")
    parser.add_argument("--again", type=Path, metavar="DIR", help="read whole exports here instead of profiling")
    parser.add_argument("--whole", type=Path, metavar="DIR", default=Path("ranks-captures"), help="keep exports here")
    parser.add_argument("--pack", action="store_true", help="write the captures that are committed")
    chosen = parser.parse_args(arguments)
    folder = chosen.again or chosen.whole
    folder.mkdir(parents=True, exist_ok=True)
    wrong = [] if chosen.again else record_all(chosen.names or list(CASES), folder)
    if chosen.pack:
        CAPTURES.mkdir(parents=True, exist_ok=True)
        for name in (name for name, case in CASES.items() if case.committed):
            print(name, pack(folder / f"{name}.sqlite", CAPTURES / f"{name}.sqlite.xz"))
    write_page(table(folder))
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
