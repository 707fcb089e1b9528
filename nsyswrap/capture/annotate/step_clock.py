# ruff: noqa: ANN401 - the modules of the program are not imported here
"""The clock of a run without nsys: the ranges that a profiler would record, timed by the program's own process.

NVTX ranges go to a profiler or nowhere. So the Python functions that open and close them are wrapped: those of
``torch.cuda.nvtx`` and of the package ``nvtx``, and nsyswrap's own marks. Only ranges that may be steps or passes are
kept. When the process ends, they are written to a file, which ``nsyswrap.capture.baseline`` reads.
"""

import functools
import itertools
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from .nvtx_calls import DOMAIN
from .stderr import write_whole

# The end of the name of the file that a process writes.
SUFFIX = ".ranges.json"

# A program that opens more ranges than this keeps only the first: 100 MB of memory at most.
MOST_RANGES = 400_000


class _Open(threading.local):
    """The open ranges of a thread, by domain: text and start of each, the innermost last."""

    def __init__(self) -> None:
        self.stacks: dict[str, list[tuple[str, int]]] = {}


class StepClock:
    """Times ranges. It has the methods of a ``Sink``, so it can take the place of a profiler.

    The pattern is searched in the texts of the program's own ranges.

    Attributes:
        domain: The domain of nsyswrap's own marks.
        ranges: Thread number, domain, text, start and end (ns) of each range that was closed.
    """

    domain = DOMAIN

    def __init__(self, pattern: str) -> None:
        self._matches = re.compile(pattern).search
        self._open = _Open()
        self._numbers = itertools.count(1)
        self._started: dict[int, tuple[int, str, str, int]] = {}
        self.ranges: list[tuple[int, str, str, int, int]] = []

    def push(self, text: str, domain: str = "") -> None:
        """Open a range on the calling thread."""
        self._open.stacks.setdefault(domain, []).append((text, time.perf_counter_ns()))

    def pop(self, domain: str = "") -> None:
        """Close the last opened range of the calling thread; do nothing where none is open."""
        ended = time.perf_counter_ns()
        stack = self._open.stacks.get(domain)
        if not stack:
            return
        text, began = stack.pop()
        if len(self.ranges) < MOST_RANGES and self._matches(text):
            self.ranges.append((threading.get_native_id(), domain, text, began, ended))

    def described(self, text: str, color: int) -> str:  # noqa: ARG002 - the signature of a sink
        """Return the text of a range of nsyswrap's domain."""
        return text

    def start(self, domain: str, described: str) -> int:
        """Start a range of a domain on the calling thread, and return its number."""
        number = next(self._numbers)
        self._started[number] = threading.get_native_id(), domain, described, time.perf_counter_ns()
        return number

    def steps(self) -> Iterator[str]:
        """Yield the texts of steps."""
        return map("step {}".format, itertools.count())

    def end(self, domain: str, number: int) -> None:  # noqa: ARG002 - the signature of a sink
        """End the range with a number."""
        ended = time.perf_counter_ns()
        found = self._started.pop(number, None)
        if found is not None and len(self.ranges) < MOST_RANGES:
            self.ranges.append((*found, ended))

    close = end

    def reset(self) -> None:
        """Forget everything in a forked process, whose ranges are its own."""
        self.ranges.clear()
        self._started.clear()
        self._open = _Open()

    def write(self, folder: str) -> None:
        """Write the ranges of this process to a file in the folder, if there are any."""
        if not self.ranges:
            return
        path = os.path.join(folder, f"{os.getpid()}{SUFFIX}")  # noqa: PTH118 - pathlib takes long to import
        found = {"pid": os.getpid(), "main_thread": threading.main_thread().native_id, "ranges": self.ranges}
        write_whole(path, found)


def watch_torch(nvtx: Any, clock: StepClock) -> None:
    """Time the ranges of ``torch.cuda.nvtx``."""
    push, pop = nvtx.range_push, nvtx.range_pop

    @functools.wraps(push)
    def timed_push(msg: str) -> Any:
        depth = push(msg)  # a build of torch without CUDA raises an error here
        clock.push(msg)
        return depth

    @functools.wraps(pop)
    def timed_pop() -> Any:
        clock.pop()
        return pop()

    nvtx.range_push, nvtx.range_pop = timed_push, timed_pop


def watch_nvtx(nvtx: Any, clock: StepClock) -> None:
    """Time the ranges of the package ``nvtx``: ``annotate``, ``push_range`` and ``pop_range``."""
    push, pop, timed = nvtx.push_range, nvtx.pop_range, _timed(nvtx.annotate, clock)

    @functools.wraps(push)
    def push_range(message: Any = None, *rest: Any, **named: Any) -> Any:
        clock.push(str(message or ""), _domain(rest, named))
        return push(message, *rest, **named)

    @functools.wraps(pop)
    def pop_range(domain: Any = None) -> Any:
        clock.pop(str(domain or ""))
        return pop(domain)

    for module in (nvtx, getattr(nvtx, "nvtx", nvtx)):
        module.push_range, module.pop_range, module.annotate = push_range, pop_range, timed


def _timed(annotate: Any, clock: StepClock) -> Any:
    """Return a subclass of the package's ``annotate`` that also times its ranges."""

    class Timed(annotate):  # type: ignore[misc]
        def __init__(self, message: Any = None, *rest: Any, **named: Any) -> None:
            super().__init__(message, *rest, **named)
            self._timed = str(message or ""), _domain(rest, named)

        def __enter__(self) -> Any:
            clock.push(*self._timed)
            return super().__enter__()

        def __exit__(self, *error: object) -> Any:
            clock.pop(self._timed[1])
            return super().__exit__(*error)

        def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
            inner, (text, domain) = super().__call__(function), self._timed

            @functools.wraps(function)
            def timed(*arguments: Any, **named: Any) -> Any:
                clock.push(text or function.__name__, domain)
                try:
                    return inner(*arguments, **named)
                finally:
                    clock.pop(domain)

            return timed

    return Timed


def _domain(rest: tuple[Any, ...], named: dict[str, Any]) -> str:
    """Return the domain among the arguments of the package's calls, where it follows the message and the colour."""
    return str((rest[1] if len(rest) > 1 else named.get("domain")) or "")
