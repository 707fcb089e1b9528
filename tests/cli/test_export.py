"""`nsyswrap export`: complete and exact files, safe against hostile names."""

import io
import json
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Any

import commands
import pandas as pd
import pytest
from export_builder import ExportBuilder
from hand_made import HOSTILE
from pyarrow import parquet
from real_captures import CAPTURE_NAMES, RealReport, RealTrace, of_captures

from nsyswrap.rules import rule_name
from nsyswrap.timeline.event_frames import COLUMNS
from nsyswrap.trace import tables

Event = dict[str, Any]
SMALL = "cuda_graph_node_trace"


run = partial(commands.run, "export")


def trace_json(capture: Path, target: Path, *options: str) -> dict[str, Any]:
    """Write the Perfetto trace of a capture and read it back with exact times."""
    result = run(capture, "--format", "perfetto", "-o", target, *options)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"wrote {target}\n")
    found: dict[str, Any] = json.loads(target.read_text(), parse_float=Decimal)
    return found


def of_kind(events: list[Event], category: str) -> list[Event]:
    return [each for each in events if each["ph"] == "X" and each["cat"] == category]


def idle_of(events: list[Event]) -> Counter[str]:
    """Return the idle time of each cause, in ns."""
    found: Counter[str] = Counter()
    for each in of_kind(events, "gaps"):
        found[each["name"]] += int(each["dur"] * 1000)
    return found


@pytest.fixture(scope="module")
def events_of(
    captures: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], list[Event]]:
    """Return a function that gives the events of the Perfetto trace of a real capture, made once."""
    folder = tmp_path_factory.mktemp("traces")
    return cache(lambda name: trace_json(captures(name), folder / f"{name}.json")["traceEvents"])


@pytest.mark.usefixtures("analyzed_once")
@of_captures(CAPTURE_NAMES, few={SMALL, "alexnet_data_parallel_2gpu"})
def test_the_trace_of_a_real_capture_agrees_with_its_report(
    name: str, events_of: Callable[[str], list[Event]], real_trace: RealTrace, real_report: RealReport
) -> None:
    """It has the same number of kernels, copies and memsets, and the same idle time for each rule."""
    events = events_of(name)
    trace = real_trace(name)
    for spec in (tables.KERNELS, tables.COPIES, tables.MEMSETS, tables.GRAPHS, tables.CALLS, tables.RANGES):
        assert len(of_kind(events, spec.name)) == len(trace[spec])
    kernels = trace[tables.KERNELS]
    assert sum(each["dur"] for each in of_kind(events, "kernels")) * 1000 == int(
        (kernels["end"] - kernels["start"]).sum()
    )
    report = real_report(name)
    ledger, idle = report.section("ledger"), report.section("idle")
    if ledger is None or idle is None:
        assert idle_of(events) == {}
        return
    assert sum(idle_of(events).values()) == int(ledger.tables["devices"]["idle_ns"].sum())
    expected: Counter[str] = Counter()
    for rule, idle_ns in idle.tables["attribution"].groupby("rule")["idle_ns"].sum().items():
        expected[rule_name(str(rule))] += int(idle_ns)
    assert idle_of(events) == {name: ns for name, ns in expected.items() if ns}


def misplaced(spans: list[Event]) -> int:
    """Return how many spans of one track partly overlap another."""
    found, open_ends = 0, list[Decimal]()
    for each in sorted(spans, key=lambda one: (one["ts"], -one["dur"])):
        while open_ends and open_ends[-1] <= each["ts"]:
            open_ends.pop()
        found += bool(open_ends) and each["ts"] + each["dur"] > open_ends[-1]
        open_ends.append(each["ts"] + each["dur"])
    return found


