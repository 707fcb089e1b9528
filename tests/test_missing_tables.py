"""Laws of incomplete captures: what nsys did not record is never reported as what the program did not do."""

import lzma
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from export_builder import ExportBuilder, global_id
from made_ranks import job
from real_captures import CAPTURES, more

from nsyswrap.base.errors import NsyswrapError
from nsyswrap.model import Report
from nsyswrap.report import build_report
from nsyswrap.sections.capture_check import COMPLETE
from nsyswrap.sections.ledger import ROWS
from nsyswrap.trace.load import load_export

# A program with ranges and counters, graphs traced as a whole and by node, two ranks, and samples of the machine.
REAL = (
    *("mnist_counters_python", "cuda_graph_graph_trace"),
    *("cuda_graph_node_trace", "faults/exposed_communication", "faults/shared_core"),
)
MADE = "made"
KERNELS, CALLS = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"
COPIES, GRAPHS = "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
MEMSETS = "CUPTI_ACTIVITY_KIND_MEMSET"
OF_GPU = (KERNELS, COPIES, GRAPHS, MEMSETS)
# Without one of these the report must say that the capture is incomplete: launch calls show what is missing.
SHOWN_BY_CALLS = frozenset({*OF_GPU, CALLS})
MS = 1_000_000
STEPS = 12

ABSENCE = re.compile(r"\b(?:no|not|none|never|nothing|without|neither|only)\b|^Compute-bound", re.IGNORECASE)
# What may be absent: records, and what is made of them.
OF_CAPTURE = re.compile(
    r"record|capture|missing|counted|sampled|predicted|simulat|range|profiler|trace|not begun yet|phase none",
    re.IGNORECASE,
)
NUMBER = re.compile(r"\d[\d,.]*(?: [nµm]?s\b)?")
# Clauses of sentences that say what a GPU or a thread does, and name what it does not do meanwhile.
MEANWHILE = re.compile(r"computes nothing|outside CUDA calls|from nothing to all|no single change|no longer wait")


