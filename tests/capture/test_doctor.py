"""The checks of the doctor and their results, with replacements for what this machine may lack."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from capture_fixtures import executable, fake_nsys

from nsyswrap.capture import doctor
from nsyswrap.capture.doctor import CHECKS, RANGE, Check, Machine, Status, nvtx_version, run_checks, self_test
from nsyswrap.capture.locate import Nsys, importer_of

__all__ = ["fake_nsys"]


@pytest.mark.slow
def test_every_check_that_does_not_pass_has_a_remedy(fake_nsys: Nsys, monkeypatch: pytest.MonkeyPatch) -> None:
    """This is the real machine with a fake nsys; the cost is not measured, because its program imports torch."""
    monkeypatch.setattr(doctor, "profiler_cost", lambda *_, **__: {"calls": {}})
    checks = list(run_checks(Machine(fake_nsys)))
    assert [check.name for check in checks] == [
        "nsys",
        "importer",
        "GPU",
        "CPU sampling",
        "GPU counters",
        "disk",
        "temporary folder",
        "nvtx",
        "self-test",
        "profiler cost",
    ]
    assert len(checks) == len(CHECKS)
    assert all(check.remedy for check in checks if check.status is Status.FAILED)
    assert not any(check.remedy for check in checks if check.status is Status.OK)


def test_a_machine_without_nsys_fails_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The failure has a remedy; its consequences are only warnings."""
    monkeypatch.setenv("NSYSWRAP_NSYS", "/no/such/nsys")
    checks = {check.name: check for check in run_checks()}
    assert checks["nsys"].status is Status.FAILED
    assert "NSYSWRAP_NSYS is /no/such/nsys" in checks["nsys"].detail
    assert "NSYSWRAP_NSYS" in checks["nsys"].remedy
    assert checks["importer"] == Check("importer", Status.WARNING, "there is no nsys")
    assert checks["self-test"] == Check("self-test", Status.WARNING, "not run, because there is no nsys")


def test_an_importer_that_lacks_libraries_names_them(fake_nsys: Nsys, nsys: Nsys) -> None:
    """The test copies the real importer without its libraries."""
    real, fake = importer_of(nsys), importer_of(fake_nsys)
    assert real is not None
    assert fake is not None
    fake.unlink()
    shutil.copy2(real, fake)
    check = doctor.check_importer(Machine(fake_nsys))
    assert check.status is Status.FAILED
    assert "libssh.so" in check.detail
    assert "Install the packages that hold" in check.remedy


@pytest.mark.parametrize("text", ["#!/bin/sh\necho 'bad ELF'; exit 127\n", "#!/no/such/interpreter\n"])
def test_an_importer_that_does_not_start_fails(fake_nsys: Nsys, text: str) -> None:
    """The detail has its output."""
    importer = importer_of(fake_nsys)
    assert importer is not None
    executable(importer, text)
    check = doctor.check_importer(Machine(fake_nsys))
    assert (check.status, check.remedy) == (Status.FAILED, "Run 'nsyswrap setup --force'")
    assert "does not start" in check.detail


def test_an_importer_that_is_not_found_is_a_warning(tmp_path: Path) -> None:
    """A script that starts nsys has no importer beside it."""
    script = executable(tmp_path / "bin" / "nsys", "#!/bin/sh\n")
    check = doctor.check_importer(Machine(Nsys(script, (1,), "")))
    assert check.status is Status.WARNING
    assert "self-test" in check.detail


