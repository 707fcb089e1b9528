"""Which shared libraries a program of nsys lacks: the usual reason why its importer does not start."""

import re
from pathlib import Path

from nsyswrap.capture.process import output_of

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
