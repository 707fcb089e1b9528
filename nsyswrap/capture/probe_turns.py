"""Run the program that times calls (:mod:`nsyswrap.capture.cost_probe`) alone and under nsys, and let both take turns.

The pace of a machine changes, on a shared one by a factor. So both programs run at the same time and on the same core:
one times a block of calls while the other waits, and then the other way round::

    alone        |block|       |block|             |block|       |block|
    under nsys          |block|       |  next core |      |block|       |block|

Neighbouring blocks have the same pace, so their difference is what nsys adds. The rounds go over some of the machine's
cores, as the cores of a machine may have different paces.
"""

import json
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, TextIO

from nsyswrap.capture.cost_probe import TIGHT
from nsyswrap.capture.process import Output, output_of
from nsyswrap.capture.process_tree import adopting_orphans, children_by_parent, kill_all, reap_children

# By call and setting: the time of a call and the pace of the machine in each block, in ns.
Times = dict[str, dict[str, list[tuple[float, float]]]]

# Blocks of each kind and setting: enough for stable quartiles in some seconds. The first one is for the caches.
BLOCKS = 12
# The rounds go over so many cores.
CORES = 4
TIMEOUT_S = 240
POLL_S = 0.2
# How long a program may take to end once it has nothing to do: nsys writes its capture then.
END_S = 30
LAUNCHES, LONGEST = "{}_launches", "{}_longest"


class Probe:
    """A running program that times calls.

    Raises:
        OSError: It ended.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(TIMEOUT_S)
        self._connection = connection
        self._answers: TextIO = connection.makefile("r")
        self.number: int = self._answer()
        self.settings: dict[str, list[str]] = self._answer()

    def move(self, core: int) -> None:
        """Move it to a core."""
        self._send({"core": core})

    def block(self, call: str, setting: str) -> tuple[float, float]:
        """Return the time of a call and the pace of the machine in a block, in ns."""
        self._send({"call": call, "setting": setting})
        time_ns, pace_ns = self._answer()
        return time_ns, pace_ns

    def launches(self) -> dict[str, tuple[dict[str, int], float]]:
        """Return how many kernels each training step launches, by the kind of launch, and the longest work before one.

        The longest is a multiple of the mean.
        """
        self._send({"count": True})
        return {name: (counts, longest) for name, (counts, longest) in self._answer().items()}

    def close(self) -> None:
        """Let it end."""
        self._answers.close()
        self._connection.close()

    def _send(self, request: object) -> None:
        self._connection.sendall(json.dumps(request).encode() + b"\n")

    def _answer(self) -> Any:  # noqa: ANN401 - from JSON
        line = self._answers.readline()
        if not line:
            raise ConnectionResetError("the program that times calls ended")
        return json.loads(line)


def run_probes(prefixes: Sequence[Sequence[str]], folder: Path) -> list[Times]:
    """Run the program once with each prefix before its command, all at the same time, and return the times of each.

    A run alone has no words before the command, and also counts the launches of its steps. The folder is private and
    has a short path, for the socket.

    Raises:
        OSError: A program ended early or could not be started.
        TimeoutError: A program took too long.
        ValueError: What it answered cannot be read.
    """
    address = folder / "probe"
    address.unlink(missing_ok=True)
    excluded = frozenset(children_by_parent().get(os.getpid(), ()))
    with socket.socket(socket.AF_UNIX) as server, adopting_orphans(), ThreadPoolExecutor(len(prefixes)) as pool:
        server.bind(str(address))
        server.listen(len(prefixes))
        server.settimeout(POLL_S)
        command = (sys.executable, "-m", "nsyswrap.capture.cost_probe", str(address))
        running = [
            pool.submit(output_of, (*prefix, *command, str(number)), timeout_s=TIMEOUT_S)
            for number, prefix in enumerate(prefixes)
        ]
        try:
            with ExitStack() as ending:
                probes = [ending.enter_context(closing(each)) for each in _connected(server, running)]
                probes.sort(key=lambda each: each.number)
                times_of_probes = _in_turns(probes)
                for probe, times, prefix in zip(probes, times_of_probes, prefixes, strict=True):
                    times.update({} if prefix else _launches(probe))
            wait(running, END_S)
        except ConnectionError as error:
            ways = [_how_it_ended(each) for each in running if each in wait(running, END_S).done]
            raise OSError(f"a program that times calls ended: {'; '.join(dict.fromkeys(ways))}") from error
        finally:
            kill_all(os.getpid(), excluded)  # an nsys that crashed leaves its agent and the program
            reap_children(excluded)
    return times_of_probes


def _connected(server: socket.socket, running: Sequence["Future[Output]"]) -> Iterator[Probe]:
    """Yield the programs, in the order in which they are ready."""
    ends = time.monotonic() + TIMEOUT_S
    for _ in running:
        while True:
            if ended := next((each for each in running if each.done()), None):
                raise OSError(f"a program that times calls ended before it was ready: {_how_it_ended(ended)}")
            try:
                yield Probe(server.accept()[0])
                break
            except TimeoutError:
                if time.monotonic() > ends:
                    raise


def _how_it_ended(ended: "Future[Output]") -> str:
    """Return the last line that a program wrote before it ended, with its exit code, or why it did not start."""
    if error := ended.exception():
        return str(error)
    output = ended.result()
    lines = [line for line in output.text.splitlines() if line.strip()]
    return f"{lines[-1].strip()} (exit code {output.code})" if lines else f"exit code {output.code}"


def _in_turns(probes: Sequence[Probe]) -> list[Times]:
    """Return the times of each program, of the calls that it can make. They take turns, block by block."""
    times_of_probes: list[Times] = [{} for _ in probes]
    calls = dict.fromkeys(
        (name, setting) for probe in probes for name in probe.settings for setting in probe.settings[name]
    )
    cores = some_cores()
    for name, setting in calls:
        able = [(probe, times) for probe, times in zip(probes, times_of_probes, strict=True) if name in probe.settings]
        for number in range(BLOCKS + 1):
            for probe, times in able if number % 2 else reversed(able):
                probe.move(cores[number % len(cores)])
                timed = probe.block(name, setting)
                if number:
                    times.setdefault(name, {}).setdefault(setting, []).append(timed)
    return times_of_probes


def _launches(probe: Probe) -> Times:
    """Return the launches of each training step, in the form of times.

    PyTorch's own profiler counts them, which nsys keeps from working.
    """
    launches: Times = {}
    for name, (counts, longest) in probe.launches().items():
        launches[LAUNCHES.format(name)] = {kind: [(count, 0.0)] for kind, count in counts.items()}
        launches[LONGEST.format(name)] = {TIGHT: [(longest, 0.0)]}
    return launches


def some_cores() -> list[int]:
    """Return some of the cores that we may use, from all over the machine."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[:: max(len(cores) // CORES, 1)][:CORES]
