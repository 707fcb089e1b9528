"""The description of a capture in an export, without secrets."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from export_builder import ExportBuilder
from real_captures import Planted

from nsyswrap.base.errors import ExportError
from nsyswrap.capture.inherited import Inherited
from nsyswrap.capture.run_dir import RunDir
from nsyswrap.model import Gpu
from nsyswrap.trace.connection import Export, opened
from nsyswrap.trace.description import from_text, read_gpus, read_session, secret_names

Opener = Callable[[ExportBuilder], Export]
RELEASES = pytest.mark.parametrize("release", [2022, 2023, 2025])


@pytest.fixture
def open_export(tmp_path: Path) -> Iterator[Opener]:
    """Return a function that writes a built export and opens it for one test."""
    with ExitStack() as stack:
        yield lambda builder: stack.enter_context(opened(builder.write(tmp_path / "built.sqlite")))


@RELEASES
def test_versions_are_read_from_every_release(open_export: Opener, release: int) -> None:
    session = read_session(open_export(ExportBuilder(release)))
    assert session.nsys_version.startswith(f"{release}.")
    assert session.schema_version.startswith("3.")


def test_the_session_is_described(open_export: Opener) -> None:
    builder = ExportBuilder().session("2026-01-02T03:04:05", 7_000).system("NvDriverVersion", "580.159.04")
    builder.option("CAPTURE_EVENT_TYPE", "NvtxEvents").option("CAPTURE_EVENT_TYPE", "Cuda")
    builder.option("PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE", "Graph").system("CudaDriverVersion", "12080")
    session = read_session(open_export(builder))
    assert (session.started_utc, session.duration_ns) == ("2026-01-02T03:04:05", 7_000)
    assert (session.driver_version, session.cuda_version) == ("580.159.04", "12.8")
    assert (session.traces, session.graph_trace) == (("Cuda", "NvtxEvents"), "Graph")


def test_the_words_of_a_command_are_in_order(open_export: Opener) -> None:
    """Rows of options have no order, and word 11 comes after word 2."""
    words = [f"w{index}" for index in range(12)]
    session = read_session(open_export(ExportBuilder().command("python", *words).shuffled(3)))
    assert session.command == ("python", *words)


def test_a_command_is_neutral(open_export: Opener) -> None:
    session = read_session(
        open_export(ExportBuilder().command("/home/ann/bin/python", "x.py", "--token=abc", "--key", "def"))
    )
    assert session.command == ("~/bin/python", "x.py", "--token=***", "--key", "***")


@pytest.mark.parametrize("shell", [("/bin/sh",), ("/bin/bash", "-p")])
@pytest.mark.parametrize("unblocker", [(), ("/usr/bin/env", "--default-signal=HUP,TERM")])
def test_the_words_of_a_run_are_those_of_its_program(
    open_export: Opener, tmp_path: Path, shell: tuple[str, ...], unblocker: tuple[str, ...]
) -> None:
    """The shell of a run takes words of its own, some of them empty, before those of the program."""
    of_run = Inherited(umask=0o022, ignored=(1,), shell=shell, unblocker=unblocker)
    for run_dir in (RunDir(tmp_path), RunDir(tmp_path, of_run)):
        words = run_dir.inner(("python", "-c", "print()", "nsyswrap"))
        assert read_session(open_export(ExportBuilder().command(*words))).command == (
            "python",
            "-c",
            "print()",
            "nsyswrap",
        )


def test_the_shell_of_an_older_nsyswrap_is_not_the_command(open_export: Opener) -> None:
    builder = ExportBuilder().command("/bin/sh", "-c", "exec ...", "nsyswrap", "/scratch", "x", "python", "train.py")
    assert read_session(open_export(builder)).command == ("python", "train.py")


@pytest.mark.parametrize("number", ["", "x", "²²²²", "-12000", "1" * 5000])
def test_an_invalid_driver_version_is_not_shown(open_export: Opener, number: str) -> None:
    assert read_session(open_export(ExportBuilder().system("CudaDriverVersion", number))).cuda_version == ""


def test_gpus_are_read_in_the_order_of_their_ids(open_export: Opener) -> None:
    gpus = read_gpus(
        open_export(ExportBuilder().gpu(1, "NVIDIA L4", computeMajor=8, computeMinor=9, smCount=58).gpu(0))
    )
    assert [(gpu.device_id, gpu.name, gpu.compute_capability, gpu.sm_count) for gpu in gpus] == [
        (0, "NVIDIA H200", (9, 0), 132),
        (1, "NVIDIA L4", (8, 9), 58),
    ]


def test_a_gpu_of_unknown_kind_has_no_capability(open_export: Opener) -> None:
    (gpu,) = read_gpus(open_export(ExportBuilder().gpu(computeMajor=None, smCount=None)))
    assert (gpu.compute_capability, gpu.sm_count) == (None, 0)


def test_gpus_of_an_old_export_are_in_another_table(tmp_path: Path) -> None:
    """Then nsys had a row for each process that used a GPU, with the clock in kHz and the rate in kB/s."""
    columns = {
        "deviceId": 0,
        "name": "'NVIDIA GeForce RTX 3080'",
        "pciBusId": "'0000:02:00.0'",
        "computeCapabilityMajor": 8,
        "computeCapabilityMinor": 6,
        "numMultiprocessors": 68,
        "globalMemorySize": 10_495_524_864,
        "maxWarpsPerMultiprocessor": 48,
        "maxBlocksPerMultiprocessor": 16,
        "maxRegistersPerMultiprocessor": 65_536,
        "maxSharedMemoryPerMultiprocessor": 102_400,
        "globalMemoryBandwidth": 760_080_000,
        "l2CacheSize": 5_242_880,
        "coreClockRate": 1_740_000,
    }
    path = ExportBuilder().kernel(1, 2).write(tmp_path / "old.sqlite")
    with closing(sqlite3.connect(path)) as database:
        row = ", ".join(f"{value} AS {name}" for name, value in columns.items())
        database.execute(f"CREATE TABLE TARGET_INFO_CUDA_GPU AS SELECT {row} UNION ALL SELECT {row}")
        database.commit()
    with opened(path) as export:
        assert read_gpus(export) == (
            Gpu(
                *(0, "NVIDIA GeForce RTX 3080", (8, 6), 68, 10_495_524_864, 48, 16, 65_536, 102_400),
                *(760_080_000_000, 5_242_880, 1_740_000_000),
                bus="0000:02:00.0",
            ),
        )


H200 = {
    "memory_bytes": 150_109_880_320,
    "memory_bytes_per_second": 4_814_304_000_000,
    "cache_bytes": 62_914_560,
    "clock_hz": 1_980_000_000,
    "sm_shared_bytes": 233_472,
}
H200_COLUMNS = dict(
    zip(H200, ("totalMemory", "memoryBandwidth", "l2CacheSize", "clockRate", "maxShmemPerSm"), strict=True)
)
OTHER_LIMITS = {"maxWarpsPerSm": 64, "maxBlocksPerSm": 32, "maxRegistersPerSm": 65_536}


@pytest.mark.parametrize(
    "numbers",
    [
        H200,
        {"memory_bytes": 143_156, "clock_hz": 1_980, "cache_bytes": 60, "sm_shared_bytes": 228},
        {
            "memory_bytes": 146_591_680,
            "clock_hz": 1_980_000,
            "cache_bytes": 61_440,
            "memory_bytes_per_second": 4_814_304,
        },
        {"memory_bytes_per_second": 4_814_304_000},
        {
            "memory_bytes": "143155.9375 MiB",
            "clock_hz": "1980 MHz",
            "cache_bytes": "60 MiB",
            "sm_shared_bytes": "228 KiB",
        },
        {"memory_bytes": "150,109,880,320 B", "clock_hz": "1.98 GHz", "memory_bytes_per_second": "4814.304 GB/s"},
        {"cache_bytes": "60 MB", "memory_bytes_per_second": "4,814304 TB/s", "clock_hz": "1,980 MHz"},
    ],
)
def test_numbers_of_a_gpu_may_have_any_unit(open_export: Opener, numbers: dict[str, int | str]) -> None:
    """A number has the unit in which it is possible; a text says its unit."""
    columns: dict[str, Any] = {H200_COLUMNS[field]: value for field, value in {**H200, **numbers}.items()}
    (gpu,) = read_gpus(open_export(ExportBuilder().gpu(**columns | OTHER_LIMITS)))
    for field, value in H200.items():
        assert abs(getattr(gpu, field) - value) <= value / 1e5


@pytest.mark.parametrize("text", ["", "much", "80", "80 XB", "B", "1.2.3 GB", "GB 80", "80 GB more"])
def test_a_text_without_a_unit_is_no_quantity(text: str) -> None:
    assert from_text(text) is None


@pytest.mark.parametrize(("major", "minor"), [(-1, 0), (9, -(2**31))])
def test_a_negative_version_is_no_capability(major: int, minor: int, open_export: Opener) -> None:
    """The fuzzer found reports that could not be read again: they held such a version."""
    (gpu,) = read_gpus(open_export(ExportBuilder().gpu(computeMajor=major, computeMinor=minor)))
    assert gpu.compute_capability is None


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("TARGET_INFO_GPU", "computeMajor", "nine"),
        ("ANALYSIS_DETAILS", "duration", "long"),
        ("TARGET_INFO_GPU", "id", 1.5),
    ],
)
def test_a_text_in_a_column_of_numbers_is_an_error_that_names_it(
    open_export: Opener, table: str, column: str, value: str | float
) -> None:
    builder = ExportBuilder().gpu().session()
    builder.rows[table][0][column] = value
    export = open_export(builder)
    with pytest.raises(ExportError, match=f"column {column} of {table} holds a value that is not a whole number"):
        read_session(export), read_gpus(export)


@RELEASES
def test_names_of_secrets_are_found_and_values_are_not(open_export: Opener, release: int) -> None:
    builder = ExportBuilder(release).environment(
        {"PATH": "/bin", "HF_TOKEN": "hf_1;2=3\nFAKE_KEY=4", "PGPASSWORD": "AUTH_TOKEN"}
    )
    assert secret_names(open_export(builder)) == ("HF_TOKEN", "PGPASSWORD")


@pytest.mark.parametrize("place", ["StringIds", "TARGET_INFO_SYSTEM_ENV", "META_DATA_CAPTURE"])
def test_one_place_is_enough(open_export: Opener, place: str) -> None:
    """The environment is found in each of three places. A newer or partly redacted export may have only one of them."""
    others = {"StringIds", "TARGET_INFO_SYSTEM_ENV", "META_DATA_CAPTURE"} - {place}
    builder = ExportBuilder().environment({"PATH": "/bin", "HF_TOKEN": "x"})
    for other in others:
        builder.without(other)
    assert secret_names(open_export(builder)) == ("HF_TOKEN",)


def test_texts_of_the_program_are_not_an_environment(open_export: Opener) -> None:
    builder = ExportBuilder().range("TOKEN=3", 1, 2).kernel(1, 2, "f<API_KEY=1>").command("x", "HF_TOKEN=abc")
    assert secret_names(open_export(builder)) == ()


def test_a_real_nsys_leaves_names_that_are_found(planted: Planted) -> None:
    """Nsys does not document where it stores environments; this checks the installed version."""
    with opened(planted.export) as export:
        names = secret_names(export)
    assert planted.variable in names
    assert not [name for name in names if planted.secret in name]
