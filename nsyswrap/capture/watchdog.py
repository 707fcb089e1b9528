"""A process that ends a run if this one is killed: without it nsys and the program would go on unseen.

mpirun sends SIGKILL one second after SIGTERM, and torchrun after 30 s, but only to the process that they started. nsys
and the program run in sessions of their own. So a shell waits for the end of a pipe. If the pipe ends without a word,
it stops the recording and ends the program; nsys then writes its report, which `nsyswrap resume` finds.
"""

import contextlib
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from nsyswrap.capture.inherited import blocked_signals
from nsyswrap.capture.process_tree import start_time


class Patience(NamedTuple):
    """How long the watchdog waits, in seconds; by default as long as `foreground.TimeLimits` says.

    Attributes:
        grace_s: From SIGTERM to SIGKILL for the program.
        collect_s: For the stop command, before the program gets SIGTERM; the command then goes on.
    """

    grace_s: int = 10
    collect_s: int = 60


USUAL = Patience()

# Seconds for the shell to end after the run is over; it waits for nothing then.
_END_S = 5.0

# $1 is the process id of nsys, $2 the file with the program's id, $3 the grace period, $4 the time to stop the
# recording, which the rest does.
# nsys hands its TMPDIR, a folder of this run alone, to its agents, which have sessions of their own; the program gets
# its user's back.
# Its input names the program and when it started, as in /proc/<pid>/stat, since process ids are used again.
SCRIPT = """
started() { read -r line <"/proc/$1/stat" && set -- ${line##*) } && echo "${20}"; }
end() { kill -s "$1" -- "-$2" || kill -s "$1" "$2"; }
end_agents() {
    for each in /proc/[0-9]*; do
        [ "${each#/proc/}" != $$ ] && grep -qzxF "TMPDIR=$TMPDIR" "$each/environ" && kill -s KILL "${each#/proc/}"
    done
}
program=
while read -r word rest; do
    [ "$word" = over ] && exit
    program=$word born=$rest
done
nsys=$1 file=$2 left=$3 patience=$4
shift 4
if [ -z "$program" ]; then
    kill -s KILL "$nsys"
    [ -s "$file" ] && end KILL "$(cat "$file")"
    end_agents
    exit
fi
[ "$(started "$program")" = "$born" ] || exit
if [ $# -gt 0 ]; then
    "$@" &
    while [ "$patience" -gt 0 ] && kill -s 0 "$!"; do
        sleep 1
        patience=$((patience - 1))
    done
fi
end TERM "$program"
while [ "$left" -gt 0 ] && [ "$(started "$program")" = "$born" ]; do
    sleep 1
    left=$((left - 1))
done
[ "$(started "$program")" = "$born" ] && end KILL "$program"
"""


@contextmanager
def watched(
    nsys: int, pid_file: Path, stop: Sequence[str], env: Mapping[str, str], patience: Patience = USUAL
) -> Iterator[Callable[[int], None]]:
    """End the run if this process is killed inside the block.

    Args:
        nsys: The process id of nsys.
        pid_file: The file with the program's process id; one that never exists if that id is of another namespace.
        stop: The command that stops the recording; empty for none.
        env: Environment of that command.
        patience: How long to wait.

    Yields:
        A function to call with the program's process id once it is known.
    """
    with blocked_signals():
        watchdog = subprocess.Popen(  # noqa: S603 - a script of this module
            ("/bin/sh", "-c", SCRIPT, "nsyswrap", str(nsys), str(pid_file), *map(str, patience), *stop),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=env,
            cwd="/",
            start_new_session=True,
        )

    def tell(line: str) -> None:
        if watchdog.stdin is not None:
            with contextlib.suppress(OSError):  # somebody ended it
                watchdog.stdin.write(line.encode())
                watchdog.stdin.flush()

    try:
        yield lambda program: tell(f"{program} {start_time(program)}\n")
    finally:
        tell("over\n")
        if watchdog.stdin is not None:
            with contextlib.suppress(OSError):
                watchdog.stdin.close()
        try:
            watchdog.wait(_END_S)
        except subprocess.TimeoutExpired:
            watchdog.kill()
            watchdog.wait(_END_S)