def test_gpus_and_driver_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come from nvidia-smi."""
    executable(tmp_path / "nvidia-smi", "#!/bin/sh\necho 'NVIDIA H200, 580.10'\necho 'NVIDIA H200, 580.10'\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    check = doctor.check_gpu(Machine(None))
    assert check == Check("GPU", Status.OK, "NVIDIA H200, NVIDIA H200; driver 580.10")


@pytest.mark.parametrize("text", ["", "#!/bin/sh\necho 'no devices were found'; exit 6\n", "#!/bin/sh\n"])
def test_no_gpu_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """nvidia-smi may be missing, list no device or fail; ranges can still be recorded."""
    if text:
        executable(tmp_path / "nvidia-smi", text)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    check = doctor.check_gpu(Machine(None))
    assert check.status is Status.WARNING
    assert "nsys records ranges" in check.detail


PARANOID, PARAMETERS = "sys/kernel/perf_event_paranoid", "driver/nvidia/params"
SYSCTL, ADMIN = "sysctl kernel.perf_event_paranoid=2", "NVreg_RestrictProfilingToAdminUsers=0"


@pytest.mark.parametrize(
    ("check", "user", "files", "status", "remedy"),
    [
        (doctor.check_sampling, 1000, {PARANOID: "-1\n"}, Status.OK, ""),
        (doctor.check_sampling, 1000, {PARANOID: "2\n"}, Status.OK, ""),
        (doctor.check_sampling, 1000, {PARANOID: "3\n"}, Status.WARNING, SYSCTL),
        (doctor.check_sampling, 0, {PARANOID: "4"}, Status.OK, ""),
        (doctor.check_sampling, 1000, {}, Status.WARNING, ""),
        (doctor.check_gpu_metrics, 1000, {PARAMETERS: "RmProfilingAdminOnly: 1\n"}, Status.WARNING, ADMIN),
        (doctor.check_gpu_metrics, 1000, {PARAMETERS: "RmProfilingAdminOnly: 0\n"}, Status.OK, ""),
        (doctor.check_gpu_metrics, 1000, {}, Status.OK, ""),
    ],
)
def test_what_a_user_may_sample_depends_on_kernel_and_driver(  # noqa: PLR0913, PLR0917 - one row of the table
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    check: Callable[[Machine], Check],
    user: int,
    files: dict[str, str],
    status: Status,
    remedy: str,
) -> None:
    """Root may sample whatever the kernel says. Another check reports a missing driver."""
    monkeypatch.setattr(os, "geteuid", lambda: user)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    found = check(Machine(None, proc=tmp_path))
    assert found.status is status
    assert found.remedy.endswith(remedy)
    assert bool(found.remedy) is bool(remedy)


def usage(free: int) -> Callable[[object], object]:
    """Set the free bytes of the disk."""
    return lambda _path: shutil._ntuple_diskusage(10**13, 0, free)  # noqa: SLF001 - its type


@pytest.mark.parametrize(("free", "status"), [(10**10, Status.OK), (10**9, Status.WARNING), (10**8, Status.FAILED)])
def test_a_capture_needs_disk_space(monkeypatch: pytest.MonkeyPatch, free: int, status: Status) -> None:
    """Little free space is a warning, and almost no free space is a failure."""
    monkeypatch.setattr(shutil, "disk_usage", usage(free))
    check = doctor.check_disk(Machine(None))
    assert check.status is status
    assert f"{free / 1e9:.1f} GB" in check.detail
    assert bool(check.remedy) == (status is not Status.OK)


def test_a_full_temporary_folder_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nsys writes recorded data there first."""
    monkeypatch.setattr(shutil, "disk_usage", usage(10**6))
    check = doctor.check_temporary(Machine(None))
    assert (check.status, "TMPDIR" in check.remedy) == (Status.FAILED, True)


