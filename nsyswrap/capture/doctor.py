"""Look at all that a capture needs on this machine; each failure has one remedy."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nsyswrap.capture.locate import Nsys, find_nsys, importer_of, missing_libraries
from nsyswrap.capture.process import output_of
from nsyswrap.capture.self_test import Check, Status, nvtx_version, self_test
from nsyswrap.errors import NsysNotFoundError

# A capture of a minute's training and its export are some 100 MB; below this even a short one may not fit.
_LOW_BYTES = 2_000_000_000
_TOO_LOW_BYTES = 200_000_000

# nsys makes Unix sockets in the temporary folder, and the kernel allows their names 107 bytes; the rest is nsys's own.
_LONGEST_TEMPORARY = 60

# Up to this value the kernel lets a user sample the user's own programs.
_PARANOID_FOR_SAMPLING = 2

_TOOL_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Machine:
    """What the checks look at.

    Args:
        nsys: The nsys that a capture would use; None where there is none.
        reason: Why there is none.
        remedy: What to do about it.
        proc: Where the kernel shows its settings.
    """

    nsys: Nsys | None
    reason: str = ""
    remedy: str = ""
    proc: Path = Path("/proc")


def run_checks(machine: Machine | None = None) -> Iterator[Check]:
    """Make every check, in order, each when it is asked for.

    Args:
        machine: What to look at; None finds this machine's nsys.

    Yields:
        One result a check.
    """
    machine = this_machine() if machine is None else machine
    for check in CHECKS:
        yield check(machine)


def this_machine() -> Machine:
    """Find the nsys that a capture would use here."""
    try:
        return Machine(find_nsys())
    except NsysNotFoundError as error:
        return Machine(None, error.message, error.hint)


def check_nsys(machine: Machine) -> Check:
    """Is there an nsys, and which?"""
    if machine.nsys is None:
        return Check("nsys", Status.FAILED, machine.reason, machine.remedy)
    return Check(
        "nsys", Status.OK, f"{machine.nsys.version_text} from {machine.nsys.source}, {machine.nsys.path.resolve()}"
    )


def check_importer(machine: Machine) -> Check:
    """Does the part of nsys start that writes the report? Where it does not, nsys exits with 0 all the same."""
    importer = importer_of(machine.nsys) if machine.nsys else None
    if importer is None:
        detail = "its place is not known; the self-test shows whether it works" if machine.nsys else "there is no nsys"
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


def check_gpu(machine: Machine) -> Check:
    """Is there a GPU and a driver?"""
    del machine
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        output = output_of(query, timeout_s=_TOOL_TIMEOUT_S)
    except (OSError, TimeoutError):
        output = None
    if output is None or output.code != 0 or not output.stdout.strip():
        return Check(
            "GPU",
            Status.WARNING,
            "no NVIDIA GPU: nsys still records ranges and calls of the operating system, and no GPU work",
            "Profile on a machine with an NVIDIA GPU and its driver",
        )
    names = [line.rpartition(",")[0].strip() for line in output.stdout.splitlines() if line.strip()]
    driver = output.stdout.splitlines()[0].rpartition(",")[2].strip()
    return Check("GPU", Status.OK, f"{', '.join(names)}; driver {driver}")


def check_sampling(machine: Machine) -> Check:
    """May this user sample the CPU? Only `--sample` needs it."""
    try:
        level = int((machine.proc / "sys/kernel/perf_event_paranoid").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return Check("CPU sampling", Status.WARNING, "the kernel does not show perf_event_paranoid")
    if level > _PARANOID_FOR_SAMPLING and os.geteuid() != 0:
        return Check(
            "CPU sampling",
            Status.WARNING,
            f"perf_event_paranoid is {level}: --sample will record nothing; all else works",
            f"Run as root: sysctl kernel.perf_event_paranoid={_PARANOID_FOR_SAMPLING}",
        )
    return Check("CPU sampling", Status.OK, f"allowed (perf_event_paranoid is {level})")


def check_gpu_metrics(machine: Machine) -> Check:
    """May this user sample GPU counters? Only `--gpu-metrics` needs it."""
    try:
        parameters = (machine.proc / "driver/nvidia/params").read_text(encoding="utf-8")
    except OSError:
        return Check("GPU counters", Status.OK, "there is no NVIDIA driver to ask")
    if "RmProfilingAdminOnly: 1" in parameters and os.geteuid() != 0:
        return Check(
            "GPU counters",
            Status.WARNING,
            "the driver allows them to root alone: --gpu-metrics will fail; all else works",
            "Load the driver with NVreg_RestrictProfilingToAdminUsers=0",
        )
    return Check("GPU counters", Status.OK, "allowed")


def check_disk(machine: Machine) -> Check:
    """Is there room for a capture and its export in the working folder?"""
    del machine
    free_bytes = shutil.disk_usage(Path.cwd()).free
    status = Status.OK if free_bytes >= _LOW_BYTES else Status.WARNING
    status = Status.FAILED if free_bytes < _TOO_LOW_BYTES else status
    remedy = "" if status is Status.OK else "Free some space, or name a folder on another disk with -o"
    return Check("disk", status, f"{free_bytes / 1e9:.1f} GB free in the working folder", remedy)


def check_temporary(machine: Machine) -> Check:
    """Can nsys use the temporary folder for what it records, and for its sockets?"""
    del machine
    folder = tempfile.gettempdir()
    free_bytes = shutil.disk_usage(folder).free
    if len(os.fsencode(folder)) > _LONGEST_TEMPORARY:
        detail = f"{folder} is too long a name for nsys's sockets"
        return Check("temporary folder", Status.FAILED, detail, "Set TMPDIR to a folder with a short name")
    if free_bytes < _TOO_LOW_BYTES:
        detail = f"{folder} has {free_bytes / 1e9:.1f} GB free"
        return Check("temporary folder", Status.FAILED, detail, "Set TMPDIR to a folder on a disk with more room")
    return Check("temporary folder", Status.OK, f"{folder}, {free_bytes / 1e9:.1f} GB free")


def check_nvtx(machine: Machine) -> Check:
    """Is the Python package there with which programs mark their phases?"""
    del machine
    version = nvtx_version()
    if not version:
        detail = "the Python that runs nsyswrap has no package nvtx"
        return Check("nvtx", Status.WARNING, detail, "Install it: pip install 'nvtx==0.2.10'")
    return Check("nvtx", Status.OK, version)


def check_self_test(machine: Machine) -> Check:
    """Does a range that a program opens arrive in an export?"""
    if machine.nsys is None:
        return Check("self-test", Status.WARNING, "not tried, as there is no nsys")
    return self_test(machine.nsys)


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
)
