"""Samples the host while a program runs: waits for a core and in calls, page faults, disk reads, quota, GPU clocks.

The samples come from files of the kernel that need no root, and from NVML. They are taken in our process, never in the
program. The pause after a sample is at least a hundred times as long as the sample: at most 1 % of one core.

The kernel shows the call of a thread that waits, with the descriptor; the descriptor's link says what it is. nsys
records the name of a call alone. Only the kind is kept, no path. Source: proc(5), ``syscall`` and ``fd``.
"""

import os
import platform
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from nsyswrap.capture import cpu_quota, nvml
from nsyswrap.capture.process_tree import descendants, is_alive, own_id, status_fields
from nsyswrap.capture.recorded_run import HOST_SCHEMA

PIPE, SOCKET, TERMINAL, FILE = "pipe", "socket", "terminal", "file"
_LINKS = (
    ("pipe:", PIPE),
    ("socket:", SOCKET),
    ("/dev/pts/", TERMINAL),
    ("/dev/tty", TERMINAL),
    ("/dev/console", TERMINAL),
)
# Numbers of read, write, readv and writev. Source: syscall_64.tbl and unistd.h of Linux.
_NUMBERS = {"x86_64": {0, 1, 19, 20}, "aarch64": {63, 64, 65, 66}}.get(platform.machine(), set())


PERIOD_S = 0.1
# The pause after a sample is at least this many times as long as the sample: at most 1 % of one core.
PAUSE_FACTOR = 100
# The processes of the program and the GPUs are looked up once in this many samples.
LOOK_UP_EVERY = 10
# NVML is sampled once in this many samples of the host: every 200 ms, about as often as the driver updates its values.
GPUS_EVERY = 2
# After this many samples the period doubles, so that the record of a long run stays small.
MANY_SAMPLES = 20_000
_STOP_TIMEOUT_S = 5.0


def what_blocks(process: int, thread: int) -> str | None:
    """Return what a thread reads from or writes to; None where it does neither, or where the kernel does not say."""
    try:
        with open(f"/proc/{process}/task/{thread}/syscall", encoding="ascii") as file:  # noqa: PTH123 - many times
            words = file.read().split()
        if len(words) < 2 or not words[0].isdecimal() or int(words[0]) not in _NUMBERS:  # noqa: PLR2004 - a descriptor
            return None
        link = os.readlink(f"/proc/{process}/fd/{int(words[1], 16)}")  # noqa: PTH115 - not followed
    except (OSError, ValueError):
        return None
    return next((kind for prefix, kind in _LINKS if link.startswith(prefix)), FILE)


@dataclass(slots=True)
class Series:
    """Rows of numbers without repetitions: of equal rows in succession, only the first and the last are kept.

    Attributes:
        at: Number of the sample of each row.
    """

    at: list[int] = field(default_factory=list)
    rows: list[tuple[int, ...]] = field(default_factory=list)
    _last: tuple[int, tuple[int, ...]] | None = None

    def add(self, sample: int, row: tuple[int, ...]) -> bool:
        """Add the values of one sample; return whether they differ from those before."""
        is_new = not self.rows or row != self.rows[-1]
        if is_new:
            if self._last is not None and self.at and self._last[0] > self.at[-1]:
                self._keep(*self._last)
            self._keep(sample, row)
        self._last = (sample, row)
        return is_new

    def columns(self, names: Iterable[str]) -> dict[str, list[int]]:
        """Return the rows as one list for each name, with the numbers of their samples under ``at``."""
        if self._last is not None and self._last[0] > self.at[-1]:
            self._keep(*self._last)
        return {"at": self.at, **{name: [row[place] for row in self.rows] for place, name in enumerate(names)}}

    def _keep(self, sample: int, row: tuple[int, ...]) -> None:
        self.at.append(sample)
        self.rows.append(row)


@dataclass(slots=True)
class _Thread:
    """One thread of the program: its ids in its own process namespace, its run time, and what blocked it.

    Attributes:
        waits: When it was found in a read or write, in ns of the monotonic clock, and on what.
    """

    process: int
    thread: int
    run: Series = field(default_factory=Series)
    waits: list[tuple[int, str]] = field(default_factory=list)


