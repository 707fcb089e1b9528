"""Invalid exports: each is refused with an error that names the file, and no value is guessed."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from export_builder import ExportBuilder, trace_of

from nsyswrap.base.errors import ExportError
from nsyswrap.trace import schema
from nsyswrap.trace.load import load_export
from nsyswrap.trace.tables import NO_ID

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"


def small() -> ExportBuilder:
    """Start an export with rows in every table."""
    builder = ExportBuilder().session().gpu().command("python", "train.py").diagnostic("hello")
    for step in range(40):
        at = step * 1000
        builder.range(f"step {step}", at, at + 900).kernel(at + 100, at + 500, f"k{step % 5}", launched=(at, at + 50))
        builder.copy(at + 500, at + 600, launched=(at + 60, at + 70)).os_call("poll", at + 80, at + 90)
    return builder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write a small valid export."""
    return small().write(tmp_path / "capture.sqlite")


def refusal(path: Path) -> ExportError:
    """Return the error for a file; every error names the file and has a hint."""
    with pytest.raises(ExportError) as raised:
        load_export(path)
    error = raised.value
    assert path.name in error.message
    assert error.hint
    assert "\n" not in error.message
    assert error.exit_code == 1
    return error


def changed(path: Path, *statements: str) -> Path:
    """Run a statement on an export."""
    with closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(statement)
    return path


# The file.


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path, "does not exist"),
        (lambda path: path.mkdir(), "is not a file"),
        (os.mkfifo, "is not a file"),
        (lambda path: path.touch(), "is empty"),
        (lambda path: path.write_bytes(b"QDSTRM" + bytes(5000)), "is not a SQLite file"),
        (lambda path: changed(path, "create table history (url text)"), "not an export of nsys"),
        (lambda path: changed(path, "create table x (y)", "drop table x"), "not an export of nsys"),
    ],
    ids=["missing", "folder", "pipe", "empty", "of nsys itself", "of another program", "without tables"],
)
def test_what_is_no_export_is_named(make: Callable[[Path], object], words: str, tmp_path: Path) -> None:
    """A pipe does not block."""
    make(tmp_path / "x.sqlite")
    assert words in refusal(tmp_path / "x.sqlite").message


