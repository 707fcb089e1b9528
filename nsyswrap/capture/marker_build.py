"""Compiles the marker of ``--annotate`` before a run, where the machine can; marks in Python do the same."""

import shlex
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from nsyswrap.capture.annotate.injection import PACKAGE
from nsyswrap.capture.process import output_of

SOURCE = PACKAGE / "compiled_marker.c"
NAME = "compiled_marker.abi3.so"
FLAGS = ("-O2", "-shared", "-fPIC")
COMPILER_VARIABLE = "CC"
_TIME_LIMIT_S = 30


def built_marker(folder: Path, environ: Mapping[str, str]) -> Path | None:
    """Compile the marker into a folder; return its path, or None without a C compiler or the headers of Python.

    The headers are those of nsyswrap's own Python: the stable interface is the same for each Python from 3.10 on.

    Args:
        folder: An existing folder.
        environ: The environment; ``CC`` names the compiler, which is ``cc`` by default.
    """
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").is_file():
        return None
    compiler = shlex.split(environ.get(COMPILER_VARIABLE, "")) or ["cc"]
    target = folder / NAME
    command = [*compiler, *FLAGS, f"-I{headers}", str(SOURCE), "-o", str(target)]
    try:
        code = output_of(command, timeout_s=_TIME_LIMIT_S, env=environ).code
    except OSError:
        return None
    return target if code == 0 and target.is_file() else None
