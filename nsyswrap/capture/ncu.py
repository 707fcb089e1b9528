"""Find Nsight Compute (ncu) on this machine, and learn which counters it has for this GPU."""

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nsyswrap.capture.locate import version_in
from nsyswrap.capture.process import Output, output_of
from nsyswrap.errors import CaptureError

VARIABLE = "NSYSWRAP_NCU"

_VERSION_TIMEOUT_S = 60
_QUERY_TIMEOUT_S = 120
# NVIDIA's own installer first, then the copy in a CUDA toolkit; of several the newest.
_PLACES = (
    ("NVIDIA's installer", ("opt/nvidia/nsight-compute/*/ncu",)),
    ("the CUDA toolkit", ("usr/local/cuda*/nsight-compute-*/ncu", "usr/local/cuda*/bin/ncu")),
    ("the distribution", ("usr/lib/nsight-compute/ncu",)),
)
_METRIC = re.compile(r"^\s*([a-z0-9]+__[a-z0-9_.]+)", re.MULTILINE)
_LISTS = (
    ("--query-metrics-collection", "source"),
    ("--list-metrics", "--section", "InstructionStats"),
    ("--query-metrics-collection", "profiling"),
)


@dataclass(frozen=True, slots=True)
class Ncu:
    """An ncu that answers.

    Args:
        path: The program.
        version: Its version, such as ``(2025, 3, 1, 0)``.
        source: Where it was found, in words.
    """

    path: Path
    version: tuple[int, ...]
    source: str

    @property
    def version_text(self) -> str:
        """The version as ncu writes it: ``2025.3.1.0``."""
        return ".".join(map(str, self.version))


class NcuNotFoundError(CaptureError):
    """There is no ncu on this machine."""


class NcuFailedError(CaptureError):
    """ncu could not measure."""


def find_ncu(environ: Mapping[str, str] | None = None, root: Path = Path("/")) -> Ncu:
    """Find the ncu to use: the variable ``NSYSWRAP_NCU``, ``PATH``, then the folders of NVIDIA's installers.

    Args:
        environ: The environment; None for that of this process.
        root: The folder under which the usual places lie.

    Raises:
        NcuNotFoundError: ``NSYSWRAP_NCU`` names no working ncu, or there is none anywhere.
    """
    environ = os.environ if environ is None else environ
    named = environ.get(VARIABLE)
    if named:
        ncu = ncu_at(Path(named).expanduser(), VARIABLE)
        if ncu is None:
            raise NcuNotFoundError(
                f"{VARIABLE} is {named}, and that is no ncu that answers", hint=f"Correct {VARIABLE}, or unset it"
            )
        return ncu
    ncu = next(_found(environ, root), None)
    if ncu is None:
        raise NcuNotFoundError(
            "there is no ncu (NVIDIA Nsight Compute) on this machine",
            hint=f"Install Nsight Compute, which CUDA toolkits bring along, or set {VARIABLE} to the path of an ncu",
        )
    return ncu


def ncu_at(path: Path, source: str) -> Ncu | None:
    """Ask a program for its version; None where it does not answer as ncu does."""
    try:
        output = output_of([path.absolute(), "--version"], timeout_s=_VERSION_TIMEOUT_S)
    except (OSError, TimeoutError):
        return None
    version = version_in(output.stdout)
    return Ncu(path.absolute(), version, source) if output.code == 0 and version else None


def counter_lists(ncu: Ncu) -> Iterator[frozenset[str]]:
    """Yield the names of the counters that ncu has for the GPUs here, list by list, without suffixes such as ``.sum``.

    Asking costs seconds, so the lists come one by one: what is counted by patching a kernel's instructions, what one of
    ncu's own sections is made of, and what the hardware counts.

    Raises:
        NcuFailedError: The last list holds nothing: there is no GPU, no driver, or no permission.
    """
    said = Output(0, "", "")
    for arguments in _LISTS:
        try:
            said = output_of([str(ncu.path), *arguments], timeout_s=_QUERY_TIMEOUT_S)
        except (OSError, TimeoutError) as error:
            raise NcuFailedError(f"ncu cannot be asked for its counters: {error}", hint=_UPDATE) from error
        yield frozenset(_METRIC.findall(said.stdout))
    if not _METRIC.search(said.stdout):
        raise failure(ncu, said.text)


def failure(ncu: Ncu, said: str) -> NcuFailedError:
    """Return why ncu measured nothing, with one remedy, from what it printed."""
    if "ERR_NVGPUCTRPERM" in said or "permission to access" in said:
        return NcuFailedError(
            "the driver does not let this user read the GPU's counters (ERR_NVGPUCTRPERM)",
            hint="Run as root, or have an administrator load the driver with NVreg_RestrictProfilingToAdminUsers=0",
        )
    if _NO_GPU.search(said):
        return NcuFailedError(
            "ncu finds no GPU that it can measure", hint="Run where 'nvidia-smi' lists a GPU of Volta or newer"
        )
    if "LibraryNotLoaded" in said or "driver resource was unavailable" in said.lower():
        return NcuFailedError(
            f"ncu cannot reach the GPU's counters here{last_words(said)}",
            hint="End other profilers (DCGM, nsys, another ncu); in a sandbox without counters, run elsewhere",
        )
    return NcuFailedError(f"ncu {ncu.version_text} measured nothing{last_words(said)}", hint=_UPDATE)


_UPDATE = "Run 'ncu --query-metrics' to see what it says here; an ncu older than the driver or the GPU cannot measure"
_NO_GPU = re.compile(
    r"(?i)no (?:cuda[- ]capable |supported )?(?:devices?|gpus?)\b.{0,40}(?:found|available|detected|installed)?"
    r"|libcuda\.so|unsupported gpu|(?:find|found) no (?:device|gpu)"
)


def last_words(said: str, lines: int = 3) -> str:
    """Return the last lines of what ncu said, ready to follow a message; empty where it said nothing."""
    text = [line.strip() for line in said.replace("\r", "\n").splitlines() if line.strip()]
    return f" (ncu: {' / '.join(text[-lines:])})" if text else ""


def _found(environ: Mapping[str, str], root: Path) -> Iterator[Ncu]:
    """Every ncu that answers, in the order of preference."""
    on_path = shutil.which("ncu", path=environ.get("PATH", ""))
    ncu = ncu_at(Path(on_path), "PATH") if on_path else None
    if ncu is not None:
        yield ncu
    for source, patterns in _PLACES:
        paths = {path.resolve(): path for pattern in patterns for path in root.glob(pattern)}
        answers = (ncu_at(path, source) for path in sorted(paths.values()))
        yield from sorted((each for each in answers if each is not None), key=lambda each: each.version, reverse=True)