@pytest.mark.usefixtures("analyzed_once")
@of_captures(["cnn_amp", SMALL, "alexnet_data_parallel_2gpu"])
def test_the_viewer_can_draw_the_trace(name: str, events_of: Callable[[str], list[Event]]) -> None:
    """Each track is named once, spans nest, and each arrow leads from a call to a later operation."""
    events = events_of(name)
    named = Counter(each["tid"] for each in events if each["name"] == "thread_name")
    assert set(named.values()) == {1}
    tracks: dict[int, list[Event]] = {}
    for each in events:
        if each["ph"] == "X":
            assert each["ts"] >= 0
            assert each["dur"] >= 0
            tracks.setdefault(each["tid"], []).append(each)
    assert set(tracks) <= set(named)
    assert {track: misplaced(spans) for track, spans in tracks.items() if misplaced(spans)} == {}
    starts = {each["id"]: each for each in events if each["ph"] == "s"}
    ends = {each["id"]: each for each in events if each["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert len(starts) >= len(of_kind(events, "kernels")) // 2
    calls = {(each["tid"], each["ts"]) for each in of_kind(events, "calls")}
    operations = {
        (each["tid"], each["ts"])
        for kind in ("kernels", "copies", "memsets", "graphs")
        for each in of_kind(events, kind)
    }
    for number, start in starts.items():
        assert (start["tid"], start["ts"]) in calls
        assert (ends[number]["tid"], ends[number]["ts"]) in operations
        assert start["ts"] <= ends[number]["ts"] + 1


def made(tmp_path: Path) -> Path:
    """Return an export with hostile names, a span before time zero, and ranges that partly overlap."""
    builder = ExportBuilder().gpu(name=HOSTILE).kernel(100, 200, HOSTILE, launched=(-50, 20))
    builder.kernel(300, 1000, b"bytes \xff\xfe", launched=(250, 260)).kernel(1200, 1201, HOSTILE, stream=9)
    builder.range(HOSTILE, 0, 500, kind=60).range("crosses", 400, 900, kind=60).range("step 1", 0, 1300)
    return builder.os_call(HOSTILE, 30, 40).write(tmp_path / "made.sqlite")


def test_hostile_names_are_text_and_times_are_whole_ns(tmp_path: Path) -> None:
    """The file escapes text direction marks and script ends, and keeps times exact to the nanosecond."""
    target = tmp_path / "trace.json"
    document = trace_json(made(tmp_path), target, "--window", "all")
    raw = target.read_bytes()
    assert raw.isascii()
    events = document["traceEvents"]
    assert document["otherData"]["zero_ns"] == -50
    kernels = sorted(of_kind(events, "kernels"), key=lambda each: each["ts"])
    assert [each["ts"] for each in kernels] == [Decimal("0.150"), Decimal("0.350"), Decimal("1.250")]
    assert [each["dur"] for each in kernels] == [Decimal("0.100"), Decimal("0.700"), Decimal("0.001")]
    assert "\u202e" not in kernels[0]["name"]
    assert "[U+202E]" in kernels[0]["name"]
    tracks = {each["tid"] for each in of_kind(events, "ranges")}
    assert len(tracks) == 2
    assert sum(idle_of(events).values()) == 300


def test_within_window_leaves_out_other_events(tmp_path: Path) -> None:
    """It keeps the call before the window that launched an operation inside, because its arrow needs it."""
    window = ("--window", "0.0000001:0.0000002")
    events = trace_json(made(tmp_path), tmp_path / "trace.json", *window, "--within-window")["traceEvents"]
    assert len(of_kind(events, "kernels")) == 1
    assert len(of_kind(events, "calls")) == 1
    assert [each["ph"] for each in events if each["ph"] in "sf"] == ["s", "f"]
    assert of_kind(events, "os_calls") == []


@pytest.mark.parametrize("name", [SMALL, "mnist_counters_python", "ranges_nsys2022"])
def test_parquet_holds_every_event_and_describes_its_columns(
    name: str, captures: Callable[[str], Path], real_trace: RealTrace, real_report: RealReport, tmp_path: Path
) -> None:
    folder = tmp_path / "tables"
    assert run(captures(name), "--format", "parquet", "-o", folder).exit_code == 0
    assert {path.stem for path in folder.iterdir()} == set(COLUMNS)
    trace = real_trace(name)
    for key, columns in COLUMNS.items():
        table = parquet.read_table(folder / f"{key}.parquet")
        assert table.column_names == list(columns)
        assert {field.metadata[b"description"].decode() for field in table.schema} == set(columns.values())
        assert table.schema.metadata[b"capture"].decode() == f"{name}.sqlite"
    kernels = pd.read_parquet(folder / "kernels.parquet")
    assert len(kernels) == len(trace[tables.KERNELS])
    # A file without rows has no dictionary.
    assert kernels["name"].dtype == ("category" if len(kernels) else "object")
    idle = real_report(name).section("idle")
    gaps = pd.read_parquet(folder / "gaps.parquet")
    assert int((gaps["end_ns"] - gaps["start_ns"]).sum()) == (
        int(idle.tables["attribution"]["idle_ns"].sum()) if idle else 0
    )


def test_parquet_takes_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    assert run(made(tmp_path), "--format", "parquet", "-o", folder).exit_code == 0
    assert pd.read_parquet(folder / "kernels.parquet")["name"].iloc[0] == HOSTILE
    assert list(pd.read_parquet(folder / "ranges.parquet")["text"]) == [HOSTILE, "step 1", "crosses"]


def test_csv_is_every_table_of_the_report(captures: Callable[[str], Path], tmp_path: Path) -> None:
    """Each table is one file, with the same sums."""
    folder = tmp_path / "csv"
    assert run(captures(SMALL), "--format", "csv", "-o", folder).exit_code == 0
    report = json.loads(commands.run("analyze", captures(SMALL), "--format", "json").stdout)
    wanted = {f"{key}.{name}" for key, section in report["sections"].items() for name in section["tables"]}
    assert wanted <= {path.name.removesuffix(".csv") for path in folder.iterdir()}
    text = (folder / "ledger.devices.csv").read_bytes().decode()
    devices = pd.read_csv(io.StringIO(text))
    assert devices["idle_ns"].sum() == sum(row["idle_ns"] for row in report["sections"]["ledger"]["tables"]["devices"])


def test_existing_files_are_kept_without_force(tmp_path: Path) -> None:
    """The target may be a file, a folder that is not empty, or of the wrong kind."""
    capture, folder, file = made(tmp_path), tmp_path / "folder", tmp_path / "file"
    folder.mkdir()
    (folder / "mine").write_text("mine")
    file.write_text("mine")
    for form, target, message in (
        ("perfetto", file, "exists already"),
        ("perfetto", folder, "is a folder"),
        ("parquet", folder, "exists already"),
        ("csv", file, "is a file"),
    ):
        result = run(capture, "--format", form, "-o", target)
        assert result.exit_code == 2
        assert message in result.stderr
        assert "hint: " in result.stderr
    assert file.read_text() == "mine"
    assert run(capture, "--format", "perfetto", "-o", file, "--force").exit_code == 0
    assert run(capture, "--format", "parquet", "-o", folder, "--force").exit_code == 0
    assert (folder / "mine").read_text() == "mine"


def test_csv_refuses_within_window(tmp_path: Path) -> None:
    result = run(made(tmp_path), "--format", "csv", "--within-window", "-o", tmp_path / "csv")
    assert result.exit_code == 2
    assert "--within-window" in result.stderr
