"""Hide what a capture need not tell: other processes of the machine, and variables that may hold secrets.

nsys writes the environment of every process in sight and the names of all processes of the machine into its report. In
a process namespace of its own it sees only the program and itself; with a short list of variables there is little to
tell.
"""

import fnmatch
import os
from collections.abc import Mapping

from nsyswrap.capture.process import output_of
from nsyswrap.errors import CaptureError
from nsyswrap.privacy import looks_secret

# What programs need to start and what decides how they compute. USER and LOGNAME are not needed for either.
KEPT_VARIABLES = (
    "CONDA_PREFIX",
    "CUBLAS_*",
    "CUDA_*",
    "CUDNN_*",
    "HF_HOME",
    "HF_HUB_OFFLINE",
    "HOME",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "MKL_*",
    "NCCL_*",
    "NVIDIA_*",
    "OMP_*",
    "OPENBLAS_*",
    "PATH",
    "PYTHON*",
    "PYTORCH_*",
    "RANK",
    "TERM",
    "TMPDIR",
    "TORCH*",
    "TRITON_*",
    "TZ",
    "VIRTUAL_ENV",
    "WORLD_SIZE",
    "XDG_CACHE_HOME",
)

_TRY_TIMEOUT_S = 20


def kept_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Keep the variables on the list ``KEPT_VARIABLES``, but none whose name speaks of a secret."""
    return {
        name: value
        for name, value in environ.items()
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in KEPT_VARIABLES) and not looks_secret(name)
    }


def namespace_prefix() -> tuple[str, ...]:
    """Return the command that starts another in a process namespace of its own.

    Raises:
        CaptureError: This machine lets this user have none.
    """
    mapped = () if os.geteuid() == 0 else ("--user", "--map-current-user")
    prefix = ("unshare", *mapped, "--pid", "--fork", "--kill-child", "--mount-proc")
    try:
        output = output_of([*prefix, "true"], timeout_s=_TRY_TIMEOUT_S)
    except (OSError, TimeoutError) as error:
        raise _refused(str(error)) from error
    if output.code != 0:
        raise _refused(output.stderr.strip())
    return prefix


def namespace_entry(pid: int) -> tuple[str, ...]:
    """Return the start of a command that is to run in the process namespace of another process."""
    mapped = () if os.geteuid() == 0 else ("--user", "--preserve-credentials")
    return ("nsenter", f"--target={pid}", *mapped, "--pid", "--mount")


def _refused(reason: str) -> CaptureError:
    return CaptureError(
        f"processes cannot be hidden from the capture here: {reason}",
        hint="Run as root or where user namespaces are allowed, or share only what 'nsyswrap redact' makes",
    )
