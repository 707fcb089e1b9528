"""A redacted export has the same numbers and no identifying words."""

import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from export_builder import MAIN, ExportBuilder, global_id
from real_captures import Planted, every_capture

from nsyswrap.base.errors import ExportError, NsyswrapError, UsageError
from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.process import output_of
from nsyswrap.trace import schema
from nsyswrap.trace.load import load_export
from nsyswrap.trace.redact import TABLES, redact
from nsyswrap.trace.tables import SPECS, Trace

Captures = Callable[[str], Path]
Redacted = Callable[[ExportBuilder], Path]

SECRET = "v4lue-of-a-secret"  # noqa: S105 - planted to be looked for
ENVIRONMENT = {"HOME": "/data/ann", "USER": "annabella", "HOSTNAME": "gpu-box", "MY_TOKEN": SECRET, "PATH": "/bin"}
IDENTIFYING = (SECRET, "annabella", "gpu-box", "/data/ann", "MY_TOKEN", "HOSTNAME")


@pytest.fixture
def redacted(tmp_path: Path) -> Redacted:
    """Return a function that writes an export and redacts it into the same folder."""

    def export(builder: ExportBuilder) -> Path:
        redact(builder.write(tmp_path / "whole.sqlite"), tmp_path / "shared.sqlite")
        return tmp_path / "shared.sqlite"

    return export


def query(path: Path, text: str) -> list[tuple[object, ...]]:
    """Return the rows that SQLite finds."""
    with closing(sqlite3.connect(path)) as database:
        return database.execute(text).fetchall()


def assert_same_numbers(one: Trace, other: Trace) -> None:
    """Check every column except texts, row by row. Only threads and processes of the program are kept."""
    for spec in SPECS:
        if spec.name in {"threads", "processes"}:
            continue
        for name, dtype in spec.columns.items():
            if dtype != "category":
                assert one[spec][name].equals(other[spec][name]), f"{spec.name}.{name}"
    assert one.event_counts == other.event_counts
    assert one.absent == other.absent
    assert (one.copy_kinds, one.memory_kinds, one.gpus) == (other.copy_kinds, other.memory_kinds, other.gpus)


def full(release: int = 2025) -> ExportBuilder:
    """Start an export with rows in every table that is kept, and identifying words in every place."""
    builder = (
        ExportBuilder(release).session().gpu(chipName="GH100").environment(ENVIRONMENT).system("Hostname", "gpu-box")
    )
    builder.kernel(10, 20, "gemm", launched=(1, 2)).copy(30, 40, launched=(3, 4)).fill(50, 60, launched=(5, 6))
    builder.range("load /data/ann/x", 1, 2).range(f"by annabella with {SECRET}", 3, 4, registered=False)
    builder.os_call("poll", 1, 2).overhead("dlopen(/data/ann/lib.so)", 1, 2).scheduled(5, running=True)
    builder.thread_name(MAIN, "annabella-main").thread_name(global_id(1, 1), "somebody-elses-daemon")
    builder.row("PROCESSES", globalPid=global_id(1), pid=1, name="somebody-elses-daemon")
    builder.row("ProcessStreams", globalPid=1, filenameId=builder.string("/x/out"), contentId=builder.string("printed"))
    event = {"globalPid": 1, "correlation": 1, "eventId": 7}
    builder.row("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", start=1, end=2, syncType=1, **event)
    builder.row("CUPTI_ACTIVITY_KIND_CUDA_EVENT", device=0, stream=7, **event).memory(1, 512, name=SECRET)
    return builder


# No identifying word stays.


@pytest.mark.parametrize("release", [2022, 2023, 2025])
def test_identifying_words_are_in_the_export_and_in_no_byte_of_the_redacted_one(
    redacted: Redacted, release: int
) -> None:
    shared = redacted(full(release))
    whole = shared.with_name("whole.sqlite").read_bytes()
    content = shared.read_bytes()
    for word in (*IDENTIFYING, "somebody-elses-daemon", "printed", "/x/out"):
        assert word.encode() in whole, word
        assert word.encode() not in content, word
        assert word.encode("utf-16-le") not in content, word


