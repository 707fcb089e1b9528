"""Checks of everything that a capture needs on this machine; each failure has one remedy.

A list of versions could not replace it: with nsys 2023.4.4, ranges of the package nvtx 0.2.14 are silently missing from
the capture, and those of 0.2.10 are recorded.
"""

import importlib.metadata
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from nsyswrap.base.errors import NsysNotFoundError, NsyswrapError
from nsyswrap.capture.locate import Nsys, find_nsys, importer_of, missing_libraries
from nsyswrap.capture.nsys import profile
from nsyswrap.capture.options import CaptureOptions
from nsyswrap.capture.process import output_of
from nsyswrap.capture.profiler_cost import FAILURE, profiler_cost
from nsyswrap.capture.run_dir import private_folder
from nsyswrap.hardware.profiler_cost import LAUNCH, SLOWDOWN

RANGE = "nsyswrap self-test"

_WITH_RANGE = f"import nvtx\nwith nvtx.annotate({RANGE!r}): pass"


# A capture of one minute of training and its export take some 100 MB; below this even a short one may not fit.
_LOW_BYTES = 2_000_000_000
_TOO_LOW_BYTES = 200_000_000
# nsys creates Unix sockets in the temporary folder. Their paths may have 107 bytes; nsys uses the rest.
_LONGEST_TEMPORARY = 60
# Up to this value the kernel lets users sample their own programs.
_PARANOID_FOR_SAMPLING = 2
_TOOL_TIMEOUT_S = 60
COST_LABELS = {"launch": "launch", "call": "other CUDA call", "range": "range", "os_call": "system call"}


