"""What the doctor looks at, and what it says of each thing. With fakes for what this machine may not have."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from capture_fixtures import executable, fake_nsys

from nsyswrap.capture import doctor
from nsyswrap.capture.doctor import CHECKS, Machine, run_checks, this_machine
from nsyswrap.capture.locate import Nsys, importer_of
from nsyswrap.capture.self_test import RANGE, Check, Status, holds_range, nvtx_version, self_test

__all__ = ["fake_nsys"]


def proc(tmp_path: Path, files: dict[str, str]) -> Machine:
    """A machine whose kernel shows some settings."""
    for name, text in files.items():
        (tmp_path / "proc" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "proc" / name).write_text(text)
    return Machine(None, proc=tmp_path / "proc")


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not root."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


def test_every_check_that_did_not_pass_has_a_remedy_or_follows_from_one(fake_nsys: Nsys) -> None:
    """A machine as it is, with a fake nsys."""
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
    ]
    assert len(checks) == len(CHECKS)
    assert all(check.remedy for check in checks if check.status is Status.FAILED)
    assert not any(check.remedy for check in checks if check.status is Status.OK)


def test_checks_are_made_one_by_one() -> None:
    """Who shows them need not wait for the last."""
    first = next(iter(run_checks(Machine(None, "no nsys", "get it"))))
    assert first == Check("nsys", Status.FAILED, "no nsys", "get it")


def test_this_machines_nsys_is_the_one_that_a_capture_would_use(fake_nsys: Nsys) -> None:
    """First on PATH here."""
    assert this_machine() == Machine(fake_nsys)


def test_a_machine_without_nsys_fails_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the remedy; what follows from it is a warning."""
    monkeypatch.setenv("NSYSWRAP_NSYS", "/no/such/nsys")
    checks = {check.name: check for check in run_checks()}
    assert checks["nsys"].status is Status.FAILED
    assert "NSYSWRAP_NSYS is /no/such/nsys" in checks["nsys"].detail
    assert "NSYSWRAP_NSYS" in checks["nsys"].remedy
    assert checks["importer"] == Check("importer", Status.WARNING, "there is no nsys")
    assert checks["self-test"] == Check("self-test", Status.WARNING, "not tried, as there is no nsys")


def test_the_nsys_is_named_with_version_source_and_place(fake_nsys: Nsys) -> None:
    """All that a bug report needs."""
    check = doctor.check_nsys(Machine(fake_nsys))
    assert check == Check("nsys", Status.OK, f"2023.4.4.54 from PATH, {fake_nsys.path}")


def test_an_importer_that_starts_is_well(fake_nsys: Nsys) -> None:
    """It was run once."""
    assert doctor.check_importer(Machine(fake_nsys)).status is Status.OK


def test_an_importer_that_lacks_libraries_names_them(fake_nsys: Nsys, nsys: Nsys) -> None:
    """The real one, alone in its folder."""
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
    """With what it said."""
    importer = importer_of(fake_nsys)
    assert importer is not None
    executable(importer, text)
    check = doctor.check_importer(Machine(fake_nsys))
    assert (check.status, check.remedy) == (Status.FAILED, "Run 'nsyswrap setup --force'")
    assert "does not start" in check.detail


def test_an_importer_of_unknown_place_is_left_to_the_self_test(tmp_path: Path) -> None:
    """A script that starts nsys says nothing of it."""
    script = executable(tmp_path / "bin" / "nsys", "#!/bin/sh\n")
    check = doctor.check_importer(Machine(Nsys(script, (1,), "")))
    assert check.status is Status.WARNING
    assert "self-test" in check.detail


def test_gpus_and_driver_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As nvidia-smi lists them."""
    executable(tmp_path / "nvidia-smi", "#!/bin/sh\necho 'NVIDIA H200, 580.10'\necho 'NVIDIA H200, 580.10'\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    check = doctor.check_gpu(Machine(None))
    assert check == Check("GPU", Status.OK, "NVIDIA H200, NVIDIA H200; driver 580.10")


@pytest.mark.parametrize("text", ["", "#!/bin/sh\necho 'no devices were found'; exit 6\n", "#!/bin/sh\n"])
def test_no_gpu_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Without the tool, without a device, without an answer; ranges are recorded all the same."""
    if text:
        executable(tmp_path / "nvidia-smi", text)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    check = doctor.check_gpu(Machine(None))
    assert check.status is Status.WARNING
    assert "nsys still records ranges" in check.detail


@pytest.mark.parametrize(("level", "status"), [("-1", Status.OK), ("2", Status.OK), ("3", Status.WARNING)])
@pytest.mark.usefixtures("nobody")
def test_sampling_depends_on_the_kernel(tmp_path: Path, level: str, status: Status) -> None:
    """Above 2 a user may not sample."""
    check = doctor.check_sampling(proc(tmp_path, {"sys/kernel/perf_event_paranoid": f"{level}\n"}))
    assert check.status is status
    assert level in check.detail
    assert ("sysctl kernel.perf_event_paranoid=2" in check.remedy) == (status is Status.WARNING)