def test_a_secret_of_a_real_run_is_in_no_byte(planted: Planted, tmp_path: Path) -> None:
    """In the capture of a real nsys, the home folder, user, output and the folder of the command are removed too."""
    redact(planted.export, tmp_path / "shared.sqlite")
    whole, content = planted.export.read_bytes(), (tmp_path / "shared.sqlite").read_bytes()
    for word in (planted.secret, planted.variable, "annabella", str(planted.folder), "LD_PRELOAD"):
        assert word.encode() in whole, word
        assert word.encode() not in content, word
    assert query(tmp_path / "shared.sqlite", "select count(*) from StringIds where instr(value, 'printed by')") == [
        (0,)
    ]


def test_a_real_run_reads_the_same(planted: Planted, tmp_path: Path) -> None:
    redact(planted.export, tmp_path / "shared.sqlite")
    whole, shared = load_export(planted.export), load_export(tmp_path / "shared.sqlite")
    assert_same_numbers(whole, shared)
    assert shared.session.secrets == ()
    assert planted.variable in whole.session.secrets
    assert set(shared.frames["ranges"]["text"]) == {"outer", "read ~/data"}


def test_texts_of_ranges_and_threads_are_cleaned(redacted: Redacted) -> None:
    trace = load_export(redacted(full()))
    assert trace.frames["ranges"]["text"].tolist() == ["load ~/x", "by *** with ***"]
    assert trace.frames["threads"]["name"].tolist() == ["***-main"]


def test_only_threads_of_the_program_keep_their_names(redacted: Redacted) -> None:
    """The names of other threads would show which programs run on the machine."""
    shared = redacted(full())
    assert query(shared, "select globalTid from ThreadNames") == [(MAIN,)]


def test_serial_numbers_and_addresses_of_gpus_are_gone(redacted: Redacted) -> None:
    shared = redacted(ExportBuilder().gpu(luid=77))
    found = query(shared, "select name, smCount, uuid, busLocation, luid, ctrlDevPath from TARGET_INFO_GPU")
    assert found == [("NVIDIA H200", 132, None, None, None, None)]


def test_a_text_in_a_column_of_numbers_is_gone(redacted: Redacted) -> None:
    builder = full()
    builder.rows["CUPTI_ACTIVITY_KIND_KERNEL"][0]["gridId"] = SECRET
    assert SECRET.encode() not in redacted(builder).read_bytes()


def test_an_unknown_table_or_column_is_left_out(tmp_path: Path) -> None:
    """Tables and texts that a newer nsys adds are left out until they are listed; numbers in known tables stay."""
    path = full().write(tmp_path / "whole.sqlite")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("create table NEWER (secret text)")
        database.execute("insert into NEWER values (?)", (SECRET,))
        database.execute("alter table OSRT_API add column remark text")
        database.execute("alter table OSRT_API add column extra integer")
        database.execute("update OSRT_API set remark = ?, extra = 5", (SECRET,))
    redact(path, tmp_path / "shared.sqlite")
    assert SECRET.encode() not in (tmp_path / "shared.sqlite").read_bytes()
    assert query(tmp_path / "shared.sqlite", "select remark, extra from OSRT_API") == [(None, 5)]


def test_no_deleted_data_stays_in_unused_pages(redacted: Redacted) -> None:
    shared = redacted(full())
    assert query(shared, "pragma freelist_count") == [(0,)]
    assert query(shared, "pragma integrity_check") == [("ok",)]


def test_only_options_of_the_recording_stay(redacted: Redacted) -> None:
    builder = full().option("CAPTURE_EVENT_TYPE", "Cuda").option("PROCESS_0:WORKING_DIR", "/data/ann/x")
    builder.option("GPU_METRICS_OPTIONS:SAMPLING_FREQUENCY", "10000").option("RATE_HZ", "a word: with blanks")
    builder.option("SOMETHING_NEW", "x").option("PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE", "Node")
    rows = query(redacted(builder), "select name, value from META_DATA_CAPTURE order by name")
    assert rows == [
        ("CAPTURE_EVENT_TYPE", "Cuda"),
        ("GPU_METRICS_OPTIONS:SAMPLING_FREQUENCY", "10000"),
        ("PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE", "Node"),
    ]


