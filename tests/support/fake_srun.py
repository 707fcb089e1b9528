"""A stand-in for srun on one node: it starts tasks with SLURM's variables, and ends them as slurmstepd does.

``python fake_srun.py TASKS COMMAND...``; the variable ``FAKE_SRUN_TASKS`` replaces TASKS where a shim calls it.

SIGUSR1   goes to all processes of the step, also those in other sessions, as with ``--signal=USR1@60``
SIGTERM   goes to all of them, after SIGCONT: the time limit. Both seen with SLURM 22.05
SIGALRM   gives SIGKILL to all processes of the step, also those in other sessions: ``KillWait`` is over

The exit code is the highest of the tasks. A test sends SIGALRM when it has seen what it waits for, so that no test
depends on the time that a machine takes.
"""

import contextlib
import os
import signal
import subprocess
import sys
from types import FrameType

from nsyswrap.capture.process_tree import adopting_orphans, descendants, kill_all, shell_code


def task(number: int, count: int, command: list[str]) -> subprocess.Popen[bytes]:
    """Start a task of the step."""
    own = {
        "SLURM_JOB_ID": "4711",
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": str(number),
        "SLURM_LOCALID": str(number),
        "SLURM_NTASKS": str(count),
        "SLURM_STEP_TASKS_PER_NODE": str(count),
    }
    return subprocess.Popen(command, env={**os.environ, **own}, start_new_session=True)


def main() -> int:
    """Start the tasks, pass on signals, and wait for all."""
    count, command = int(sys.argv[1]), sys.argv[2:]
    with adopting_orphans():
        tasks = [task(number, count, command) for number in range(count)]

        def to_all(number: int, _frame: FrameType | None) -> None:
            for pid in descendants(os.getpid()):
                with contextlib.suppress(ProcessLookupError):
                    if number == signal.SIGTERM:
                        os.kill(pid, signal.SIGCONT)
                    os.kill(pid, number)

        signal.signal(signal.SIGUSR1, to_all)
        signal.signal(signal.SIGTERM, to_all)
        signal.signal(signal.SIGALRM, lambda *_: kill_all(os.getpid(), frozenset()))
        return max(shell_code(each.wait()) for each in tasks)


if __name__ == "__main__":
    sys.exit(main())
