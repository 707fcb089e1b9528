"""An export is read into a trace: each table, each release of nsys, and everything that may be missing."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from export_builder import (
    DEVICE_TO_HOST,
    DOMAIN,
    MAIN,
    PROCESS,
    PUSH_POP,
    START_END,
    ExportBuilder,
    global_id,
    thread,
    trace_of,
)

from nsyswrap.base.errors import ExportError
from nsyswrap.trace import schema, tables
from nsyswrap.trace.load import load_export
from nsyswrap.trace.tables import SPECS, Trace, array

RELEASES = pytest.mark.parametrize("release", [2022, 2023, 2025])


def busy(release: int = 2025) -> ExportBuilder:
    """Start an export with rows in the tables that every release has."""
    return (
        ExportBuilder(release)
        .kernel(100, 200, "void gemm<float>(float*)", launched=(10, 20), stream=13, graph_node=5)
        .copy(210, 230, DEVICE_TO_HOST, launched=(30, 40), bytes=4096)
        .fill(240, 250, bytes=64)
        .os_call("poll", 50, 90, thread=thread(9))
        .overhead("CUPTI buffer", 60, 70)
        .range("forward", 5, 45)
        .scheduled(7, running=True)
        .thread_name(MAIN, "python3")
    )


def rows(trace: Trace, name: str, *columns: str) -> list[tuple[object, ...]]:
    """Return columns of a table as tuples."""
    frame = trace.frames[name]
    return list(zip(*(frame[column].tolist() for column in columns), strict=True))


@RELEASES
def test_operations_are_read_from_every_release(release: int) -> None:
    trace = trace_of(busy(release))
    assert rows(trace, "kernels", "start", "end", "device_id", "process", "graph_node_id") == [
        (100, 200, 0, PROCESS, 5)
    ]
    assert rows(trace, "copies", "start", "end", "bytes", "copy_kind", "source_kind", "target_kind") == [
        (210, 230, 4096, DEVICE_TO_HOST, 2, 1)
    ]
    assert rows(trace, "memsets", "start", "end", "bytes", "memory_kind") == [(240, 250, 64, 2)]


@RELEASES
def test_the_host_is_read_from_every_release(release: int) -> None:
    trace = trace_of(busy(release))
    assert rows(trace, "calls", "start", "end", "thread") == [(10, 20, MAIN), (30, 40, MAIN)]
    assert rows(trace, "os_calls", "start", "end", "thread") == [(50, 90, thread(9))]
    assert rows(trace, "overheads", "start", "end") == [(60, 70)]
    assert rows(trace, "ranges", "start", "end", "text", "domain") == [(5, 45, "forward", "")]
    assert rows(trace, "scheduling", "start", "thread", "running") == [(7, MAIN, True)]
    assert rows(trace, "threads", "thread", "name") == [(MAIN, "python3")]


def test_names_are_read_by_their_ids() -> None:
    trace = trace_of(busy())
    (kernel,) = trace.frames["kernels"]["name_id"]
    assert trace.text(kernel) == "void gemm<float>(float*)"
    assert [trace.text(name) for name in trace.frames["calls"]["name_id"]] == ["cudaLaunchKernel", "cudaMemcpyAsync"]


def test_an_export_without_labels_has_the_ones_of_nsys() -> None:
    """The numbers of copy kinds and memory kinds are the same in all versions of nsys."""
    builder = ExportBuilder().kernel(1, 2)
    for table in ("ENUM_CUDA_MEMCPY_OPER", "ENUM_CUDA_MEM_KIND"):
        builder.without(table)
    trace = trace_of(builder)
    assert (trace.copy_kinds[1], trace.memory_kinds[0]) == ("Host-to-Device", "Pageable")


def test_an_export_without_names_is_an_error() -> None:
    """Without names no collective, no step and no phase could be found, as if the program had none."""
    with pytest.raises(ExportError, match=r"the names of kernels, calls and ranges are missing \(table StringIds\)"):
        trace_of(ExportBuilder().kernel(1, 2).without("StringIds"))


def test_graphs_traced_as_a_whole_are_read() -> None:
    assert rows(trace_of(ExportBuilder().graph(3, 9)), "graphs", "start", "end") == [(3, 9)]


def test_diagnostics_are_read_with_their_process() -> None:
    trace = trace_of(ExportBuilder().diagnostic("Number of CUDA events collected: 12.", 2))
    assert rows(trace, "diagnostics", "process", "severity", "text") == [
        (PROCESS, 2, "Number of CUDA events collected: 12.")
    ]


@RELEASES
def test_an_export_without_events_is_an_empty_trace(release: int) -> None:
    trace = trace_of(ExportBuilder(release))
    assert all(len(frame) == 0 for frame in trace.frames.values())
    assert trace.absent == {spec.name for spec in SPECS}


def test_a_table_without_rows_is_not_absent() -> None:
    trace = trace_of(ExportBuilder().row("CUPTI_ACTIVITY_KIND_KERNEL"))
    assert len(trace.frames["kernels"]) == 0
    assert "kernels" not in trace.absent


@RELEASES
def test_every_frame_keeps_its_contract(release: int) -> None:
    """Each frame has the same columns and types, whether the export has the table or not."""
    for trace in (trace_of(busy(release)), trace_of(ExportBuilder(release))):
        for spec in SPECS:
            found = {name: str(dtype) for name, dtype in trace[spec].dtypes.items()}
            assert found == dict(spec.columns)


def test_rows_of_equal_value_share_the_memory_of_one() -> None:
    """Such as the process of millions of kernels, and each column of a table with other values has its own."""
    kernels = trace_of(busy(2023).kernel(500, 600))[tables.KERNELS]
    shares = {}
    for name in set(map(str, kernels)) - tables.KERNELS.coded.keys():
        values = tables.array(kernels, name)
        shares[name] = values.strides[0] == 0
        assert shares[name] == (len(set(values.tolist())) == 1), name
    assert (shares["process"], shares["start"]) == (True, False)


@pytest.mark.parametrize("source", schema.SOURCES, ids=lambda source: source.table)
def test_optional_columns_may_be_missing(source: schema.Source) -> None:
    """A missing column gives the missing value of the contract, and other columns do not change."""
    whole = busy().graph(3, 9).diagnostic("hello").metric("SMs Active [Throughput %]", [(5, 50)])
    waits = {"process": PROCESS, "device": 0, "stream": 14, "correlation": 2, "eventId": 7}
    whole.memory(5, 512).row("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", **waits)
    whole.row("CUPTI_ACTIVITY_KIND_CUDA_EVENT", process=PROCESS, correlation=1, device=0, stream=7, eventId=7)
    whole.row("MPI_RANKS", thread=MAIN, rank=3)
    whole.row("CUDA_UM_GPU_PAGE_FAULT_EVENTS", start=1, end=2, process=PROCESS, device=0, numberOfPageFaults=2)
    whole.row("CUDA_UM_CPU_PAGE_FAULT_EVENTS", start=1, process=PROCESS)
    whole.row("PROCESSES", globalPid=PROCESS, pid=4711, name="/usr/bin/python3")
    missing = {name for stored in source.optional.values() for name in schema.columns_in(stored)} or {"no such column"}
    frame = trace_of(whole.without(source.table, *missing)).frames[source.spec.name]
    assert len(frame) > 0
    for name in source.optional.keys() & source.spec.missing.keys():
        assert set(frame[name]) == {source.spec.missing[name]}


def test_a_column_that_a_version_of_nsys_renames_is_read_by_its_other_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source lists all names of a column. A table with none of the names of a required column is an error."""
    path = ExportBuilder().kernel(0, 9, "gemm").write(tmp_path / "renamed.sqlite")
    with closing(sqlite3.connect(path)) as database:
        database.execute("alter table CUPTI_ACTIVITY_KIND_KERNEL rename column demangledName to fullName")
    with pytest.raises(ExportError, match="has no column demangledName"):
        load_export(path)
    names = {"name_id": "demangledName | fullName"}
    sources = [
        replace(each, required={**each.required, **names}) if each.spec is tables.KERNELS else each
        for each in schema.SOURCES
    ]
    monkeypatch.setattr(schema, "SOURCES", tuple(sources))
    trace = load_export(path)
    assert [trace.text(int(each)) for each in array(trace[tables.KERNELS], "name_id")] == ["gemm"]