def test_the_command_loses_folders_and_secrets(redacted: Redacted) -> None:
    builder = (
        ExportBuilder()
        .environment(ENVIRONMENT)
        .command("/opt/x/bin/python", "/data/ann/train.py", "--token", "abc", "--lr=1")
    )
    assert load_export(redacted(builder)).session.command == ("python", "train.py", "--token", "***", "--lr=1")


def test_python_samples_keep_functions_and_files_by_package(redacted: Redacted) -> None:
    frames = [("forward", "/data/ann/lib/python3.12/site-packages/torch/nn/a.py", 7), ("main", "/data/ann/train.py", 3)]
    shared = redacted(
        ExportBuilder().environment(ENVIRONMENT).domain("Python Periodic Sampling", 1).python_sample(5, frames)
    )
    texts = "(select value from StringIds where id = f.value ->> 'Function')"
    files = "(select value from StringIds where id = f.value ->> 'File')"
    stack = "json_each(jsonText, '$.Python Periodic Sampling.Frames') f"
    found = query(shared, f"select {texts}, {files}, f.value ->> 'Line' from NVTX_EVENTS, {stack}")  # noqa: S608
    assert found == [("forward", "lib/python3.12/site-packages/torch/nn/a.py", 7), ("main", "train.py", 3)]


@pytest.mark.parametrize(
    "payload",
    [
        SECRET,
        f'{{"Python Periodic Sampling": {{"Frames": "{SECRET}"}}}}',
        f'{{"{SECRET}": {{"Thread state ID": 1, "Thread state": "Running", "Frames": []}}}}',
        f'{{"Python Periodic Sampling": {{"Thread state ID": 1, "Thread state": "{SECRET}", "Frames": []}}}}',
        '{"Python Periodic Sampling": {"Thread state ID": 1, "Thread state": "x", "Frames": [{"Function": 1e99}]}}',
        "[" * 100_000,
    ],
)
def test_a_payload_of_another_form_is_gone(redacted: Redacted, payload: str) -> None:
    shared = redacted(ExportBuilder().range("x", 1, 2, jsonText=payload))
    assert query(shared, "select jsonText from NVTX_EVENTS") == [(None,)]


def test_texts_that_are_not_utf_8_are_marked(redacted: Redacted) -> None:
    shared = redacted(ExportBuilder().kernel(1, 2, b"\xff\xfegemm").range(b"\x80", 1, 2, registered=False))
    trace = load_export(shared)
    assert list(trace.strings.values()) == ["\ufffd\ufffdgemm"]
    assert trace.frames["ranges"]["text"].tolist() == ["\ufffd"]


# The numbers stay.


@every_capture
def test_a_real_capture_reads_the_same(captures: Captures, tmp_path: Path, name: str) -> None:
    redact(captures(name), tmp_path / "shared.sqlite")
    whole, shared = load_export(captures(name)), load_export(tmp_path / "shared.sqlite")
    assert_same_numbers(whole, shared)
    assert whole.strings == shared.strings
    assert whole.frames["ranges"].astype(object).equals(shared.frames["ranges"].astype(object))


@pytest.mark.parametrize("release", [2022, 2023, 2025])
def test_every_listed_table_keeps_its_rows(redacted: Redacted, release: int) -> None:
    builder = full(release)
    if release == 2025:
        builder.graph(70, 80).diagnostic("hello").visible_device(0, 0).metric("SMs Active", [(1, 50), (2, 60)])
        builder.row("CUDA_GRAPH_EVENTS", start=1, graphId=1).row("CUDA_GRAPH_NODE_EVENTS", start=1, graphNodeId=1)
        builder.row("TARGET_INFO_CUDA_STREAM", streamId=7).row("TARGET_INFO_CUDA_CONTEXT_INFO", contextId=1)
        for name in [name for name in TABLES if name.startswith(("CUDA_UM_", "MPI_", "UCP_")) or "OPENACC" in name]:
            builder.row(name, **({"rank": 1} if name == "MPI_RANKS" else {"start": 1}))
        assert builder.rows.keys() >= TABLES.keys() - {schema.OLD_GPUS}
    shared = redacted(builder)
    for table in TABLES.keys() & builder.rows.keys():
        assert query(shared, f"select count(*) from {table}") == [(len(builder.rows[table]),)], table  # noqa: S608