class HostMonitor:
    """Samples a program and the machine from its start to its end, in a thread of this process."""

    def __init__(self) -> None:
        # The clock of the wall may be set while the program runs; that of the capture runs on, and so does this one.
        self._epoch_ns = time.time_ns() - time.monotonic_ns()
        self._times: list[int] = []
        self._threads: dict[tuple[int, int], _Thread] = {}
        self._processes: dict[int, tuple[int, Series]] = {}
        self._throttled = Series()
        self._quota: cpu_quota.Quota | None = None
        self._cores: dict[str, int] = {}
        self._gpus: list[tuple[nvml.GpuReader, Series, Series]] = []
        self._living: list[int] = []
        self._spent_ns = 0
        self._over = threading.Event()
        self._worker: threading.Thread | None = None
        self._hangs = False

    def start(self, program: int) -> None:
        """Start sampling a process and its descendants; a second call does nothing."""
        if self._worker is None:
            self._worker = threading.Thread(target=self._sample_all, args=(program,), daemon=True)
            self._worker.start()

    def stop(self) -> None:
        """Take a last sample and stop; NVML may hang, and then there is no record."""
        self._over.set()
        if self._worker is not None:
            self._worker.join(_STOP_TIMEOUT_S)
            self._hangs = self._worker.is_alive()

    def record(self) -> dict[str, object] | None:
        """Return the samples as `host.json` keeps them; None where there are none, or where sampling hangs.

        Times are nanoseconds since 1970 (UTC), like the start of a capture, and never go back.
        """
        if not self._times or self._hangs:
            return None
        return {
            "schema": HOST_SCHEMA,
            "times_ns": self._times,
            "spent_ns": self._spent_ns,
            "cores": dict(self._cores),
            "quota_cores": self._quota.cores if self._quota else None,
            "throttled": self._throttled.columns(("count", "ns")) if self._quota else None,
            "threads": [
                {"process": each.process, "thread": each.thread, **each.run.columns(("on_cpu_ns", "delay_ns"))}
                for each in self._threads.values()
            ],
            "waits": [
                {
                    "process": each.process,
                    "thread": each.thread,
                    "at_ns": [self._epoch_ns + at for at, _ in each.waits],
                    "on": [kind for _, kind in each.waits],
                }
                for each in self._threads.values()
                if each.waits
            ],
            "processes": [
                {"process": own, **series.columns(("major_faults", "read_bytes", "written_bytes"))}
                for own, series in self._processes.values()
            ],
            "gpus": [
                {**reader.description, **series.columns(nvml.COLUMNS), "energy": energy.columns(("mj",))}
                for reader, series, energy in self._gpus
            ],
        }

    def _sample_all(self, program: int) -> None:
        """Sample until the end; what cannot be read is left out."""
        began = time.thread_time_ns()
        with nvml.readers() as gpus:
            self._gpus = [(each, Series(), Series()) for each in gpus]
            over, period = False, PERIOD_S
            while not over:
                over = self._over.is_set() or (bool(self._times) and not self._living)
                spent = -time.thread_time_ns()
                self._sample(program, len(self._times))
                spent += time.thread_time_ns()
                if len(self._times) % MANY_SAMPLES == 0:
                    period *= 2
                if not over:
                    self._over.wait(max(period, PAUSE_FACTOR * spent / 1e9))
        self._spent_ns = time.thread_time_ns() - began

    def _sample(self, program: int, number: int) -> None:
        if number % LOOK_UP_EVERY == 0:
            self._living = [each for each in (program, *descendants(program)) if is_alive(each)]
            self._cores = _cores(program) or self._cores
            self._quota = self._quota or cpu_quota.find_quota(program)
        self._times.append(self._epoch_ns + time.monotonic_ns())
        for process in self._living:
            self._sample_process(process, number)
        if self._quota is not None and (throttled := self._quota.throttled()) is not None:
            self._throttled.add(number, throttled)
        if number % GPUS_EVERY == 0:
            for reader, series, energy in self._gpus:
                if (state := reader.state()) is not None:
                    series.add(number, state)
                if (used := reader.energy_mj()) is not None:
                    energy.add(number, (used,))

    def _sample_process(self, process: int, number: int) -> None:
        """Add the run times of a process's threads, its page faults and its disk reads; it may end meanwhile."""
        with suppress(OSError, ValueError, IndexError):
            folder = f"/proc/{process}"
            for name in os.listdir(f"{folder}/task"):  # noqa: PTH208 - many times, and only the names
                text = _text(f"{folder}/task/{name}/schedstat").split()
                key = (process, int(name))
                if key not in self._threads:
                    own = _own_ids(f"{folder}/task/{name}/status")
                    self._threads[key] = _Thread(*own)
                thread = self._threads[key]
                # A thread that has not run since the sample before is no part of a loop.
                if thread.run.add(number, (int(text[0]), int(text[1]))):
                    at = time.monotonic_ns()
                    if (kind := what_blocks(process, int(name))) is not None:
                        thread.waits.append((at, kind))
        with suppress(OSError, ValueError, IndexError):
            if process not in self._processes:
                self._processes[process] = (_own_ids(f"/proc/{process}/status")[0], Series())
            # Page faults that read from disk. Source: proc(5), field 12 of stat.
            faults = int(_text(f"/proc/{process}/stat").rpartition(")")[2].split()[9])
            self._processes[process][1].add(number, (faults, *_disk_bytes(process)))


def _text(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123 - many small files, many times
        return file.read()


def _own_ids(status: str) -> tuple[int, int]:
    """Return process and thread id of a task in its own process namespace, as the capture has them."""
    fields = status_fields(status)
    return own_id(fields, "NStgid", "Tgid"), own_id(fields, "NSpid", "Pid")


def _disk_bytes(process: int) -> tuple[int, int]:
    """Return how many bytes a process read from and wrote to disk; zeros where the kernel does not say."""
    try:
        fields = dict(line.split(": ") for line in _text(f"/proc/{process}/io").splitlines())
    except OSError:
        return 0, 0
    return int(fields["read_bytes"]), int(fields["write_bytes"])


def _cores(process: int) -> dict[str, int]:
    """Return the cores of the machine and those that a process may use, with NUMA nodes and clocks where known."""
    try:
        allowed = os.sched_getaffinity(process)
    except OSError:
        return {}
    cores = {"machine": os.cpu_count() or len(allowed), "allowed": len(allowed)}
    nodes = {path.name for core in allowed for path in Path(f"/sys/devices/system/cpu/cpu{core}").glob("node[0-9]*")}
    if nodes:
        cores["numa_nodes"] = len(list(Path("/sys/devices/system/node").glob("node[0-9]*")))
        cores["allowed_numa_nodes"] = len(nodes)
    clock = Path(f"/sys/devices/system/cpu/cpu{min(allowed)}/cpufreq")
    for name, file in (("clock_limit_khz", "scaling_max_freq"), ("clock_maximum_khz", "cpuinfo_max_freq")):
        with suppress(OSError, ValueError):
            cores[name] = int((clock / file).read_text(encoding="ascii"))
    return cores