def test_root_may_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the setting."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert doctor.check_sampling(proc(tmp_path, {"sys/kernel/perf_event_paranoid": "4"})).status is Status.OK


def test_a_kernel_that_does_not_say_is_a_warning(tmp_path: Path) -> None:
    """Some sandboxes hide the setting."""
    assert doctor.check_sampling(proc(tmp_path, {})).status is Status.WARNING


@pytest.mark.parametrize(
    ("parameters", "status"), [("RmProfilingAdminOnly: 1\n", Status.WARNING), ("RmProfilingAdminOnly: 0\n", Status.OK)]
)
@pytest.mark.usefixtures("nobody")
def test_gpu_counters_depend_on_the_driver(tmp_path: Path, parameters: str, status: Status) -> None:
    """It can keep them for root."""
    check = doctor.check_gpu_metrics(proc(tmp_path, {"driver/nvidia/params": parameters}))
    assert check.status is status
    assert ("NVreg_RestrictProfilingToAdminUsers=0" in check.remedy) == (status is Status.WARNING)


def test_without_a_driver_there_is_nothing_to_allow(tmp_path: Path) -> None:
    """That there is no GPU is said elsewhere."""
    assert doctor.check_gpu_metrics(proc(tmp_path, {})).status is Status.OK


def usage(free: int) -> Callable[[object], object]:
    """A disk with so many bytes free."""
    return lambda _path: shutil._ntuple_diskusage(10**13, 0, free)  # noqa: SLF001 - its type


@pytest.mark.parametrize(("free", "status"), [(10**10, Status.OK), (10**9, Status.WARNING), (10**8, Status.FAILED)])
def test_a_capture_needs_room(monkeypatch: pytest.MonkeyPatch, free: int, status: Status) -> None:
    """Little is a warning, next to nothing a failure."""
    monkeypatch.setattr(shutil, "disk_usage", usage(free))
    check = doctor.check_disk(Machine(None))
    assert check.status is status
    assert f"{free / 1e9:.1f} GB" in check.detail
    assert bool(check.remedy) == (status is not Status.OK)


def test_a_full_temporary_folder_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nsys records goes there first."""
    monkeypatch.setattr(shutil, "disk_usage", usage(10**6))
    check = doctor.check_temporary(Machine(None))
    assert (check.status, "TMPDIR" in check.remedy) == (Status.FAILED, True)


def test_a_temporary_folder_with_a_long_name_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sockets have short names."""
    folder = tmp_path / ("long" * 20)
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    check = doctor.check_temporary(Machine(None))
    assert (check.status, "too long a name" in check.detail) == (Status.FAILED, True)


def test_the_self_test_finds_its_range(fake_nsys: Nsys, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sent, recorded, exported and found."""
    monkeypatch.setenv("FAKE_NSYS_RANGE", RANGE)
    check = self_test(fake_nsys)
    assert check == Check("self-test", Status.OK, f"a range of nvtx {nvtx_version()} was recorded, exported and found")


def test_a_range_that_does_not_arrive_fails_with_the_version_that_does(
    fake_nsys: Nsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with nsys 2023.4.4 and nvtx 0.2.14."""
    monkeypatch.setenv("FAKE_NSYS_RANGE", "another range")
    check = self_test(fake_nsys)
    assert check.status is Status.FAILED
    assert check.detail == f"nsys 2023.4.4.54 does not record the ranges of the Python package nvtx {nvtx_version()}"
    assert "pip install 'nvtx==0.2.10'" in check.remedy


@pytest.mark.parametrize("how", ["no-report", "no-importer", "export-fails", "never-starts"])
def test_a_capture_that_fails_fails_the_self_test(fake_nsys: Nsys, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """With the capture's own message and remedy."""
    monkeypatch.setenv("FAKE_NSYS_FAILURE", how)
    check = self_test(fake_nsys)
    assert check.status is Status.FAILED
    assert "nsys" in check.detail
    assert check.remedy


def test_without_the_package_it_says_what_was_not_tried(fake_nsys: Nsys, monkeypatch: pytest.MonkeyPatch) -> None:
    """Report and export are proven all the same."""
    monkeypatch.setattr("nsyswrap.capture.self_test.nvtx_version", str)
    check = self_test(fake_nsys)
    assert check.status is Status.WARNING
    assert "no NVTX range was sent" in check.detail
    assert "pip install" in check.remedy


def test_the_real_nsys_passes_its_self_test(nsys: Nsys) -> None:
    """On this machine, with the package nvtx that the workloads use."""
    assert self_test(nsys).status is Status.OK


def test_an_export_without_ranges_holds_none(tmp_path: Path) -> None:
    """There is no table for what did not happen."""
    import sqlite3  # noqa: PLC0415 - for an export without tables alone

    sqlite3.connect(tmp_path / "x.sqlite").close()
    assert not holds_range(tmp_path / "x.sqlite", RANGE)


def test_a_machine_without_the_package_is_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    """And told which version works with every nsys."""
    monkeypatch.setattr("nsyswrap.capture.doctor.nvtx_version", str)
    check = doctor.check_nvtx(Machine(None))
    assert (check.status, check.remedy) == (Status.WARNING, "Install it: pip install 'nvtx==0.2.10'")
