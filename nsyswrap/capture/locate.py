"""Find nsys on this machine, its importer, and the libraries they lack."""

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from nsyswrap.base.errors import NsysNotFoundError
from nsyswrap.base.user_folder import user_folder
from nsyswrap.capture.process import output_of
from nsyswrap.capture.programs import Places, RunningProgram, find_programs, newest_first, program_at

VARIABLE = "NSYSWRAP_NSYS"

_LDD_TIMEOUT_S = 30

# Installation paths in order of preference; of several versions in one place the newest is used. An nsys that somebody
# installed on purpose comes before the copy that another tool brings along.
_PLACES: Places = (
    (
        "NVIDIA's installer",
        ("opt/nvidia/nsight-systems/*/bin/nsys", "opt/nvidia/nsight-systems/*/target-linux-*/nsys"),
    ),
    ("NVIDIA's command-line package", ("opt/nvidia/nsight-systems-cli/*/target-linux-*/nsys",)),
    ("the CUDA toolkit", ("usr/local/cuda*/nsight-systems-*/target-linux-*/nsys", "usr/local/cuda*/bin/nsys")),
    ("the distribution", ("usr/lib/nsight-systems/bin/nsys", "usr/lib/nsight-systems/target-linux-*/nsys")),
    (
        "Nsight Compute",
        (
            "opt/nvidia/nsight-compute/*/host/target-linux-*/nsys",
            "usr/local/cuda*/nsight-compute-*/host/target-linux-*/nsys",
        ),
    ),
)


class Nsys(RunningProgram):
    """An nsys that runs."""

    __slots__ = ()


def find_nsys(environ: Mapping[str, str] | None = None, root: Path = Path("/")) -> Nsys:
    """Return the nsys to use.

    The search order: the variable ``NSYSWRAP_NSYS``, ``PATH``, the folders of NVIDIA's installers, of CUDA toolkits and
    of the distribution, the copy inside Nsight Compute, the one that ``nsyswrap setup`` installed. An nsys whose
    importer lacks libraries is used only if there is no other, because it runs the program but writes no report.

    Returns:
        The first that runs and is complete, else the first that runs.

    Raises:
        NsysNotFoundError: ``NSYSWRAP_NSYS`` does not name a working nsys, or there is none.
    """
    environ = os.environ if environ is None else environ
    if environ.get(VARIABLE):
        return _named(environ[VARIABLE])
    first: Nsys | None = None
    for nsys in _found(environ, root):
        if is_complete(nsys):
            return nsys
        first = first or nsys
    if first is not None:
        return first
    raise NsysNotFoundError(
        "there is no nsys (NVIDIA Nsight Systems) on this machine",
        hint=f"Run 'nsyswrap setup' to install it, or set {VARIABLE} to the path of an nsys",
    )


def candidates(environ: Mapping[str, str], root: Path = Path("/")) -> tuple[str, ...]:
    """Return the real paths at which ``find_nsys`` looks and finds a file, without running any."""
    named = environ.get(VARIABLE) or shutil.which("nsys", path=environ.get("PATH", "")) or ""
    usual = (path for _, patterns in _PLACES for pattern in patterns for path in root.glob(pattern))
    installed = installed_folder(environ).glob("*/target-linux-*/nsys")
    every = (named, *map(str, (*usual, *installed)))
    return tuple(sorted({os.path.realpath(path) for path in every if path}))


def is_complete(nsys: Nsys) -> bool:
    """Return whether nsys's importer finds its libraries; True if there is no importer to check."""
    importer = importer_of(nsys)
    return importer is None or not missing_libraries(importer)


def importer_of(nsys: Nsys) -> Path | None:
    """Return the importer, the program that turns recorded data into a report, or None if it is not found.

    It is beside the real folder of nsys: ``host-linux-*`` of Nsight Systems, ``linux-desktop-*`` of Nsight Compute.
    """
    importers = sorted(nsys.path.resolve().parent.parent.glob("*/QdstrmImporter"))
    return importers[0] if importers else None


def installed_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder where ``nsyswrap setup`` installs nsys, one folder for each version."""
    environ = os.environ if environ is None else environ
    return user_folder(environ, "XDG_DATA_HOME", ".local/share") / "nsyswrap" / "nsys"


def _named(value: str) -> Nsys:
    """Return the nsys that the variable names; a wrong value is an error and not ignored."""
    path = Path(os.path.expanduser(value))  # noqa: PTH111 - Path.expanduser() raises for a user that does not exist
    nsys = nsys_at(path, VARIABLE)
    if nsys is None:
        reason = "does not exist" if not path.is_file() else "is not a working nsys: its --version shows none"
        raise NsysNotFoundError(f"{VARIABLE} is {value}, which {reason}", hint=f"Correct {VARIABLE}, or unset it")
    return nsys


def _found(environ: Mapping[str, str], root: Path) -> Iterator[Nsys]:
    """Yield every nsys that runs, in order of preference."""
    yield from find_programs(Nsys, "nsys", _PLACES, environ, root)
    yield from newest_first(Nsys, installed_folder(environ).glob("*/target-linux-*/nsys"), "nsyswrap setup")


def nsys_at(path: Path, source: str) -> Nsys | None:
    """Return the nsys at a path, or None if its ``--version`` is not that of nsys."""
    return program_at(Nsys, path, source)


def missing_libraries(program: Path) -> tuple[str, ...]:
    """Return the libraries that a program needs and the dynamic linker does not find.

    Returns:
        Sorted names, such as ``libssh.so.4``; empty if all are found or there is no ``ldd``.
    """
    try:
        text = output_of(["ldd", program], timeout_s=_LDD_TIMEOUT_S).stdout
    except (OSError, TimeoutError):
        return ()
    return missing_in(text)


def missing_in(ldd_output: str) -> tuple[str, ...]:
    """Return the sorted, unique names of the libraries that ``ldd`` did not find."""
    return tuple(sorted(set(re.findall(r"^\s*(\S+) => not found", ldd_output, flags=re.MULTILINE))))
