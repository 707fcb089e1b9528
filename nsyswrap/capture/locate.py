"""Find nsys on this machine: which one, of what version, and from where it came."""

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

# Kinds of places in the order of trust; within one kind the newest version wins. What an administrator or the user
# installed as nsys comes before the copy that another tool brings for its own use.
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
    """An nsys that answers.

    Args:
        path: The program.
        version: Its version, such as ``(2023, 4, 4, 54)``.
        source: Where it was found, in words.
    """

    path: Path
    version: tuple[int, ...]
    source: str

    @property
    def version_text(self) -> str:
        """The version as nsys writes it, without its build number: ``2023.4.4.54``."""
        return ".".join(map(str, self.version))


def find_nsys(environ: Mapping[str, str] | None = None, root: Path = Path("/")) -> Nsys:
    """Find the nsys to use.

    In this order: the variable ``NSYSWRAP_NSYS``, ``PATH``, the folders of NVIDIA's installers, of CUDA toolkits and
    of the distribution, the copy inside Nsight Compute, the one that ``nsyswrap setup`` fetched. One whose importer
    lacks libraries is taken only where no other is whole: it would run the program and write no report.

    Args:
        environ: The environment; None for that of this process.
        root: The folder under which the usual places lie.

    Returns:
        The first that answers and is whole, else the first that answers.

    Raises:
        NsysNotFoundError: ``NSYSWRAP_NSYS`` names no working nsys, or there is none anywhere.
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
        hint=f"Run 'nsyswrap setup' to fetch it, or set {VARIABLE} to the path of an nsys you have",
    )


def is_complete(nsys: Nsys) -> bool:
    """Tell whether nsys's importer finds its libraries; where the importer is not found, nothing speaks against it."""
    importer = importer_of(nsys)
    return importer is None or not missing_libraries(importer)


def importer_of(nsys: Nsys) -> Path | None:
    """Return the program that turns what nsys recorded into a report, or None where its place is not known.

    It lies beside the real folder of nsys: ``host-linux-*`` of Nsight Systems, ``linux-desktop-*`` of Nsight Compute.
    """
    found = sorted(nsys.path.resolve().parent.parent.glob("*/QdstrmImporter"))
    return found[0] if found else None


def installed_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder where ``nsyswrap setup`` keeps nsys, one folder a version.

    ``XDG_DATA_HOME`` counts where it is absolute, as its specification says.
    """
    environ = os.environ if environ is None else environ
    data = Path(environ.get("XDG_DATA_HOME", ""))
    if not data.is_absolute():
        data = Path(environ.get("HOME") or Path.home()) / ".local" / "share"
    return data / "nsyswrap" / "nsys"


def version_in(text: str) -> tuple[int, ...]:
    """Read the version out of what ``nsys --version`` prints; empty where there is none."""
    match = re.search(r"\b(\d{4}(?:\.\d+)+)", text)
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def _named(value: str) -> Nsys:
    """The nsys that the variable names; a wrong value is an error, never a reason to take another."""
    path = Path(value).expanduser()
    nsys = nsys_at(path, VARIABLE)
    if nsys is None:
        reason = "there is no such file" if not path.is_file() else "it does not answer '--version' as nsys does"
        raise NsysNotFoundError(f"{VARIABLE} is {value}, and {reason}", hint=f"Correct {VARIABLE}, or unset it")
    return nsys


def _found(environ: Mapping[str, str], root: Path) -> Iterator[Nsys]:
    """Every nsys that answers, in the order of preference."""
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
    """Ask a program for its version; None where it does not answer as nsys does."""
    try:
        output = output_of([path.absolute(), "--version"], timeout_s=_VERSION_TIMEOUT_S)
    except (OSError, TimeoutError):
        return None
    version = version_in(output.stdout)
    return Nsys(path.absolute(), version, source) if output.code == 0 and version else None


_LDD_TIMEOUT_S = 30


def missing_libraries(program: Path) -> tuple[str, ...]:
    """Ask the dynamic linker what a program needs and does not find.

    Args:
        program: An executable or a shared library.

    Returns:
        Names of libraries, such as ``libssh.so.4``, sorted; empty where all are found or there is no ``ldd``.
    """
    try:
        text = output_of(["ldd", program], timeout_s=_LDD_TIMEOUT_S).stdout
    except (OSError, TimeoutError):
        return ()
    return missing_in(text)


def missing_in(ldd_output: str) -> tuple[str, ...]:
    """Read the names of the libraries that ``ldd`` did not find, sorted, each once."""
    return tuple(sorted(set(re.findall(r"^\s*(\S+) => not found", ldd_output, flags=re.MULTILINE))))
