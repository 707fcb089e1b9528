"""The numbers read from real captures equal those of SQLite and the counts of nsys."""

import re
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from real_captures import CAPTURE_NAMES, every_capture

from nsyswrap.trace import schema
from nsyswrap.trace.tables import Trace

Captures = Callable[[str], Path]
RealTrace = Callable[[str], Trace]
COUNTED = re.compile(r"Number of (CUDA|NVTX) events collected:\s*([\d,]+)")


def answer(path: Path, query: str) -> tuple[int, ...]:
    """Return a row that SQLite finds."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
        row: tuple[int, ...] = database.execute(query).fetchone()
    return row


def test_there_are_captures() -> None:
    """Without captures every test below would pass."""
    assert len(CAPTURE_NAMES) >= 7


@every_capture
def test_counts_and_sums_are_those_of_sqlite(captures: Captures, real_trace: RealTrace, name: str) -> None:
    trace = real_trace(name)
    for source in schema.SOURCES:
        frame = trace[source.spec]
        if "end" not in source.required or source.table == "NVTX_EVENTS" or source.spec.name in trace.absent:
            continue
        query = f"select count(*), sum(start), sum(end), sum(end - start) from {source.table}"  # noqa: S608 - our names
        length = frame["end"] - frame["start"]
        found = (len(frame), int(frame["start"].sum()), int(frame["end"].sum()), int(length.sum()))
        assert found == answer(captures(name), query), source.table


@every_capture
def test_nothing_of_a_real_capture_is_left_out(real_trace: RealTrace, name: str) -> None:
    assert real_trace(name).dropped == {}


@every_capture
def test_every_kernel_has_a_name_and_a_launch(real_trace: RealTrace, name: str) -> None:
    """This also holds for the capture that lost host calls, since it lost their kernels too."""
    trace = real_trace(name)
    kernels, calls = trace.frames["kernels"], trace.frames["calls"]
    assert all(not trace.text(each).startswith("[id") for each in kernels["name_id"].unique())
    assert set(kernels["correlation_id"]) <= set(calls["correlation_id"])


@every_capture
def test_events_are_as_many_as_nsys_counted(real_trace: RealTrace, name: str) -> None:
    """The numbers of events equal the counts that nsys 2025 writes for each process and family into its diagnostics."""
    trace = real_trace(name)
    said: Counter[str] = Counter()
    for text in trace.frames["diagnostics"]["text"].astype(str):
        for family, number in COUNTED.findall(text):
            said[family] += int(number.replace(",", ""))
    assert said == {key: trace.event_counts[key] for key in said}
    assert bool(said) == (trace.session.nsys_version > "2025")


@every_capture
def test_a_real_capture_says_how_it_was_made(real_trace: RealTrace, name: str) -> None:
    session = real_trace(name).session
    assert re.fullmatch(r"20\d\d\.\d+\.\d+\.\d+", session.nsys_version)
    assert re.fullmatch(r"3\.\d+\.\d+", session.schema_version)
    assert session.duration_ns > 0
    assert re.match(r"20\d\d-\d\d-\d\dT", session.started_utc)
    assert session.secrets == ()


def test_the_oldest_nsys_knows_ranges_domains_and_threads(real_trace: RealTrace) -> None:
    """This nsys ends an unclosed range at the end of the session. For newer versions, nsyswrap does the same."""
    trace = real_trace("ranges_nsys2022")
    ranges = trace.frames["ranges"].astype({"text": object})
    texts = {"step 0", "step 1", "step 2", "data", "forward", "load", "never closed", "closed elsewhere"}
    assert set(ranges["text"]) == texts
    assert set(ranges.loc[ranges["text"] == "load", "domain"]) == {"loader"}
    (opened,) = ranges.loc[ranges["text"] == "never closed", "end"]
    assert opened == trace.session.duration_ns
    assert ranges.loc[ranges["open"], "text"].to_list() == ["never closed"]
    (handed,) = ranges.index[ranges["text"] == "closed elsewhere"]
    assert ranges.loc[handed, "end_thread"] not in (0, ranges.loc[handed, "thread"])
    assert {"kernels", "calls", "diagnostics"} <= trace.absent
