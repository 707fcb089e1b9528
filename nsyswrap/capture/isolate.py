"""Hide from a capture what it does not need: other processes of the machine, and variables that may hold secrets.

nsys writes the environment of every visible process and the names of all processes of the machine into its report. In
its own process namespace it sees only the program and itself, and the program gets a short list of variables.
"""

import fnmatch
import os
from collections.abc import Mapping

from nsyswrap.base.errors import CaptureError
from nsyswrap.base.named_secrets import looks_secret
from nsyswrap.capture.process import output_of

# Variables that programs need to start or that determine how they compute. Neither needs USER or LOGNAME.
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
    "OMPI_COMM_WORLD_*",
    "OMP_*",
    "OPENBLAS_*",
    "PATH",
    "PYTHON*",
    "PYTORCH_*",
    "RANK",
    "SLURM_JOB_ID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_NTASKS",
    "SLURM_PROCID",
    "SLURM_STEP_ID",
    "SLURM_STEP_TASKS_PER_NODE",
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
    """Return the variables of ``KEPT_VARIABLES``, without those whose names look like secrets."""
    return {
        name: value
        for name, value in environ.items()
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in KEPT_VARIABLES) and not looks_secret(name)
    }


def namespace_prefix() -> tuple[str, ...]:
    """Return the start of a command line that runs a command in a new process namespace.

    Raises:
        CaptureError: This user may not create a process namespace.
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
    """Return the start of a command line that runs a command in the process namespace of another process."""
    mapped = () if os.geteuid() == 0 else ("--user", "--preserve-credentials")
    return ("nsenter", f"--target={pid}", *mapped, "--pid", "--mount")


def _refused(reason: str) -> CaptureError:
    return CaptureError(
        f"this machine cannot hide processes from the capture: {reason}",
        hint="Run as root or where user namespaces are allowed, or share only what 'nsyswrap redact' writes",
    )
