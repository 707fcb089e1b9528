"""What a program inherits from the process that starts it, as far as nsys or this package changes it.

Compared with ``/proc/self/status``, limits, environment and descriptors of a program alone and under nsys 2023.4.4:

==========================  ======================  =====================================================
what                        under nsys              restored
==========================  ======================  =====================================================
umask                       0                       yes
ignored signals             SIGINT, SIGQUIT caught  yes (``nohup``, ``&`` in a script)
LD_LIBRARY_PATH             searches the working    yes, where it was not set
                            folder first
TMPDIR                      a folder for sockets    yes
inherited descriptors       kept                    yes: this package does not close them
names no shell variable     kept                    yes, where there is a bash: other shells drop them
can have
session and process group   its own                 no: Ctrl-C must not reach nsys
blocked SIGCHLD             not blocked             no
signals of schedulers       blocked, see below      yes
more variables              ``QUADD_*``, ``NSYS_*``  no: they carry the recording
                            ``LD_PRELOAD`` and so on
==========================  ======================  =====================================================

Limits, nice value, scheduler, core affinity, ``oom_score_adj``, cgroup and working folder are the same.

SLURM sends a signal to all processes of a step, whatever their session: SIGTERM at a time limit, SIGUSR1 before it
(seen with SLURM 22.05 and proctrack/linuxproc). systemd does the same when it stops a service. nsys and its agents end
then without a report. So nsys starts with these signals blocked, and hands that down to its agents: seen with nsys
2023.4.4, which then goes on. A shell cannot unblock signals for the program; ``env`` of GNU coreutils 8.31 or newer
can. Without it, nothing is blocked.

nsys writes the environment of every visible process and the names of all processes of the machine into its report. In
its own process namespace it sees only the program and itself, and the program gets a short list of variables.
"""

import fnmatch
import os
import re
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nsyswrap.base.errors import CaptureError
from nsyswrap.base.named_secrets import looks_secret
from nsyswrap.capture.process import output_of
from nsyswrap.capture.process_tree import status_fields

_BASH = Path("/bin/bash")
_SHELL_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# POSIX shells redirect descriptors of one digit only.
_ONE_DIGIT = range(9, 2, -1)
# Python ignores these two itself and restores them in its children.
_OF_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}
_LAST_PLAIN_SIGNAL = 31
# What schedulers send to all processes of a job.
KEPT_FROM_NSYS = (signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGTERM)


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


@dataclass(frozen=True, slots=True)
class Inherited:
    """What the program inherits without nsys.

    Args:
        tmpdir: TMPDIR; empty for none.
        umask: The umask; None to leave it as it is.
        ignored: Numbers of the signals that are ignored.
        descriptors: Open descriptors other than the standard streams.
        has_library_path: Whether LD_LIBRARY_PATH is set.
        shell: The shell that restores them.
        unblocker: The command that unblocks the signals that are kept from nsys, before a command; empty where there is
            none, so that nsys gets these signals.
    """

    tmpdir: str = ""
    umask: int | None = None
    ignored: tuple[int, ...] = ()
    descriptors: tuple[int, ...] = ()
    has_library_path: bool = True
    shell: tuple[str, ...] = ("/bin/sh",)
    unblocker: tuple[str, ...] = ()

    def words(self) -> tuple[str, str, str, str]:
        """Return TMPDIR, umask, ignored signals and whether there is a library path, as words of a command line."""
        umask = "" if self.umask is None else f"{self.umask:04o}"
        return self.tmpdir, umask, " ".join(map(str, self.ignored)), "set" if self.has_library_path else ""

    def free_descriptors(self) -> tuple[int, int]:
        """Return two descriptors of one digit that the program does not inherit; the last two if it has all."""
        second, first, *_ = sorted(_ONE_DIGIT, key=lambda number: number in self.descriptors)
        return first, second


def inherited(environ: Mapping[str, str], umask: int | None = None) -> Inherited:
    """Return what a program inherits from this process.

    The umask is the one that this process was started with; None for the present one.
    """
    return Inherited(
        tmpdir=environ.get("TMPDIR", ""),
        umask=present_umask() if umask is None else umask,
        ignored=ignored_signals(),
        descriptors=inherited_descriptors(),
        has_library_path=bool(environ.get("LD_LIBRARY_PATH")),
        shell=_shell(environ),
        unblocker=_unblocker(environ.get("PATH")),
    )


@contextmanager
def blocked_signals(*, enabled: bool = True) -> Iterator[None]:
    """Start processes inside the block with the signals blocked that are kept from nsys."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, KEPT_FROM_NSYS if enabled else ())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def present_umask() -> int:
    """Return the umask of this process. ``os.umask`` has to change it for a moment, so it is used only at need."""
    shown = status_fields("/proc/self/status").get("Umask")
    if shown is not None:
        return int(shown, 8)
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def ignored_signals() -> tuple[int, ...]:
    """Return the numbers of the signals that this process was started with as ignored."""
    plain = (number for number in signal.valid_signals() if number <= _LAST_PLAIN_SIGNAL)
    return tuple(
        sorted(int(each) for each in plain if signal.getsignal(each) is signal.SIG_IGN and each not in _OF_PYTHON)
    )


def inherited_descriptors() -> tuple[int, ...]:
    """Return the open descriptors, other than the standard streams, that programs started here are meant to have.

    Python's own are not inheritable. Folders are left out, because a program is started to read files and pipes.
    """
    descriptors = []
    for entry in Path("/proc/self/fd").iterdir():
        number = int(entry.name)
        try:
            if number > 2 and os.get_inheritable(number) and not stat.S_ISDIR(os.fstat(number).st_mode):  # noqa: PLR2004
                descriptors.append(number)
        except OSError:  # the descriptor of the listing itself
            continue
    return tuple(sorted(descriptors))


@cache
def _unblocker(path: str | None) -> tuple[str, ...]:
    """Return the command that unblocks signals; empty where there is none, or where our caller blocks one of them."""
    env = shutil.which("env", path=path)
    if env is None or signal.pthread_sigmask(signal.SIG_BLOCK, ()) & set(KEPT_FROM_NSYS):
        return ()
    # It also sets them to their default; the shell after it ignores again what was ignored.
    command = (env, f"--default-signal={','.join(each.name.removeprefix('SIG') for each in KEPT_FROM_NSYS)}")
    try:
        done = subprocess.run((*command, env), capture_output=True, check=False)  # noqa: S603 - it prints variables
    except OSError:
        return ()
    return command if done.returncode == 0 else ()


def _shell(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return a shell that keeps all variables; dash drops names like ``BASH_FUNC_module%%``, exported functions."""
    if all(_SHELL_VARIABLE.fullmatch(name) for name in environ) or not _BASH.exists():
        return ("/bin/sh",)
    return (str(_BASH), "-p")  # -p: it runs no file of BASH_ENV


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