class Status(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """One check of the machine, with its result."""

    name: str
    status: Status
    detail: str
    remedy: str = ""


def self_test(nsys: Nsys) -> Check:
    """Record a program with one NVTX range, export the capture, and look for the range.

    It is a warning if the Python package nvtx is not installed, so that no range could be sent.
    """
    version = nvtx_version()
    program = _WITH_RANGE if version else "pass"
    try:
        with private_folder() as folder:
            options = CaptureOptions(
                command=(sys.executable, "-c", program),
                folder=folder / "self-test",
                traces=("nvtx",),
                output_to_stderr=True,
            )
            recorded = holds_range(profile(options, nsys).export, RANGE)
    except NsyswrapError as error:
        return Check("self-test", Status.FAILED, error.message, error.hint)
    if not version:
        return Check(
            "self-test",
            Status.WARNING,
            "a program was recorded and exported; no NVTX range was sent, because the package nvtx is not installed",
            "Install it for the Python that runs nsyswrap: pip install 'nvtx==0.2.10'",
        )
    if not recorded:
        return Check(
            "self-test",
            Status.FAILED,
            f"nsys {nsys.version_text} does not record the ranges of the Python package nvtx {version}",
            "Install the version that works with it: pip install 'nvtx==0.2.10'",
        )
    return Check("self-test", Status.OK, f"a range of nvtx {version} was recorded, exported and found")


def holds_range(export: Path, text: str) -> bool:
    """Return whether an export holds an NVTX range with this text."""
    query = """
        SELECT count(*) FROM NVTX_EVENTS AS event LEFT JOIN StringIds AS string ON string.id = event.textId
        WHERE coalesce(string.value, event.text) = ?
    """
    with closing(sqlite3.connect(f"{export.absolute().as_uri()}?mode=ro", uri=True)) as database:
        try:
            return bool(database.execute(query, (text,)).fetchone()[0])
        except sqlite3.OperationalError:
            return False


def nvtx_version() -> str:
    """Return the version of the Python package nvtx for this Python; empty if it is not installed."""
    try:
        return importlib.metadata.version("nvtx")
    except importlib.metadata.PackageNotFoundError:
        return ""


@dataclass(frozen=True, slots=True)
class Machine:
    """What the checks examine."""

    nsys: Nsys | None
    reason: str = ""
    remedy: str = ""
    proc: Path = Path("/proc")


def run_checks(machine: Machine | None = None) -> Iterator[Check]:
    """Run the checks, in order, and yield each result as soon as it is known."""
    machine = this_machine() if machine is None else machine
    for check in CHECKS:
        yield check(machine)


def this_machine() -> Machine:
    """Return this machine, with the nsys that a capture would use."""
    try:
        return Machine(find_nsys())
    except NsysNotFoundError as error:
        return Machine(None, error.message, error.hint)


def check_nsys(machine: Machine) -> Check:
    """Check that there is an nsys."""
    if machine.nsys is None:
        return Check("nsys", Status.FAILED, machine.reason, machine.remedy)
    return Check(
        "nsys", Status.OK, f"{machine.nsys.version_text} from {machine.nsys.source}, {machine.nsys.path.resolve()}"
    )


def check_importer(machine: Machine) -> Check:
    """Check that nsys's importer, which writes the report, starts; nsys exits with 0 even if it does not."""
    importer = importer_of(machine.nsys) if machine.nsys else None
    if importer is None:
        detail = "it was not found; the self-test shows whether it works" if machine.nsys else "there is no nsys"
        return Check("importer", Status.WARNING, detail)
    missing = missing_libraries(importer)
    if missing:
        remedy = f"Install the packages that hold {', '.join(missing)}, or run 'nsyswrap setup'"
        return Check("importer", Status.FAILED, f"{importer} lacks {', '.join(missing)}", remedy)
    try:
        output = output_of([importer, "--version"], timeout_s=_TOOL_TIMEOUT_S)
    except (OSError, TimeoutError) as error:
        return Check("importer", Status.FAILED, f"{importer} does not start: {error}", "Run 'nsyswrap setup --force'")
    if output.code != 0:
        detail = f"{importer} does not start: {output.text.strip()}"
        return Check("importer", Status.FAILED, detail, "Run 'nsyswrap setup --force'")
    return Check("importer", Status.OK, "it starts and finds its libraries")


def check_gpu(_machine: Machine) -> Check:
    """Check that there is a GPU and a driver."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        output = output_of(query, timeout_s=_TOOL_TIMEOUT_S)
    except (OSError, TimeoutError):
        output = None
    if output is None or output.code != 0 or not output.stdout.strip():
        return Check(
            "GPU",
            Status.WARNING,
            "no NVIDIA GPU: nsys records ranges and operating system calls, but no GPU work",
            "Profile on a machine with an NVIDIA GPU and its driver",
        )
    names = [line.rpartition(",")[0].strip() for line in output.stdout.splitlines() if line.strip()]
    driver = output.stdout.splitlines()[0].rpartition(",")[2].strip()
    return Check("GPU", Status.OK, f"{', '.join(names)}; driver {driver}")


def check_sampling(machine: Machine) -> Check:
    """Check that this user may sample the CPU; only `--sample-cpu` needs it."""
    try:
        level = int((machine.proc / "sys/kernel/perf_event_paranoid").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return Check("CPU sampling", Status.WARNING, "the kernel does not show perf_event_paranoid")
    if level > _PARANOID_FOR_SAMPLING and os.geteuid() != 0:
        return Check(
            "CPU sampling",
            Status.WARNING,
            f"perf_event_paranoid is {level}: --sample-cpu will record nothing; everything else works",
            f"Run as root: sysctl kernel.perf_event_paranoid={_PARANOID_FOR_SAMPLING}",
        )
    return Check("CPU sampling", Status.OK, f"allowed (perf_event_paranoid is {level})")


def check_gpu_metrics(machine: Machine) -> Check:
    """Check that this user may sample GPU counters; only `--gpu-metrics` needs it."""
    try:
        parameters = (machine.proc / "driver/nvidia/params").read_text(encoding="utf-8")
    except OSError:
        return Check("GPU counters", Status.OK, "there is no NVIDIA driver")
    if "RmProfilingAdminOnly: 1" in parameters and os.geteuid() != 0:
        return Check(
            "GPU counters",
            Status.WARNING,
            "the driver allows them to root only: --gpu-metrics will fail; everything else works",
            "Load the driver with NVreg_RestrictProfilingToAdminUsers=0",
        )
    return Check("GPU counters", Status.OK, "allowed")


def check_disk(_machine: Machine) -> Check:
    """Check that the working folder has space for a capture and its export."""
    free_bytes = shutil.disk_usage(Path.cwd()).free
    status = Status.OK if free_bytes >= _LOW_BYTES else Status.WARNING
    status = Status.FAILED if free_bytes < _TOO_LOW_BYTES else status
    remedy = "" if status is Status.OK else "Free some space, or give a folder on another disk with -o"
    return Check("disk", status, f"{free_bytes / 1e9:.1f} GB free in the working folder", remedy)


def check_temporary(_machine: Machine) -> Check:
    """Check that nsys can use the temporary folder for its data and its sockets."""
    try:
        folder = tempfile.gettempdir()
        free_bytes = shutil.disk_usage(folder).free
    except OSError as error:
        detail = f"there is none that is writable: {error.strerror}"
        return Check("temporary folder", Status.FAILED, detail, "Set TMPDIR to a folder that is writable")
    if len(os.fsencode(folder)) > _LONGEST_TEMPORARY:
        detail = f"the path {folder} is too long for nsys's sockets"
        return Check("temporary folder", Status.FAILED, detail, "Set TMPDIR to a folder with a short path")
    if free_bytes < _TOO_LOW_BYTES:
        detail = f"{folder} has {free_bytes / 1e9:.1f} GB free"
        return Check("temporary folder", Status.FAILED, detail, "Set TMPDIR to a folder on a disk with more space")
    return Check("temporary folder", Status.OK, f"{folder}, {free_bytes / 1e9:.1f} GB free")


def check_nvtx(_machine: Machine) -> Check:
    """Check that the Python package nvtx is installed, with which programs mark their phases."""
    version = nvtx_version()
    if not version:
        detail = "the Python that runs nsyswrap has no package nvtx"
        return Check("nvtx", Status.WARNING, detail, "Install it: pip install 'nvtx==0.2.10'")
    return Check("nvtx", Status.OK, version)


def check_self_test(machine: Machine) -> Check:
    """Check that a range which a program opens is in the export."""
    if machine.nsys is None:
        return Check("self-test", Status.WARNING, "not run, because there is no nsys")
    return self_test(machine.nsys)


def check_profiler_cost(machine: Machine) -> Check:
    """Measure what nsys adds to each call, and keep it for the next profile."""
    name = "profiler cost"
    if machine.nsys is None:
        return Check(name, Status.WARNING, "not measured, because there is no nsys")
    options = CaptureOptions(command=(sys.executable,), folder=Path())
    found = profiler_cost(options, machine.nsys, lambda: None, again=True)
    calls = found["calls"]
    if not calls:
        why = f": {found[FAILURE]}" if FAILURE in found else ""
        detail = f"reports do not take out what nsys adds to each call, because it cannot be measured{why}"
        return Check(name, Status.WARNING, detail, "Look at the other checks: a program must run under nsys")
    costs = ", ".join(
        f"{COST_LABELS[kind]} {each['low_ns'] / 1e3:.1f} to {each['high_ns'] / 1e3:.1f} µs"
        for kind, each in calls.items()
        if kind in COST_LABELS
    )
    slowdown = calls.get(LAUNCH, {}).get(SLOWDOWN)
    steps = f"; a training step takes {slowdown[0]:.2f} times as long" if slowdown else ""
    return Check(name, Status.OK, f"nsys adds to each {costs}{steps}")


CHECKS: tuple[Callable[[Machine], Check], ...] = (
    check_nsys,
    check_importer,
    check_gpu,
    check_sampling,
    check_gpu_metrics,
    check_disk,
    check_temporary,
    check_nvtx,
    check_self_test,
    check_profiler_cost,
)