def test_a_temporary_folder_with_a_long_path_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths of sockets are limited."""
    folder = tmp_path / ("long" * 20)
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    check = doctor.check_temporary(Machine(None))
    assert (check.status, "is too long" in check.detail) == (Status.FAILED, True)


def test_the_self_test_finds_its_range(fake_nsys: Nsys, monkeypatch: pytest.MonkeyPatch) -> None:
    """The range is sent, recorded, exported and found."""
    monkeypatch.setenv("FAKE_NSYS_RANGE", RANGE)
    check = self_test(fake_nsys)
    assert check == Check("self-test", Status.OK, f"a range of nvtx {nvtx_version()} was recorded, exported and found")


def test_a_range_that_is_not_recorded_fails_with_the_version_that_works(
    fake_nsys: Nsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This happens with nsys 2023.4.4 and nvtx 0.2.14."""
    monkeypatch.setenv("FAKE_NSYS_RANGE", "another range")
    check = self_test(fake_nsys)
    assert check.status is Status.FAILED
    assert check.detail == f"nsys 2023.4.4.54 does not record the ranges of the Python package nvtx {nvtx_version()}"
    assert "pip install 'nvtx==0.2.10'" in check.remedy


@pytest.mark.parametrize("how", ["no-report", "no-importer", "export-fails", "never-starts"])
def test_a_capture_that_fails_fails_the_self_test(fake_nsys: Nsys, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """It has the message and the remedy of the capture."""
    monkeypatch.setenv("FAKE_NSYS_FAILURE", how)
    check = self_test(fake_nsys)
    assert check.status is Status.FAILED
    assert "nsys" in check.detail
    assert check.remedy


def test_without_the_nvtx_package_the_self_test_is_a_warning(fake_nsys: Nsys, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recording and export were tested."""
    monkeypatch.setattr("nsyswrap.capture.doctor.nvtx_version", str)
    check = self_test(fake_nsys)
    assert check.status is Status.WARNING
    assert "no NVTX range was sent" in check.detail
    assert "pip install" in check.remedy


def test_a_missing_nvtx_package_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """The remedy names a version that works with every nsys."""
    monkeypatch.setattr("nsyswrap.capture.doctor.nvtx_version", str)
    check = doctor.check_nvtx(Machine(None))
    assert (check.status, check.remedy) == (Status.WARNING, "Install it: pip install 'nvtx==0.2.10'")


@pytest.mark.parametrize(
    ("steps", "detail"),
    [({}, ""), ({"slowdown": [1.436, 1.6]}, "; a training step takes 1.44 times as long")],
)
def test_what_nsys_adds_to_a_call_is_said_by_kind(
    steps: dict[str, list[float]], detail: str, fake_nsys: Nsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cost is measured again, even if an earlier measurement is kept. Without torch there is no training step."""
    again_values = []

    def measured(_options: object, _nsys: object, _announce: object, *, again: bool) -> dict[str, object]:
        again_values.append(again)
        launch = {"low_ns": 3000, "usual_ns": 5000, "high_ns": 8040, "alone_ns": 2000, **steps}
        return {"calls": {"launch": launch, "operation": launch}}

    monkeypatch.setattr(doctor, "profiler_cost", measured)
    check = doctor.check_profiler_cost(Machine(fake_nsys))
    assert check == Check("profiler cost", Status.OK, f"nsys adds to each launch 3.0 to 8.0 µs{detail}")
    assert again_values == [True]


def test_a_cost_that_cannot_be_measured_is_a_warning(tmp_path: Path) -> None:
    """This happens if nsys does not start or is missing. The warning says why."""
    check = doctor.check_profiler_cost(Machine(Nsys(tmp_path / "gone", (2025, 3, 1), "PATH")))
    assert (check.status, bool(check.remedy)) == (Status.WARNING, True)
    assert f"{tmp_path / 'gone'} profile --help fails" in check.detail
    assert doctor.check_profiler_cost(Machine(None)).detail == "not measured, because there is no nsys"


def test_a_machine_without_a_writable_temporary_folder_fails(fake_nsys: Nsys, monkeypatch: pytest.MonkeyPatch) -> None:
    """All other checks are still made."""

    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", none)
    found = {check.name: check for check in run_checks(Machine(fake_nsys))}
    assert len(found) == len(CHECKS)
    assert (found["temporary folder"].status, found["self-test"].status) == (Status.FAILED, Status.FAILED)
    assert "Set TMPDIR" in found["self-test"].remedy
