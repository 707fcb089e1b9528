"""Find Nsight Compute (ncu) on this machine, and list its counters for this GPU."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from nsyswrap.base.errors import CaptureError
from nsyswrap.capture.process import Output, output_of
from nsyswrap.capture.programs import Places, RunningProgram, find_programs, program_at

VARIABLE = "NSYSWRAP_NCU"

_QUERY_TIMEOUT_S = 120
# NVIDIA's own installer first, then the copy in a CUDA toolkit; the newest of several.
_PLACES: Places = (
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


class Ncu(RunningProgram):
    """An ncu that runs."""

    __slots__ = ()


class NcuNotFoundError(CaptureError):
    """There is no ncu on this machine."""


class NcuFailedError(CaptureError):
    """ncu could not measure."""


def find_ncu(environ: Mapping[str, str] | None = None, root: Path = Path("/")) -> Ncu:
    """Return the ncu to use: that of the variable ``NSYSWRAP_NCU``, of ``PATH``, or of NVIDIA's installers.

    Raises:
        NcuNotFoundError: ``NSYSWRAP_NCU`` does not name a working ncu, or there is none.
    """
    environ = os.environ if environ is None else environ
    named = environ.get(VARIABLE)
    if named:
        ncu = program_at(Ncu, Path(os.path.expanduser(named)), VARIABLE)  # noqa: PTH111 - Path.expanduser() may raise
        if ncu is None:
            raise NcuNotFoundError(
                f"{VARIABLE} is {named}, which is not a working ncu", hint=f"Correct {VARIABLE}, or unset it"
            )
        return ncu
    ncu = next(find_programs(Ncu, "ncu", _PLACES, environ, root), None)
    if ncu is None:
        raise NcuNotFoundError(
            "there is no ncu (NVIDIA Nsight Compute) on this machine",
            hint=f"Install Nsight Compute, which is part of CUDA toolkits, or set {VARIABLE} to the path of an ncu",
        )
    return ncu


def counter_lists(ncu: Ncu) -> Iterator[frozenset[str]]:
    """Yield lists of the counters that ncu has for the GPUs of this machine, without suffixes such as ``.sum``.

    Each list takes seconds. In order: counters that patch a kernel's instructions, counters of one of ncu's sections,
    and hardware counters.

    Raises:
        NcuFailedError: The last list is empty: there is no GPU, no driver, or no permission.
    """
    output = Output(0, "", "")
    for arguments in _LISTS:
        try:
            output = output_of([str(ncu.path), *arguments], timeout_s=_QUERY_TIMEOUT_S)
        except (OSError, TimeoutError) as error:
            raise NcuFailedError(f"ncu cannot list its counters: {error}", hint=_UPDATE) from error
        yield frozenset(_METRIC.findall(output.stdout))
    if not _METRIC.search(output.stdout):
        raise failure(ncu, output.text)


def failure(ncu: Ncu, output: str) -> NcuFailedError:
    """Return the error for an ncu that measured nothing, with cause and remedy, from its output."""
    if "ERR_NVGPUCTRPERM" in output or "permission to access" in output:
        return NcuFailedError(
            "the driver does not let this user read the GPU's counters (ERR_NVGPUCTRPERM)",
            hint="Run as root, or have an administrator load the driver with NVreg_RestrictProfilingToAdminUsers=0",
        )
    if _NO_GPU.search(output):
        return NcuFailedError(
            "ncu finds no GPU that it supports", hint="Run where 'nvidia-smi' lists a GPU of Volta or newer"
        )
    if "LibraryNotLoaded" in output or "driver resource was unavailable" in output.lower():
        return NcuFailedError(
            f"ncu cannot access the GPU's counters{quoted_output(output)}",
            hint="End other profilers (DCGM, nsys, another ncu); if this is a sandbox without counters, run elsewhere",
        )
    return NcuFailedError(f"ncu {ncu.version_text} measured nothing{quoted_output(output)}", hint=_UPDATE)


_UPDATE = "Run 'ncu --query-metrics' to see its message; an ncu older than the driver or the GPU cannot measure"
_NO_GPU = re.compile(
    r"(?i)no (?:cuda[- ]capable |supported )?(?:devices?|gpus?)\b.{0,40}(?:found|available|detected|installed)?"
    r"|libcuda\.so|unsupported gpu|(?:find|found) no (?:device|gpu)"
)


def quoted_output(output: str, lines: int = 3) -> str:
    """Return the last lines of ncu's output in brackets, to append to a message; empty if there are none."""
    text = [line.strip() for line in output.replace("\r", "\n").splitlines() if line.strip()]
    return f" (ncu: {' / '.join(text[-lines:])})" if text else ""
