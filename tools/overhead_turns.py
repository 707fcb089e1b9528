# ruff: noqa: INP001 - a part of tools/measure_overhead.py, not a package
"""Let a program take turns with itself while it is recorded, so that both have the pace of the same cores.

Each program is started alone and recorded at the same time. The two make their steps in turns of a few steps, on the
same two cores, since the pace of a machine changes within a second::

    alone       |steps|       |steps|       |steps|       |steps|
    recorded           |steps|       |steps|       |steps|

The program may also be recorded more than once, with other options. What records it is not bound to these cores.

The thread that autograd makes has a core of its own: on one core, it and the thread of the program would wait for each
other. A core of a shared machine is slower while others use the other half of it, and nsys then slows a program more.
So the cores are those that are the fastest just before.
"""

import os
import socket
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

from nsyswrap.capture.process import Output, output_of

PROGRAM = Path(__file__).resolve().parent / "overhead_programs.py"
LONGEST_S = 240
# Turns in which the recorded program makes its steps. The program alone has one more, so that its turns surround those.
TURNS = 6
POLL_S = 0.2
# From so many parts of the machine come the cores.
PARTS = 4
# The work that shows how fast a core is: numbers to square, 0.5 ms, and how often.
LENGTH, TIMED = 10_000, 40


def pairs_of_cores() -> list[tuple[int, int]]:
    """Return pairs of neighbouring cores that we may use, from all over the machine.

    They are the last two of each part of the machine, as its first cores often serve the devices.
    """
    cores = sorted(os.sched_getaffinity(0))
    size = max(len(cores) // PARTS, 2)
    return [(cores[end - 2], cores[end - 1]) for end in range(size, len(cores) + 1, size)] or [(cores[0], cores[0])]


def fastest(pairs: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the pair of cores whose slower one is the fastest now."""
    before = os.sched_getaffinity(0)
    try:
        return min(pairs, key=lambda pair: max(map(pace_ns, pair)))
    finally:
        os.sched_setaffinity(0, before)


def pace_ns(core: int) -> float:
    """Move to a core, and return how long some work takes there, in ns."""
    os.sched_setaffinity(0, {core})
    times = []
    for _ in range(TIMED):
        began = time.perf_counter_ns()
        sum(each * each for each in range(LENGTH))
        times.append(time.perf_counter_ns() - began)
    return statistics.median(times)


def take_turns(
    name: str, folder: Path, recordings: Mapping[str, Sequence[str]], pairs: Sequence[tuple[int, int]]
) -> None:
    """Start a program alone and recorded, and let them make their steps in turns, the program alone first and last.

    Args:
        name: The program.
        folder: Where the lengths of the steps go: alone.json, and a file for each recording.
        recordings: The words before the command that record it, by name.
        pairs: Pairs of cores; one of them is chosen for the threads that make the steps.

    Raises:
        OSError: One of them failed.
        TimeoutError: One of them took too long.
    """
    with ThreadPoolExecutor(1 + len(recordings)) as pool, ExitStack() as stack:
        servers, running = {}, {}
        for kind, prefix in {"alone": (), **recordings}.items():
            address = folder / f"{kind}.socket"
            servers[kind] = stack.enter_context(socket.socket(socket.AF_UNIX))
            servers[kind].bind(str(address))
            servers[kind].listen()
            program = [sys.executable, str(PROGRAM), name, "--turns", str(address), "--parts", str(TURNS)]
            command = [*prefix, *program, "--times", str(folder / f"{kind}.json")]
            running[kind] = pool.submit(output_of, command, timeout_s=LONGEST_S)
        with ExitStack() as ending:  # a closed socket ends the programs
            lines = {kind: ending.enter_context(_connection(servers[kind], running[kind])) for kind in running}
            cores = fastest(pairs)
            for kind in ("alone", *(*recordings, "alone") * TURNS):
                lines[kind].write("{} {}\n".format(*cores))
                lines[kind].flush()
                if not lines[kind].readline():
                    break
        for each in running.values():
            done = each.result()
            if done.code:
                raise OSError(f"exit code {done.code}: {done.stderr[-400:]}")


def _connection(server: socket.socket, running: "Future[Output]") -> TextIO:
    """Return the lines to and from a program, once it is ready.

    Raises:
        OSError: It ended.
    """
    server.settimeout(POLL_S)
    while True:
        try:
            connection, _ = server.accept()
        except TimeoutError:
            if running.done():
                done = running.result()
                raise OSError(f"exit code {done.code}: {done.stderr[-400:]}") from None
            continue
        connection.settimeout(LONGEST_S)
        with connection:
            return connection.makefile("rw")  # keeps it open
