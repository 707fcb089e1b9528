"""The embedded engine: captures are read by processes of this machine, as many as its cores and its memory allow."""

import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from multiprocessing.connection import wait
from typing import NamedTuple

from nsyswrap.base.errors import ExportError
from nsyswrap.capture.cpu_quota import find_quota
from nsyswrap.many.memory import free_bytes
from nsyswrap.many.worker import LostProcessError, Worker

# A process may be killed by chance, as for what others take; a capture that ends its process each time is given up.
ATTEMPTS = 3
LOST = "the process that read it ended each time: it may need more memory"


class Lost(NamedTuple):
    """Why there is no answer."""

    reason: str


class ProcessLimits(NamedTuple):
    """What the processes may take.

    Attributes:
        processes: Largest number of processes.
        bytes: Largest memory of those that work at a time.
        limit_s: Longest time for one capture.
    """

    processes: int
    bytes: int
    limit_s: float


class _Running(NamedTuple):
    number: int
    need: int
    deadline: float


Answer = tuple[int, str | Lost]


def default_processes() -> int:
    """Return the number of cores that this process may use, at least one."""
    quota = find_quota(os.getpid())
    cores = len(os.sched_getaffinity(0))
    return max(min(cores, round(quota.cores) if quota else cores), 1)


def process_limits(processes: int | None, limit_s: float) -> ProcessLimits:
    """Return what processes on this machine may take: its cores, or as many as given, and its free memory."""
    return ProcessLimits(processes or default_processes(), free_bytes(), limit_s)


class Processes:
    """Answers tasks with processes of this machine.

    The largest tasks come first. A task whose process ended is tried again, alone: it may have lacked memory.

    Args:
        make: A function of a module; called once in each process, it returns the function that answers a task.
        limits: What they may take.
    """

    def __init__(self, make: Callable[[], Callable[..., object]], limits: ProcessLimits) -> None:
        self._make, self._limits = make, limits
        self._idle: list[Worker] = []
        self._running: dict[Worker, _Running] = {}
        self._waiting: list[tuple[int, int]] = []
        self._attempts: dict[int, int] = {}

    def answers(self, tasks: Sequence[object], needs: Sequence[int]) -> Generator[Answer, None, None]:
        """Yield the number of each task and its answer, as they come; or why there is none.

        Args:
            tasks: What can be pickled.
            needs: The memory that each takes, in bytes.
        """
        self._waiting = sorted(((need, number) for number, need in enumerate(needs)), reverse=True)
        try:
            while self._waiting or self._running:
                self._start(tasks)
                left = min(each.deadline for each in self._running.values()) - time.monotonic()
                ready = wait([worker.connection for worker in self._running], timeout=max(left, 0.0))
                for worker in [each for each in self._running if each.connection in ready]:
                    yield from self._answered(worker)
                yield from self._late()
        finally:
            for worker in (*self._idle, *self._running):
                worker.end(now=worker in self._running)

    def _start(self, tasks: Sequence[object]) -> None:
        """Start waiting tasks, as long as there are processes and memory for them; at least one."""
        while self._waiting and len(self._running) < self._limits.processes:
            free = self._limits.bytes - sum(each.need for each in self._running.values())
            fits = (at for at, (need, _) in enumerate(self._waiting) if need <= free or not self._running)
            at = next(fits, None)
            if at is None:
                return
            need, number = self._waiting.pop(at)
            worker = self._idle.pop() if self._idle else Worker(self._make)
            self._running[worker] = _Running(number, need, time.monotonic() + self._limits.limit_s)
            try:
                worker.send(tasks[number])
            except LostProcessError:
                continue  # Its connection is at its end, which the next wait finds.

    def _answered(self, worker: Worker) -> Iterator[Answer]:
        task = self._running.pop(worker)
        try:
            answer = worker.answer()
        except LostProcessError:
            worker.end(now=True)
            yield from self._again(task.number)
            return
        except BaseException:
            worker.end(now=True)
            raise
        self._idle.append(worker)
        if not isinstance(answer, str):
            raise ExportError(f"a process answered with a {type(answer).__name__}")
        yield task.number, answer

    def _again(self, number: int) -> Iterator[Answer]:
        """Let a task wait for all others and then run alone; give it up after the last attempt."""
        self._attempts[number] = self._attempts.get(number, 1) + 1
        if self._attempts[number] > ATTEMPTS:
            yield number, Lost(LOST)
        else:
            self._waiting.append((self._limits.bytes, number))

    def _late(self) -> Iterator[Answer]:
        """End the processes that take too long, and give up their tasks."""
        now = time.monotonic()
        for worker in [each for each, task in self._running.items() if task.deadline <= now]:
            task = self._running.pop(worker)
            worker.end(now=True)
            yield task.number, Lost(f"it took longer than {self._limits.limit_s:g} s (--limit)")