def test_rows_in_any_order_are_the_same_trace() -> None:
    """Nsys 2025.6 and newer define no order of rows, not even of rows that start in the same nanosecond."""
    builder = ExportBuilder()
    for index in range(200):
        start = index // 3 * 10
        builder.kernel(start, start + 5 + index % 2, f"k{index % 7}", launched=(start, start + 1))
        builder.range(f"r{index}", start, start + 3).os_call("poll", start, start + index % 2)
    ordered, mixed = trace_of(builder), trace_of(builder.shuffled(7))
    assert ordered.strings == mixed.strings
    for name, frame in ordered.frames.items():
        assert frame.astype(object).equals(mixed.frames[name].astype(object)), name


def test_the_text_of_a_range_is_in_the_row_or_under_an_id() -> None:
    builder = ExportBuilder().range("registered", 1, 2).range("plain", 3, 4, registered=False).range("both", 5, 6)
    builder.rows["NVTX_EVENTS"][-1]["text"] = "other"
    assert trace_of(builder).frames["ranges"]["text"].tolist() == ["registered", "plain", "both"]


def test_string_0_is_not_the_text_of_ranges_without_one() -> None:
    """Nsys numbers its texts from 0, and a NULL id is not id 0."""
    builder = ExportBuilder().row("NVTX_EVENTS", start=1, end=2, kind=PUSH_POP, thread=MAIN)
    builder.row("StringIds", id=0, value="GpuMetrics")
    assert trace_of(builder).frames["ranges"]["text"].tolist() == [""]