def everything() -> ExportBuilder:
    """Return a job of two ranks with copies, memsets, migrations, messages of MPI and switches of cores."""
    built = job(2, STEPS, {1: MS // 5})
    for rank in range(2):
        process = global_id(5000 + rank)
        main = process | (5000 + rank)
        about: dict[str, Any] = {"device": rank, "process": process, "thread": main}
        for number in range(STEPS):
            at = 1000 + number * (MS + MS // 5)
            built.copy(at + 60_000, at + 80_000, launched=(at + 50_000, at + 55_000), **about)
            built.fill(at + 82_000, at + 84_000, launched=(at + 56_000, at + 57_000), **about)
            text = built.string("MPI_Allreduce")
            built.row("MPI_COLLECTIVES_EVENTS", start=at + 20_000, end=at + 40_000, thread=main, textId=text)
            built.scheduled(at + 20_000, running=False, thread=main).scheduled(at + 40_000, running=True, thread=main)
        built.row("PROCESSES", globalPid=process, pid=5000 + rank, name="/usr/bin/python3.12")
        built.thread_name(main, "python")
        built.visible_device(rank, rank, 5000 + rank)
        fault: dict[str, int] = {"process": process, "device": rank, "address": 0, "numberOfPageFaults": 3}
        built.row("CUDA_UM_GPU_PAGE_FAULT_EVENTS", start=2 * MS, end=2 * MS + 5_000, **fault)
        built.row("CUDA_UM_CPU_PAGE_FAULT_EVENTS", start=2 * MS, process=process, address=0)
        managed: dict[str, Any] = {"srcKind": 7, "dstKind": 7, "migrationCause": 2, "bytes": 1 << 16, "correlation": 0}
        built.copy(2 * MS, 2 * MS + 5_000, 11, process=process, device=rank, stream=None, **managed)
        built.diagnostic("Number of NVTX events collected: 1.", 1, process)
    return built.session(duration=(STEPS + 1) * 2 * MS).option("CAPTURE_EVENT_TYPE", "NvtxEvents")


@cache
def whole(name: str, folder: Path) -> Path:
    """Return the whole export of a capture."""
    path = folder / f"{name.replace('/', '-')}.sqlite"
    if name == MADE:
        return everything().write(path)
    path.write_bytes(lzma.decompress((CAPTURES / f"{name}.sqlite.xz").read_bytes()))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for the exports of these tests."""
    return tmp_path_factory.mktemp("incomplete")


def filled(path: Path) -> list[str]:
    """Return the tables of an export that hold rows."""
    with closing(sqlite3.connect(path)) as export:
        names = [
            name for (name,) in export.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        ]
        return [name for name in names if export.execute(f'SELECT 1 FROM "{name}" LIMIT 1').fetchone()]  # noqa: S608


def changed(path: Path, target: Path, statements: Sequence[str]) -> Path:
    """Return a copy of an export after some statements."""
    target.write_bytes(path.read_bytes())
    with closing(sqlite3.connect(target)) as export:
        for each in statements:
            export.execute(each)
        export.commit()
    return target


def sentences(report: Report) -> Iterator[str]:
    """Yield all sentences of the verdict, the findings and the notes of a report."""
    yield report.verdict
    yield from report.notes
    for finding in report.findings:
        yield from (finding.headline, str(finding.advice), *finding.evidence)
    for section in report.sections:
        yield from section.notes


def absences(report: Report, before: Report) -> list[str]:
    """Return the sentences in which something other than records is absent, and that are new except for numbers."""
    known = {NUMBER.sub("", each) for each in sentences(before)}
    new = sorted({each for each in sentences(report) if NUMBER.sub("", each) not in known})
    return [each for each in new if ABSENCE.search(MEANWHILE.sub("", each)) and not OF_CAPTURE.search(each)]


def check_sums(report: Report) -> None:
    """Assert that the ledger adds up to the window, and the causes of idle time to the idle time of the ledger."""
    ledger, idle = report.section("ledger"), report.section("idle")
    if ledger is None:
        return
    assert idle is not None
    for row in ledger.tables["devices"].to_dict("records"):
        assert sum(row[name] for name in ROWS) == row["window_ns"]
        of_device = idle.tables["attribution"]
        assert of_device.loc[of_device["device_id"] == row["device_id"], "idle_ns"].sum() == row["idle_ns"]


def report_on(path: Path) -> Report | NsyswrapError:
    """Return the report on an export, or why it is refused."""
    try:
        return build_report(load_export(path))
    except NsyswrapError as error:
        return error


@cache
def before_of(path: Path) -> Report:
    """Return the report on a whole export."""
    return build_report(load_export(path))


def check(path: Path, before: Report, *, is_shown: bool) -> None:
    """Check the laws of an incomplete export: it may also be refused, in one line that says what to do."""
    report = report_on(path)
    if isinstance(report, NsyswrapError):
        assert "\n" not in str(report)
        assert report.hint
        return
    assert not absences(report, before), "\n".join(absences(report, before))
    check_sums(report)
    section = report.section("capture_check")
    complete = section.fact("complete") if section else None
    assert complete is not None
    assert not (is_shown and complete.value == COMPLETE)


@pytest.mark.parametrize(
    ("name", "way", "of"),
    [
        (MADE, "DROP TABLE", 3),
        *more((MADE, "DROP TABLE", 1), (MADE, "DELETE FROM", 1), *((name, "DROP TABLE", 1) for name in REAL)),
    ],
)
def test_a_missing_table_is_no_missing_work(name: str, way: str, of: int, folder: Path) -> None:
    """Each table in turn is absent, or has no rows: one in `of`. Labels of numbers are the same in all versions."""
    path = whole(name, folder)
    before = before_of(path)
    for table in [each for each in filled(path) if not each.startswith("ENUM_")][::of]:
        incomplete = changed(path, folder / "incomplete.sqlite", [f'{way} "{table}"'])
        check(incomplete, before, is_shown=table in SHOWN_BY_CALLS)


def without_rows(path: Path, rows: str) -> list[str]:
    """Return the statements that delete some rows of the GPU. ``{middle}`` is the middle of the time of the kernels."""
    with closing(sqlite3.connect(path)) as export:
        columns = "min(start), max(start), max(globalPid), max(deviceId)"
        first, last, process, device = export.execute(f"SELECT {columns} FROM {KERNELS}").fetchone()  # noqa: S608
    where = rows.format(middle=(first + last) // 2, process=process, device=device)
    return [f"DELETE FROM {table} WHERE {where}" for table in filled(path) if table in OF_GPU]  # noqa: S608


@pytest.mark.parametrize("name", [MADE, *more(REAL[0], "faults/exposed_communication")])
@pytest.mark.parametrize(
    "rows", ["globalPid = {process}", "deviceId = {device}", "rowid % 2 = 0", "start > {middle}", "start < {middle}"]
)
def test_missing_records_of_the_gpu_are_no_missing_work(name: str, rows: str, folder: Path) -> None:
    """Those of one process, one GPU, every other one, and those of lost buffers."""
    path = whole(name, folder)
    before = before_of(path)
    check(changed(path, folder / "incomplete.sqlite", without_rows(path, rows)), before, is_shown=True)