def test_redacting_again_changes_nothing(redacted: Redacted, tmp_path: Path) -> None:
    once = redacted(full())
    redact(once, tmp_path / "twice.sqlite")
    assert (tmp_path / "twice.sqlite").read_bytes() == once.read_bytes()


def test_the_result_counts_what_was_kept_and_left_out(tmp_path: Path) -> None:
    path = full().write(tmp_path / "whole.sqlite")
    done = redact(path, tmp_path / "shared.sqlite")
    assert done.path == tmp_path / "shared.sqlite"
    assert done.kept["CUPTI_ACTIVITY_KIND_KERNEL"] == 1
    assert done.left_out["ThreadNames"] == done.left_out["PROCESSES"] == done.left_out["ProcessStreams"] == 1
    assert done.kept["StringIds"] == done.texts_kept
    (texts,) = query(path, "select count(*) from StringIds")
    assert texts == (done.texts_kept + done.texts_left_out,)
    assert done.texts_changed == 3


REPORTS = ("cuda_gpu_kern_sum", "cuda_api_sum", "cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum", "cuda_gpu_trace")
RANGE_REPORTS = ("nvtx_sum", "nvtx_kern_sum", "nvtx_gpu_proj_sum", "cuda_kern_exec_sum", "osrt_sum")


@pytest.mark.parametrize("name", ["cnn_amp", "cuda_graph_node_trace"])
def test_nsys_reads_the_same_out_of_it(captures: Captures, nsys: Nsys, tmp_path: Path, name: str) -> None:
    """The reports of nsys are the same for the export and the redacted one."""
    printed = []
    for label in ("whole", "shared"):
        (tmp_path / label).mkdir()
        path = tmp_path / label / "x.sqlite"
        shutil.copyfile(captures(name), path) if label == "whole" else redact(captures(name), path)
        reports = [word for report in (*REPORTS, *RANGE_REPORTS) for word in ("--report", report)]
        command: list[str | Path] = [nsys.path, "stats", "--quiet", "--format=csv", *reports, path.name]
        output = output_of(command, timeout_s=120, cwd=path.parent)
        assert output.code == 0, output.text
        printed.append(output.stdout)
    assert len(printed[0].splitlines()) > 1000
    assert printed[0] == printed[1]


# The file.


def test_it_is_written_in_one_step_and_readable_by_all(redacted: Redacted) -> None:
    shared = redacted(full())
    assert stat.S_IMODE(shared.stat().st_mode) == 0o644
    assert sorted(path.name for path in shared.parent.iterdir()) == ["shared.sqlite", "whole.sqlite"]


def test_an_existing_file_is_kept(tmp_path: Path) -> None:
    path = full().write(tmp_path / "whole.sqlite")
    (tmp_path / "there.sqlite").write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        redact(path, tmp_path / "there.sqlite")
    assert (tmp_path / "there.sqlite").read_text() == "mine"


def test_a_broken_export_leaves_nothing_behind(tmp_path: Path) -> None:
    path = full().write(tmp_path / "whole.sqlite")
    content = bytearray(path.read_bytes())
    content[8192:-4096] = bytes(len(content) - 12288)
    path.write_bytes(content)
    with pytest.raises(ExportError, match=r"cannot read whole\.sqlite"):
        redact(path, tmp_path / "shared.sqlite")
    assert [each.name for each in tmp_path.iterdir()] == ["whole.sqlite"]


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's limit on pages simulates the full disk."""
    path = full().write(tmp_path / "whole.sqlite")
    real = sqlite3.connect

    def small(*arguments: object, **options: object) -> sqlite3.Connection:
        database: sqlite3.Connection = real(*arguments, **options)  # type: ignore[call-overload]
        database.execute("pragma max_page_count = 4")
        return database

    monkeypatch.setattr("nsyswrap.trace.redact.sqlite3.connect", small)
    with pytest.raises(NsyswrapError, match=r"cannot write .*full"):
        redact(path, tmp_path / "shared.sqlite")
    assert [each.name for each in tmp_path.iterdir()] == ["whole.sqlite"]