def test_a_range_that_was_never_closed_lasts_to_the_end() -> None:
    """An unclosed range lasts to the last event or to the end of the session, whichever is later."""
    builder = ExportBuilder().range("open", 10, None).kernel(100, 200)
    assert rows(trace_of(builder), "ranges", "start", "end", "open") == [(10, 200, True)]
    assert rows(trace_of(builder.session(duration=500)), "ranges", "start", "end", "open") == [(10, 500, True)]


@pytest.mark.parametrize("end", [500, 501])
def test_a_range_that_ends_with_the_session_or_later_is_open(end: int) -> None:
    """Nsys 2022 and 2023.4 write these ends. Without a session there is no end to compare with."""
    builder = ExportBuilder().range("closed", 0, 400).range("open", 10, end)
    assert rows(trace_of(builder), "ranges", "open") == [(False,), (False,)]
    assert rows(trace_of(builder.session(duration=500)), "ranges", "end", "open") == [(400, False), (end, True)]


def test_a_range_of_our_own_without_an_end_is_left_out() -> None:
    """An exception ended the call that it marks. The others are all there, and nothing counts as dropped."""
    builder = ExportBuilder().domain("nsyswrap", 7).range("data", 0, None, domain=7).range("data", 1, 4, domain=7)
    trace = trace_of(builder.range("own", 2, None).session(duration=500))
    assert rows(trace, "ranges", "start", "text") == [(1, "data"), (2, "own")]
    assert not trace.dropped


def test_a_range_that_ends_after_a_wrong_end_of_the_session_is_not_open() -> None:
    """The end of the session is wrong where ranges begin after it."""
    builder = ExportBuilder().range("first", 0, 501).range("second", 502, 900)
    assert rows(trace_of(builder.session(duration=500)), "ranges", "open") == [(False,), (False,)]


def test_a_range_may_be_closed_by_another_thread() -> None:
    trace = trace_of(ExportBuilder().range("handed over", 1, 9, kind=START_END, end_thread=thread(5)))
    assert rows(trace, "ranges", "thread", "end_thread", "kind") == [(MAIN, thread(5), START_END)]


def test_marks_and_other_events_are_not_ranges() -> None:
    builder = ExportBuilder().domain("loader", 1).python_sample(5, [("f", "a.py", 3)]).range("x", 1, 2)
    trace = trace_of(builder)
    assert trace.frames["ranges"]["text"].tolist() == ["x"]
    assert trace.event_counts["NVTX"] == 3


def test_a_domain_may_be_named_by_an_id() -> None:
    builder = ExportBuilder()
    builder.row("NVTX_EVENTS", start=0, kind=DOMAIN, domain=1, thread=MAIN, textId=builder.string("registered"))
    assert trace_of(builder.range("a", 1, 2, domain=1)).frames["ranges"]["domain"].tolist() == ["registered"]


def test_devices_are_the_physical_ones() -> None:
    """CUDA_VISIBLE_DEVICES=1,0 makes GPU 1 device 0 of the process; another process may number it differently."""
    builder = ExportBuilder().visible_device(0, gpu=1).visible_device(1, gpu=0)
    builder.kernel(1, 2, device=0).kernel(3, 4, device=1).kernel(5, 6, device=0, process=global_id(77))
    assert trace_of(builder).frames["kernels"]["device_id"].tolist() == [1, 0, 0]


def repeated(builder: ExportBuilder, path: Path, table: str, count: int, **columns: str) -> Path:
    """Write an export that repeats the only row of a table; columns are SQL expressions of the row number ``n``."""
    export = builder.write(path)
    with closing(sqlite3.connect(export)) as db, db:
        names = [row[1] for row in db.execute(f"pragma table_info({table})")]
        values = ", ".join(columns.get(name, f'"{name}"') for name in names)
        numbers = "with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < ?)"
        db.execute(f"insert into {table} {numbers} select {values} from {table}, numbers order by n", (count - 1,))  # noqa: S608
    return export


