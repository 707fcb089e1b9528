"""How the run of a cell ended, and why: read from its exit code and the end of its output."""

import re
import signal
from enum import Enum
from typing import NamedTuple


class Ending(Enum):
    """How a run ended."""

    MEASURED = "measured"
    MEMORY = "out of memory"
    CRASHED = "crashed"
    TIME = "time limit"
    NOT_PROFILED = "not profiled"
    NO_STEPS = "no steps"


class EndReason(NamedTuple):
    """How a run ended, and why in one sentence; empty where it was measured."""

    ending: Ending
    text: str = ""


# From here on, exit codes are those of nsyswrap or nsys. Source: docs/cli.md, exit codes of profile.
_OWN_CODES = (125, 126, 127)
_SIGNALLED = 128
_LONGEST = 300
# Words of PyTorch, CUDA, cuBLAS, NCCL, Python, C++ and the kernel for memory that is used up.
_MEMORY = re.compile(
    r"out of memory|OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation|std::bad_alloc"
    r"|(?<!\w)MemoryError|can't allocate memory|Cannot allocate memory|insufficient shared memory",
    re.IGNORECASE,
)
# The last line of a traceback; ranks of torchrun write their number before it.
_RAISED = re.compile(r"^(?:\[rank\d+\]:\s*)?((?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt))(?::\s*(.*))?$")
# What launchers raise about a rank that failed says nothing on why.
_OF_LAUNCHERS = ("ChildFailedError", "ProcessRaisedException", "ProcessExitedException", "CalledProcessError")
_OWN_WORDS = "nsyswrap: "
# Lines that ``profile`` prints after the program's own.
_OF_PROFILE = (_OWN_WORDS, "note: ", "warning: ", "hint: ", "capture  ", "report   ")


def reason_of(code: int, output: str, limit_s: float | None = None) -> EndReason:
    """Return how a run ended.

    Args:
        code: Exit code of ``nsyswrap profile``: that of the program, or 125 and more.
        output: The end of what program and nsyswrap wrote.
        limit_s: The limit that it ran into, in seconds; None if it ended by itself.
    """
    if limit_s is not None:
        return EndReason(Ending.TIME, f"it ran longer than {limit_s:g} s")
    if code == 0:
        return EndReason(Ending.MEASURED)
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    memory = [line for line in lines if _MEMORY.search(line)]
    if memory:
        # A line of source in the traceback may have the words, too.
        raised = [line for line in memory if _RAISED.match(line)]
        return EndReason(Ending.MEMORY, _short(_without_rank((raised or memory)[-1])))
    if code in _OWN_CODES:
        own = next((line for line in reversed(lines) if line.startswith(_OWN_WORDS)), "")
        return EndReason(Ending.NOT_PROFILED, _short(own.removeprefix(_OWN_WORDS) or f"exit code {code}"))
    return EndReason(Ending.CRASHED, _short(_crash(code, lines)))


def _crash(code: int, lines: list[str]) -> str:
    """Return why a program crashed: the exception that it raised, or the signal that ended it."""
    for line in reversed(lines):
        raised = _RAISED.match(line)
        if raised and not raised[1].endswith(_OF_LAUNCHERS):
            return _without_rank(line)
    if code > _SIGNALLED:
        name = next((each.name for each in signal.Signals if each == code - _SIGNALLED), f"signal {code - _SIGNALLED}")
        more = "; the system kills programs that use up the memory" if name == "SIGKILL" else ""
        return f"ended by {name}{more}"
    said = next((line for line in reversed(lines) if not line.startswith(_OF_PROFILE)), "")
    return f"exit code {code}: {said}" if said else f"exit code {code}"


def _without_rank(line: str) -> str:
    """Return a line without the number of the rank that wrote it."""
    return line.partition("]: ")[2].strip() if line.startswith("[rank") else line


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