def test_a_file_without_read_permission(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read everything, so the test simulates the error of the operating system."""
    real = Path.open

    def refuse(self: Path, mode: str = "r") -> object:
        if self == path:
            raise PermissionError(13, "Permission denied", str(self))
        return real(self, mode)

    path.chmod(0)
    if os.geteuid() == 0:
        monkeypatch.setattr(Path, "open", refuse)
    error = refusal(path)
    assert "permission denied" in error.message
    assert error.hint == "check the file's permissions"


def test_a_circular_link(tmp_path: Path) -> None:
    (tmp_path / "loop.sqlite").symlink_to("loop.sqlite")
    assert "cannot read" in refusal(tmp_path / "loop.sqlite").message


@pytest.mark.parametrize("part", [1, 10, 19])
def test_a_truncated_file(path: Path, part: int) -> None:
    """An incomplete copy is refused, cut after some twentieths of the file."""
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * part // 20])
    error = refusal(path)
    assert f"is truncated: {len(whole) * part // 20} bytes of {len(whole)}" in error.message


@pytest.mark.parametrize("kept", [1, 15, 16, 17, 31, 32, 99, 100, 101, 4095, 4096, 4097, 8192])
def test_a_file_cut_in_its_header_or_between_pages(path: Path, kept: int) -> None:
    path.write_bytes(path.read_bytes()[:kept])
    assert "is truncated" in refusal(path).message


def test_a_file_with_a_page_of_zeros(path: Path) -> None:
    """A copy in which a page holds only zeros is refused."""
    content = bytearray(path.read_bytes())
    content[4096:-4096] = bytes(len(content) - 8192)
    path.write_bytes(content)
    assert "cannot read" in refusal(path).message


# Another process writes the file.


@pytest.fixture
def writer(path: Path) -> Iterator[sqlite3.Connection]:
    """Connect to the export in the same way as the program that writes it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        yield database


def test_an_export_that_is_being_written(path: Path, writer: sqlite3.Connection) -> None:
    writer.execute("begin exclusive")
    assert "is locked" in refusal(path).message


def test_an_export_whose_transaction_is_open(path: Path, writer: sqlite3.Connection) -> None:
    """The journal shows an open transaction before the first page is written."""
    writer.execute("begin immediate")
    writer.execute(f"delete from {KERNEL}")  # noqa: S608 - our own name
    assert "is locked" in refusal(path).message


@pytest.mark.parametrize("suffix", ["-journal", "-wal"])
def test_an_export_whose_writer_stopped(path: Path, suffix: str) -> None:
    Path(f"{path}{suffix}").write_bytes(b"left over")
    error = refusal(path)
    assert "stopped before its end" in error.message
    assert "nsys export" in error.hint


def test_an_idle_writer_is_no_problem(path: Path, writer: sqlite3.Connection) -> None:
    writer.execute("select 1")
    assert len(load_export(path).frames["kernels"]) == 40


def test_a_file_in_wal_mode_is_read_and_not_changed(path: Path) -> None:
    changed(path, "pragma journal_mode = wal")
    assert len(load_export(path).frames["kernels"]) == 40
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_reading_leaves_no_trace(path: Path) -> None:
    """Reading leaves no lock and no journal, and does not change the modification time."""
    before = path.stat()
    load_export(path)
    after = path.stat()
    assert (before.st_mtime_ns, before.st_ino, before.st_size) == (after.st_mtime_ns, after.st_ino, after.st_size)
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_an_export_in_a_read_only_folder(path: Path) -> None:
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        assert len(load_export(path).frames["kernels"]) == 40
    finally:
        path.parent.chmod(0o755)


@pytest.mark.parametrize(
    "name",
    ["a b 50% %20.sqlite", "a#b.sqlite", "a?b=c&mode=rw.sqlite", "it's q\".sqlite", "日本😀\u202e\n.sqlite", "x" * 240],
)
def test_names_of_files_may_hold_anything(tmp_path: Path, name: str) -> None:
    """SQLite opens the file by a URI, in which these characters are special."""
    assert len(load_export(small().write(tmp_path / name)).frames["kernels"]) == 40


# Its tables.


@pytest.mark.parametrize(
    ("table", "column"),
    [(KERNEL, "start"), (KERNEL, "demangledName"), ("NVTX_EVENTS", "eventType"), ("OSRT_API", "globalTid")],
)
def test_a_table_without_a_required_column(tmp_path: Path, table: str, column: str) -> None:
    error = refusal(small().without(table, column).write(tmp_path / "x.sqlite"))
    assert f"table {table} has no column {column}" in error.message


@pytest.mark.parametrize("value", ["'soon'", "1.5", "x'00ff'", "9223372036854775808"])
@pytest.mark.parametrize(
    ("table", "column"),
    [(KERNEL, "start"), (KERNEL, "deviceId"), ("CUPTI_ACTIVITY_KIND_MEMCPY", "bytes"), ("NVTX_EVENTS", "textId")],
)
def test_a_value_of_another_type_in_a_column_of_numbers(path: Path, table: str, column: str, value: str) -> None:
    """SQLite stores any type in any column. Another type is refused, because a guessed number would be wrong."""
    changed(path, f"update {table} set {column} = {value} where rowid = 17")  # noqa: S608 - our own names
    assert f"column {column} of {table} holds a value that is not a whole number" in refusal(path).message


def test_a_text_long_after_the_first_rows(tmp_path: Path) -> None:
    """The driver has already chosen the column's type, and its error has only the number of the column."""
    builder = ExportBuilder()
    for index in range(66_000):
        builder.os_call("poll", index, index + 1)
    path = changed(builder.write(tmp_path / "x.sqlite"), "update OSRT_API set end = 'soon' where rowid = 65990")
    assert "column end of OSRT_API holds a value that is not a whole number" in refusal(path).message


@pytest.mark.parametrize(
    ("table", "column"),
    [(KERNEL, "deviceId"), (KERNEL, "demangledName"), ("CUPTI_ACTIVITY_KIND_MEMCPY", "bytes"), ("OSRT_API", "nameId")],
)
def test_a_null_where_nsys_always_writes_a_value(path: Path, table: str, column: str) -> None:
    changed(path, f"update {table} set {column} = null where rowid = 3")  # noqa: S608 - our own names
    assert f"column {column} of {table} lacks a value" in refusal(path).message


@pytest.mark.parametrize(
    ("table", "column", "name", "expected"),
    [
        (KERNEL, "streamId", "kernels.stream", -1),
        (KERNEL, "registersPerThread", "kernels.registers", 0),
        (KERNEL, "sharedMemoryExecuted", "kernels.shared_executed_bytes", 0),
        ("CUPTI_ACTIVITY_KIND_MEMCPY", "streamId", "copies.stream", -1),
        ("CUPTI_ACTIVITY_KIND_MEMCPY", "copyKind", "copies.copy_kind", 0),
        ("CUPTI_ACTIVITY_KIND_MEMCPY", "srcKind", "copies.source_kind", -1),
    ],
)
@pytest.mark.parametrize("is_text_beside", [False, True])
def test_what_cupti_writes_for_no_number_is_read_as_none(  # noqa: PLR0913 - a case in six words
    path: Path, table: str, column: str, name: str, expected: int, *, is_text_beside: bool
) -> None:
    """All bits of a number of 32 bits are set. It is read from the pages of the file, and by SQLite beside a text."""
    changed(path, f"update {table} set {column} = {NO_ID} where rowid = 3")  # noqa: S608 - our own names
    if is_text_beside:
        changed(path, f"alter table {table} add column more text default 'x'")
    frame, _, ours = name.partition(".")
    trace = load_export(path)
    assert trace.frames[frame][ours].astype(int).tolist().count(expected) >= 1
    assert (len(trace.frames[frame]), trace.dropped) == (40, {})


def test_an_operation_on_no_gpu_is_left_out_and_counted(path: Path) -> None:
    changed(path, f"update {KERNEL} set deviceId = {NO_ID} where rowid = 3")  # noqa: S608 - our own name
    trace = load_export(path)
    assert len(trace.frames["kernels"]) == 39
    assert trace.dropped == {"kernels on no GPU": 1}


def test_an_impossible_device_id(path: Path) -> None:
    changed(path, f"update {KERNEL} set deviceId = {2**40} where rowid = 3")  # noqa: S608 - our own name
    assert f"column deviceId of {KERNEL}" in refusal(path).message


@pytest.mark.parametrize(
    ("start", "end"),
    [(500, 400), (0, 0), (None, 5), (5, None), (5, 2**63 - 1), (-(2**63), 5), (2**62, 2**62 + 1), (-(2**62), -5)],
)
def test_invalid_times_are_left_out_and_counted(start: int | None, end: int | None) -> None:
    builder = small().row(KERNEL, start=start, end=end, device=0, stream=7, process=0, correlation=1, demangledName=1)
    trace = trace_of(builder)
    assert len(trace.frames["kernels"]) == 40
    assert trace.dropped == {"kernels without a start, or with an end before the start": 1}


@pytest.mark.parametrize("far", [-(10**18), 10**18, 2**54])
@pytest.mark.parametrize("epoch", [0, 1_700_000_000_000_000_000])
def test_times_far_from_all_others_are_left_out_and_counted(far: int, epoch: int) -> None:
    """Ten calls that began 32 years ago once made totals negative, unseen. Times may count from 1970, too."""
    builder = ExportBuilder()
    for at in range(epoch, epoch + 40):
        builder.call("cudaMemcpyAsync", at, at + 1)
    for at in range(10):
        builder.call("cudaLaunchKernel", at + epoch // 2 + far, at + epoch).kernel(at + epoch, at + epoch + 1)
    trace = trace_of(builder)
    assert (len(trace.frames["calls"]), len(trace.frames["kernels"])) == (40, 10)
    assert trace.dropped == {"calls without a start, or with an end before the start": 10}


def test_lengths_that_add_up_beyond_their_type_are_refused(tmp_path: Path) -> None:
    builder = ExportBuilder()
    for at in range(1100):
        builder.call("cudaMemcpyAsync", at, 2**52)
    error = refusal(builder.write(tmp_path / "x.sqlite"))
    assert "the times of its calls add up to more than 146 years" in error.message


@pytest.mark.parametrize("gpu", [2**31, 2**40, -1])
def test_an_impossible_number_of_a_visible_gpu(tmp_path: Path, gpu: int) -> None:
    builder = ExportBuilder().kernel(1, 2).visible_device(0, gpu)
    error = refusal(builder.write(tmp_path / "x.sqlite"))
    assert f"column gpuId of TARGET_INFO_CUDA_DEVICE holds {gpu}" in error.message


@pytest.mark.parametrize("size", [-1, 2**62, 2**63 - 1])
def test_invalid_sizes_are_left_out_and_counted(size: int) -> None:
    trace = trace_of(small().copy(7, 9, bytes=size))
    assert trace.dropped == {"copies of an impossible size": 1}
    assert trace.frames["copies"]["bytes"].sum() == 40 * 1024


def test_an_invalid_end_does_not_change_open_ranges() -> None:
    builder = small().range("open", 5, None).kernel(5, 2**63 - 1).session(duration=2**63 - 1)
    ranges = trace_of(builder).frames["ranges"]
    assert int(ranges["end"].max()) < 2**40


def test_zero_is_a_time_for_calls_and_ranges() -> None:
    """Start 0 and end 0 mean that CUPTI could not measure the time, but only for operations."""
    trace = trace_of(ExportBuilder().call("cudaFree", 0, 0).range("x", 0, 0))
    assert trace.dropped == {}
    assert (len(trace.frames["calls"]), len(trace.frames["ranges"])) == (1, 1)


@pytest.mark.parametrize(
    "text",
    [
        *("'; drop table StringIds; --", "a\x00b", "\u202eevil\u202c", "\x1b[31mred", "<script>alert(1)</script>"),
        *("x" * schema.LONGEST_TEXT, "%s %d {0}", "\U0001f600", ""),
    ],
)
def test_texts_may_hold_anything(text: str) -> None:
    builder = ExportBuilder().kernel(1, 2, text).range(text, 1, 2).range(text, 3, 4, registered=False).domain(text, 1)
    trace = trace_of(builder.range("in", 5, 6, domain=1).diagnostic(text))
    assert trace.strings == {1: text}
    assert trace.frames["ranges"]["text"].tolist() == [text, text, "in"]
    assert trace.frames["ranges"]["domain"].tolist() == ["", "", text]


@pytest.mark.parametrize("text", [b"\xff\xfe\x80 end", "lone \ud800".encode("utf-8", "surrogatepass"), b"\xe2\x82"])
def test_texts_need_not_be_utf_8(text: bytes) -> None:
    """Bytes that cannot be decoded become U+FFFD, which every output can encode."""
    builder = ExportBuilder().kernel(1, 2, text).range(text, 1, 2).range(text, 3, 4, registered=False)
    trace = trace_of(builder.thread_name(1, text))
    for found in (*trace.strings.values(), *trace.frames["ranges"]["text"], *trace.frames["threads"]["name"]):
        assert "\ufffd" in found
        found.encode("utf-8")


def test_repeated_correlation_ids_are_kept() -> None:
    """The sections check repeated ids, so the reader must keep their rows."""
    builder = (
        ExportBuilder()
        .kernel(1, 2, correlation=5)
        .kernel(3, 4, correlation=5)
        .call("cudaLaunchKernel", 0, 1, correlation=5)
    )
    trace = trace_of(builder)
    assert trace.frames["kernels"]["correlation_id"].tolist() == [5, 5]