def test_more_texts_than_one_statement_can_select(tmp_path: Path) -> None:
    export = repeated(
        ExportBuilder().range("op 0", 0, 1), tmp_path / "a.sqlite", "NVTX_EVENTS", 33_000, textId="1000 + n"
    )
    with closing(sqlite3.connect(export)) as db, db:
        db.execute("insert into StringIds select textId, 'op ' || (textId - 1000) from NVTX_EVENTS where textId > 1000")
    texts = load_export(export).frames["ranges"]["text"]
    assert texts.nunique() == 33_000
    assert {"op 0", "op 32999"} <= set(texts)


def test_a_column_may_begin_with_many_nulls(tmp_path: Path) -> None:
    """The driver guesses a column's type from its first 65536 rows."""
    columns = {"start": "n", "end": "n + 1"}
    export = repeated(ExportBuilder().range("same", 0, 1), tmp_path / "a.sqlite", "NVTX_EVENTS", 66_000, **columns)
    with closing(sqlite3.connect(export)) as db, db:
        last = db.execute("insert into NVTX_EVENTS select * from NVTX_EVENTS limit 1").lastrowid
        late = "update NVTX_EVENTS set start = 70000, \"end\" = 70001, textId = null, text = 'late' where rowid = ?"
        db.execute(late, (last,))
    texts = load_export(export).frames["ranges"]["text"]
    assert texts.iloc[-1] == "late"
    assert len(texts) == 66_001


@pytest.mark.parametrize("shift", [-(1 << 40), -3_000, 1 << 60])
def test_row_numbers_do_not_give_the_number_of_rows(tmp_path: Path, shift: int) -> None:
    """The last row number is only a first size of the arrays. There may be fewer rows, or more in several batches."""
    columns = {"start": "n", "end": "n + 1"}
    export = repeated(ExportBuilder().os_call("poll", 0, 1), tmp_path / "a.sqlite", "OSRT_API", 70_000, **columns)
    with closing(sqlite3.connect(export)) as db:
        for step in (1 << 50, shift - (1 << 50)):
            db.execute("update OSRT_API set rowid = rowid + ?", (step,))
        db.commit()
    assert load_export(export).frames["os_calls"]["start"].tolist() == list(range(70_000))


def test_long_texts_are_cut_when_they_are_read() -> None:
    """A name may have any length in an export. What is cut off changes no time and no other name."""
    long = "k" * 300_000
    builder = ExportBuilder(2025).kernel(100, 200, long, launched=(10, 20)).kernel(300, 400, "short", launched=(30, 40))
    trace = trace_of(builder.range(long, 5, 45).range("\N{SNOWMAN}" * 100_000, 50, 60))
    names = [trace.text(each) for each in trace.frames["kernels"]["name_id"].tolist()]
    assert names == [long[: schema.LONGEST_TEXT], "short"]
    assert trace.frames["ranges"]["text"].tolist() == [
        long[: schema.LONGEST_TEXT],
        "\N{SNOWMAN}" * schema.LONGEST_TEXT,
    ]
    assert rows(trace, "kernels", "start", "end") == [(100, 200), (300, 400)]


def test_a_cut_text_holds_no_part_of_a_home_folder() -> None:
    """The cut comes after the home folder became a tilde."""
    path = "x" * (schema.LONGEST_TEXT - 10) + " /home/somebody/train.py " + "y" * 300_000
    trace = trace_of(ExportBuilder(2025).range(path, 5, 45))
    (text,) = trace.frames["ranges"]["text"].tolist()
    assert text.endswith(" ~/train.p")


def test_home_folders_do_not_reach_the_trace() -> None:
    builder = ExportBuilder().kernel(1, 2, "k at /home/ann/a.cu").range("/home/ann/x", 1, 2).domain("/home/ann", 1)
    builder.range("/root/y", 3, 4, registered=False, domain=1).thread_name(MAIN, "/home/ann/bin/python")
    trace = trace_of(builder.diagnostic("see /home/ann/log"))
    seen = [*trace.strings.values()]
    for frame in trace.frames.values():
        seen += [str(value) for name in frame for value in (frame[name] if frame[name].dtype == "category" else [])]
    assert len(seen) > 6
    assert not [text for text in seen if "ann" in text or "root" in text]


@pytest.mark.parametrize("far", [2**53 + 1, -(2**53) - 1])
def test_times_are_exact_to_the_nanosecond(far: int) -> None:
    frame = trace_of(ExportBuilder().kernel(far, far + 1).kernel(far + 2, far + 3)).frames["kernels"]
    assert frame["start"].tolist() == [far, far + 2]
    assert tables.array(frame, "end").dtype == np.int64
