"""Find nsys on this machine, its version, its importer, and the libraries they lack."""

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nsyswrap.capture.process import output_of
from nsyswrap.errors import NsysNotFoundError

VARIABLE = "NSYSWRAP_NSYS"

_VERSION_TIMEOUT_S = 60
_LDD_TIMEOUT_S = 30

# Installation paths in order of preference; of several versions in one place the newest is used. An nsys that somebody
# installed on purpose comes before the copy that another tool brings along.
_PLACES = (
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


@dataclass(frozen=True, slots=True)
class Nsys:
    """An nsys that runs.

    Args:
        path: The program.
        version: Its version, such as ``(2023, 4, 4, 54)``.
        source: Where it was found, for messages.
    """

    path: Path
    version: tuple[int, ...]
    source: str

    @property
    def version_text(self) -> str:
        """Return the version as nsys prints it, without its build number: ``2023.4.4.54``."""
        return ".".join(map(str, self.version))


def find_nsys(environ: Mapping[str, str] | None = None, root: Path = Path("/")) -> Nsys:
    """Return the nsys to use.

    The search order: the variable ``NSYSWRAP_NSYS``, ``PATH``, the folders of NVIDIA's installers, of CUDA toolkits and
    of the distribution, the copy inside Nsight Compute, the one that ``nsyswrap setup`` installed. An nsys whose
    importer lacks libraries is used only if there is no other, because it runs the program but writes no report.

    Args:
        environ: The environment; None for that of this process.
        root: The root folder of the usual installation paths.

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


def is_complete(nsys: Nsys) -> bool:
    """Return whether nsys's importer finds its libraries; True if there is no importer to check."""
    importer = importer_of(nsys)
    return importer is None or not missing_libraries(importer)


def importer_of(nsys: Nsys) -> Path | None:
    """Return the importer, the program that turns recorded data into a report, or None if it is not found.

    It is beside the real folder of nsys: ``host-linux-*`` of Nsight Systems, ``linux-desktop-*`` of Nsight Compute.
    """
    found = sorted(nsys.path.resolve().parent.parent.glob("*/QdstrmImporter"))
    return found[0] if found else None


def installed_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder where ``nsyswrap setup`` installs nsys, one folder for each version."""
    environ = os.environ if environ is None else environ
    return user_folder(environ, "XDG_DATA_HOME", ".local/share") / "nsyswrap" / "nsys"


def user_folder(environ: Mapping[str, str], variable: str, below_home: str) -> Path:
    """Return a base folder of the user: that of a variable, or one below the home folder.

    A user without a home folder, as in some containers, has ``/`` as one, where nothing can be written.

    Source: XDG Base Directory Specification; it ignores paths that are not absolute.
    """
    named = Path(environ.get(variable, ""))
    # Path.home() raises where there is no home folder.
    home = Path(environ.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111
    return named if named.is_absolute() else (home if home.is_absolute() else Path("/")) / below_home


def version_in(text: str) -> tuple[int, ...]:
    """Return the version in the output of ``nsys --version``; empty if there is none."""
    match = re.search(r"\b(\d{4}(?:\.\d+)+)", text)
    return tuple(int(part) for part in match[1].split(".")) if match else ()


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
    on_path = shutil.which("nsys", path=environ.get("PATH", ""))
    nsys = nsys_at(Path(on_path), "PATH") if on_path else None
    if nsys is not None:
        yield nsys
    for source, patterns in _PLACES:
        paths = {path.resolve(): path for pattern in patterns for path in root.glob(pattern)}
        yield from _newest_first(sorted(paths.values()), source)
    yield from _newest_first(sorted(installed_folder(environ).glob("*/target-linux-*/nsys")), "nsyswrap setup")


def _newest_first(paths: list[Path], source: str) -> list[Nsys]:
    answers = (nsys_at(path, source) for path in paths)
    return sorted((nsys for nsys in answers if nsys is not None), key=lambda nsys: nsys.version, reverse=True)


def nsys_at(path: Path, source: str) -> Nsys | None:
    """Return the nsys at a path, or None if its ``--version`` is not that of nsys."""
    try:
        output = output_of([path.absolute(), "--version"], timeout_s=_VERSION_TIMEOUT_S)
    except (OSError, TimeoutError):
        return None
    version = version_in(output.stdout)
    return Nsys(path.absolute(), version, source) if output.code == 0 and version else None


def missing_libraries(program: Path) -> tuple[str, ...]:
    """Return the libraries that a program needs and the dynamic linker does not find.

    Args:
        program: An executable or a shared library.

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
