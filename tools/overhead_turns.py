"""Let runs of a program take turns on the same cores, so that all have the pace that the machine has then.

All runs without the profiler are started at once, on cores of their own. When each is ready, one after the other moves
to the cores of the turns and makes its steps there, while nothing else does. A run under the profiler has one turn,
from the start of the program until its steps are recorded; the others have several, of a few seconds::

    fault             |steps|          |steps|
    fault, profiled         |recorded|
    fix                                       |steps|          |steps|
    fix, profiled                                   |recorded|

    python tools/overhead_turns.py SOCKET MODULE ARGUMENTS...            makes steps in turns
    python tools/overhead_turns.py SOCKET --once MODULE ARGUMENTS...     has one turn with all its steps

The program connects to the socket once it is ready, and reads a line with the numbers of cores for each turn. It
answers with a line: the lengths of its steps in ns. The step of a turn lasts from its start to the start of the next.
"""

import importlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

if TYPE_CHECKING:
    from nsyswrap.capture.process import Output

ROOT = Path(__file__).resolve().parent.parent
ONCE = "--once"
# A turn ends after so many steps, or after so much time and fewer steps.
MOST_STEPS, LEAST_STEPS, TURN_NS = 60, 10, 1_500_000_000
# All runs of a program with their turns, and a single turn.
LONGEST_S, LONGEST_TURN_S = 300, 60
POLL_S = 0.2
# The caches of a turn are filled, and the batches that were loaded during the pause are used up, in its first half.
SETTLED = 0.5


class Turns:
    """The turns in which this program makes its steps.

    Args:
        address: The socket of who lets the programs take turns.
    """

    def __init__(self, address: str) -> None:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(address)
            self._lines = connection.makefile("rw")  # keeps the connection open
        self._began = 0
        self._lengths: list[int] = []

    def wait(self) -> None:
        """Wait for the next turn, and move this process and those that it started to its cores.

        Raises:
            SystemExit: There is none.
        """
        line = self._lines.readline()
        if not line:
            raise SystemExit(0)
        cores = set(map(int, line.split()))
        for each in tasks_of(os.getpid()):
            with suppress(OSError):  # it has ended
                os.sched_setaffinity(each, cores)
        self._began, self._lengths = time.perf_counter_ns(), []

    def batch(
        self, unmarked: Callable[[int], AbstractContextManager[object]]
    ) -> Callable[[int], AbstractContextManager[object]]:
        """Return the range of a step that takes turns, in place of one that does not."""

        @contextmanager
        def in_turns(number: int) -> Iterator[object]:
            self._step()
            with unmarked(number) as found:
                yield found

        return in_turns

    def _step(self) -> None:
        """Begin a step, in the next turn if this one is over."""
        now = time.perf_counter_ns()
        if not self._began:
            self.wait()
            return
        self._lengths.append(now - self._began)
        self._began = now
        count = len(self._lengths)
        if count >= MOST_STEPS or (count >= LEAST_STEPS and sum(self._lengths) >= TURN_NS):
            self._lines.write(json.dumps(self._lengths) + "\n")
            self._lines.flush()
            self.wait()


def tasks_of(process: int) -> list[int]:
    """Return the threads of a process and of those that it started."""
    found = []
    for task in Path(f"/proc/{process}/task").glob("*"):
        found.append(int(task.name))
        with suppress(OSError):  # it has ended
            children = (task / "children").read_text().split()
            found += [each for child in children for each in tasks_of(int(child))]
    return found


def settled(lengths: Sequence[int]) -> list[int]:
    """Return the lengths of the later steps of a turn."""
    return list(lengths[int(SETTLED * len(lengths)) :])


class Run(NamedTuple):
    """A run of a program.

    Attributes:
        command: Its command, in which ``SOCKET`` stands for the address.
        is_late: Whether it starts with its first turn: a program that takes no step for minutes is recorded at once.
    """

    command: Sequence[str]
    is_late: bool = False


class _Started:
    """A run that has started."""

    def __init__(self, command: Sequence[str], pool: ThreadPoolExecutor, closing: ExitStack, ending: ExitStack) -> None:
        from nsyswrap.capture.process import output_of  # noqa: PLC0415 - not needed in the program that takes turns

        self._server, self._ending = closing.enter_context(socket.socket(socket.AF_UNIX)), ending
        self._server.bind("")  # the kernel chooses a name that is no file
        self._server.listen()
        self._server.settimeout(POLL_S)
        address = "@" + os.fsdecode(self._server.getsockname()[1:])
        words = [address if word == "SOCKET" else word for word in command]
        self.running: Future[Output] = pool.submit(output_of, words, timeout_s=LONGEST_S, cwd=ROOT / "workloads")

    @cached_property
    def lines(self) -> TextIO:
        """Return the lines to and from it, once it is ready.

        Raises:
            OSError: It ended.
        """
        while True:
            try:
                connection, _ = self._server.accept()
            except TimeoutError:
                if self.running.done():
                    done = self.running.result()
                    raise OSError(f"exit code {done.code}: {done.stderr[-600:]}") from None
                continue
            connection.settimeout(LONGEST_TURN_S)
            with connection:
                return self._ending.enter_context(connection.makefile("rw"))  # keeps it open

    def again(self, cores: Sequence[int], place: AbstractContextManager[object]) -> None:
        """Give it one more turn where it took no steps to record: `nsyswrap profile` runs it once more then."""
        with suppress(TimeoutError), self._server.accept()[0] as connection, place:
            _turn(connection.makefile("rw"), cores)


def take_turns(
    runs: Mapping[str, Run], order: Sequence[str], cores: Sequence[int], place: threading.Lock
) -> dict[str, list[list[int]]]:
    """Start runs of a program, let them take turns, and wait until all have ended.

    Returns:
        For each name, the settled steps of each of its turns, in ns.
    """
    found: dict[str, list[list[int]]] = {name: [] for name in runs}
    with ThreadPoolExecutor(len(runs)) as pool, ExitStack() as closing:
        with ExitStack() as ending:  # a closed connection ends a program

            def start(name: str) -> _Started:
                return _Started(runs[name].command, pool, closing, ending)

            started = {name: start(name) for name, run in runs.items() if not run.is_late}
            for each in started.values():
                _ = each.lines
            with place:
                for name in order:
                    started[name] = started.get(name) or start(name)
                    answer = _turn(started[name].lines, cores)
                    if answer:
                        found[name].append(settled(json.loads(answer)))
        while not all(each.running.done() for each in started.values()):
            for each in started.values():
                each.again(cores, place)
        for name, each in started.items():
            done = each.running.result()
            if done.code:
                raise OSError(f"{name}: exit code {done.code}: {done.stderr[-600:]}")
    return found


def _turn(lines: TextIO, cores: Sequence[int]) -> str:
    """Give a program its turn, and return its answer, which is empty where it has ended."""
    with suppress(OSError):  # it has ended
        lines.write(" ".join(map(str, cores)) + "\n")
        lines.flush()
        return lines.readline()
    return ""


def main() -> None:
    address, *words = sys.argv[1:]
    if address.startswith("@"):
        address = f"\0{address[1:]}"
    once = words[0] == ONCE
    module, *arguments = words[1:] if once else words
    sys.path[:0] = [str(ROOT / "workloads"), str(Path(__file__).parent)]
    common, program = importlib.import_module("common"), importlib.import_module(module)
    turns = Turns(address)
    if once:
        turns.wait()
    else:
        vars(common)["batch"] = turns.batch(common.batch)
    program.main(arguments)


if __name__ == "__main__":
    main()
