"""Find nsys on this machine, its importer, and the libraries they lack."""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nsyswrap.base.errors import CaptureError, NsysNotFoundError
from nsyswrap.base.user_folder import user_folder
from nsyswrap.capture.process import output_of

# For each source, as messages name it: patterns of paths below the root folder.
Places = tuple[tuple[str, tuple[str, ...]], ...]

_VERSION_TIMEOUT_S = 60


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
_HELP_TIMEOUT_S = 60
# A flag is at the start of its own line: `-t, --trace=`, `--wait=`, `(Experimental) --nic-metrics=`.
_FLAG = re.compile(r"^\s*(?:\([A-Za-z]+\)\s+)?(?:-\w,\s*)?(--[a-z][a-z0-9-]*)", flags=re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RunningProgram:
    """A program that runs."""

    path: Path
    version: tuple[int, ...]
    source: str

    @property
    def version_text(self) -> str:
        """Return the version as the program prints it, without its build number: ``2023.4.4.54``."""
        return ".".join(map(str, self.version))


Nsys = RunningProgram


def program_at(path: Path, source: str) -> RunningProgram | None:
    """Return the program at a path, or None if its ``--version`` prints none.

    A relative path is made absolute. The source is where it was found, for messages.
    """
    try:
        output = output_of([path.absolute(), "--version"], timeout_s=_VERSION_TIMEOUT_S)
    except (OSError, TimeoutError):
        return None
    version = version_in(output.stdout)
    return RunningProgram(path.absolute(), version, source) if output.code == 0 and version else None


def find_programs(name: str, places: Places, environ: Mapping[str, str], root: Path) -> Iterator[RunningProgram]:
    """Yield every program of a name that runs: that of ``PATH``, then place by place, the newest of each first."""
    on_path = shutil.which(name, path=environ.get("PATH", ""))
    program = program_at(Path(on_path), "PATH") if on_path else None
    if program is not None:
        yield program
    for source, patterns in places:
        yield from newest_first((path for pattern in patterns for path in root.glob(pattern)), source)


def newest_first(paths: Iterable[Path], source: str) -> list[RunningProgram]:
    """Return the programs at paths that run, newest first; two paths of one file count once."""
    distinct = {path.resolve(): path for path in paths}
    answers = (program_at(path, source) for path in sorted(distinct.values()))
    return sorted((each for each in answers if each is not None), key=lambda each: each.version, reverse=True)


def version_in(text: str) -> tuple[int, ...]:
    """Return the version in the output of ``nsys --version`` or ``ncu --version``; empty if there is none."""
    match = re.search(r"\b(\d{4}(?:\.\d+)+)", text)
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def find_nsys(environ: Mapping[str, str] | None = None, root: Path = Path("/")) -> Nsys:
    """Return the nsys to use: the first that runs and is complete, else the first that runs.

    The search order: the variable ``NSYSWRAP_NSYS``, ``PATH``, the folders of NVIDIA's installers, of CUDA toolkits and
    of the distribution, the copy inside Nsight Compute, the one that ``nsyswrap setup`` installed. An nsys whose
    importer lacks libraries is used only if there is no other, because it runs the program but writes no report.

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
    nsys = program_at(path, VARIABLE)
    if nsys is None:
        reason = "does not exist" if not path.is_file() else "is not a working nsys: its --version shows none"
        raise NsysNotFoundError(f"{VARIABLE} is {value}, which {reason}", hint=f"Correct {VARIABLE}, or unset it")
    return nsys


def _found(environ: Mapping[str, str], root: Path) -> Iterator[Nsys]:
    """Yield every nsys that runs, in order of preference."""
    yield from find_programs("nsys", _PLACES, environ, root)
    yield from newest_first(installed_folder(environ).glob("*/target-linux-*/nsys"), "nsyswrap setup")


def missing_libraries(program: Path) -> tuple[str, ...]:
    """Return the libraries that a program needs and the dynamic linker does not find, sorted; empty without ``ldd``."""
    try:
        text = output_of(["ldd", program], timeout_s=_LDD_TIMEOUT_S).stdout
    except (OSError, TimeoutError):
        return ()
    return missing_in(text)


def missing_in(ldd_output: str) -> tuple[str, ...]:
    """Return the sorted, unique names of the libraries that ``ldd`` did not find."""
    return tuple(sorted(set(re.findall(r"^\s*(\S+) => not found", ldd_output, flags=re.MULTILINE))))


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The flags that one nsys knows."""

    traces: frozenset[str]
    profile_flags: frozenset[str]
    export_flags: frozenset[str]


def capabilities_of(nsys: Nsys) -> Capabilities:
    """Return the flags of an nsys.

    Raises:
        CaptureError: nsys does not print its help.
    """
    profile_help, export_help = (_help(nsys, command) for command in ("profile", "export"))
    return Capabilities(traces_in(profile_help), flags_in(profile_help), flags_in(export_help))


def flags_in(help_text: str) -> frozenset[str]:
    """Return the flags in the help text of a command of nsys."""
    return frozenset(_FLAG.findall(help_text))


def traces_in(profile_help: str) -> frozenset[str]:
    """Return the values of ``--trace`` in the help text of ``nsys profile``."""
    match = re.search(
        r"^\s*-t,\s*--trace=.*?Possible values are(.*?)\.\s", profile_help, flags=re.MULTILINE | re.DOTALL
    )
    return frozenset(re.findall(r"'([a-z0-9-]+)'", match[1])) if match else frozenset()


def _help(nsys: Nsys, command: str) -> str:
    try:
        output = output_of([nsys.path, command, "--help"], timeout_s=_HELP_TIMEOUT_S)
    except (OSError, TimeoutError) as error:
        raise CaptureError(f"{nsys.path} {command} --help fails: {error}", hint="Run 'nsyswrap doctor'") from error
    if not flags_in(output.text):
        raise CaptureError(f"{nsys.path} {command} --help names no flags", hint="Run 'nsyswrap doctor'")
    return output.text
