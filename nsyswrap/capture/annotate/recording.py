# ruff: noqa: ANN401, PTH110, PTH118, PTH208 - torch is not imported here; pathlib would be one more module in each process
"""Records some steps of a training loop: some pass, some are timed without being recorded, then the recording begins.

::

    step 0     3                          63                     163           165
    | warm-up | timed, nothing is recorded | recorded            | X-ray steps | nothing is recorded

The profiler waits for a range with the text ``record`` and records all processes of the program while it is open. What
is recorded slows a step down, also after the recording has ended, so the steps alone come first.

The processes of a program share a folder. The first one that has enough steps creates the file ``begun`` in it and
opens the range; the others see the file at their next step, and wait for the file ``going``. The file ``xray`` has the
number of the step that PyTorch itself observes, so that all take the same one. The file ``ended`` says that the range
is closed. A program that records when its user wants it waits for the file ``wanted``. The names of these files end in
the number of the recording, from 1.

At the end of the range nsys waits, for up to 30 s, until no process of the program uses its GPU. A rank that still
communicates would wait for the one that closes the range. So at the end of each X-ray step all wait for one another,
each with nothing left to do on its GPU, and go on when the range is closed.
"""

import json
import os
import time
from _thread import get_ident
from collections import deque
from collections.abc import Callable
from typing import Any

from .nvtx_calls import GRAY, Sink
from .stderr import warn, write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .marks import Marks
    from .xray import XRay

# The text of the range, in the domain of our other ranges.
TEXT = "record"
BEGUN, GOING, XRAYED, ENDED, WANTED = "begun", "going", "xray", "ended", "wanted"
# Ends of the names of the files with which processes say that they have come to the end of an X-ray step, and whether
# they want another one.
DONE, AGAIN = ".done", ".again"
# The schedule of a program that records when its user wants it.
LATER = "later"
# Ends of the names of a process's files: its steps alone, and what it does now.
ALONE_SUFFIX, PROGRESS_SUFFIX = ".alone", ".progress"
# The content of the file ``begun`` where nsyswrap itself has begun the recording, from outside.
FROM_OUTSIDE = "outside"

# The first steps allocate memory, choose algorithms and compile. NVIDIA's guide to profiling PyTorch skips some, and
# torch.profiler.schedule has its own ``wait`` and ``warmup`` for them; cuDNN's and cuBLAS's choices are made in the
# first step, CUDA graphs are captured by torch.compile in the second and the third.
WARM_UP_STEPS = 3

# The standard error of a median of n steps with the standard deviation s is 1.25 s / sqrt(n) (Kendall and Stuart, The
# Advanced Theory of Statistics, 10.13): 0.4 s for ten steps, 0.13 s for a hundred. A second covers what recurs more
# often than that; ten seconds are what a user waits.
LEAST_ALONE, LEAST_ALONE_NS = 10, 1_000_000_000
MOST_STEPS, MOST_NS = 100, 10_000_000_000
# Of long steps this many count, however long they take: the least from which a median tells one outlier. A recording of
# six holds five whole ones also where the program's own ranges are the steps and begin elsewhere.
FEWEST_ALONE, FEWEST_RECORDED = 3, 6

# A process says once a second where it is.
PROGRESS_NS = 1_000_000_000

# With nsys 2023.4.4 other processes begin to record a tenth of a second after the one that opens the range, and later
# where the cores are busy. So that all ranks of a node record the same steps, this one waits, and the others wait for
# it.
SPREAD_S = 0.5
# The host of a rank may be some steps ahead of another one's, as far as the queues of the GPUs reach.
AHEAD_STEPS = 4
# The longest time that processes wait for one another, and for nsys to end its recording. Ours.
MEET_S = 10.0
_LOOK_S = 0.002
NODE_VARIABLE = "LOCAL_WORLD_SIZE"

RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")

# Numbers of ranges that no profiler sees. Other ranges have 0, which is never ended.
STEP_OPEN, DATA_OPEN = -2, -1

WARM_UP, ALONE, RECORDING, XRAYING, ENDED_PHASE = "warm-up", "alone", "recording", "x-ray", "ended"


class Schedule:
    """Which steps are recorded.

    Args:
        text: A number of steps; ``FIRST:END`` for the steps from one number to before another; empty for as many as fit
            in ten seconds, from 6 to 100; ``later`` for none until the file ``wanted`` holds one of the others.
    """

    def __init__(self, text: str) -> None:
        self.waits = text == LATER
        text = "" if self.waits else text
        first, colon, end = text.partition(":")
        self.first = int(first) if colon else None
        self.count = int(end) - int(first) if colon else int(text) if text else None

    def begins(self, number: int, alone: int, alone_ns: int) -> bool:
        """Return whether the recording begins with a step."""
        if self.waits:
            return False
        if self.first is not None:
            return number >= self.first
        enough = alone >= LEAST_ALONE and alone_ns >= LEAST_ALONE_NS
        return enough or alone >= MOST_STEPS or (alone >= FEWEST_ALONE and alone_ns >= MOST_NS)

    def left_s(self, phase: str, number: int, taken: int, taken_s: float) -> "float | None":
        """Return the seconds until a phase ends, at the pace so far; None where only the user knows.

        The phase is ``ALONE`` or ``RECORDING``, and has taken at least one step.
        """
        each_s = taken_s / taken
        if self.waits and phase == ALONE:
            return None
        if phase == ALONE and self.first is not None:
            return (self.first - number) * each_s
        if phase == ALONE:
            left = max(LEAST_ALONE_NS / 1e9 - taken_s, (LEAST_ALONE - taken) * each_s)
            return max(min(left, MOST_NS / 1e9 - taken_s), 0.0)
        if self.count is not None:
            return (self.count - taken) * each_s
        return max(min((MOST_STEPS - taken) * each_s, MOST_NS / 1e9 - taken_s), 0.0)

    def ends(self, recorded: int, recorded_ns: int) -> bool:
        """Return whether the recording ends after so many steps, which took so long."""
        if self.count is not None:
            return recorded >= self.count
        return recorded >= MOST_STEPS or (recorded >= FEWEST_RECORDED and recorded_ns >= MOST_NS)


class CudaEvents:
    """Times steps on the GPU with CUDA events, which use neither the allocator nor random numbers."""

    def __init__(self, torch: Any) -> None:
        self._cuda = torch.cuda

    def mark(self) -> Any:
        """Record an event on the current stream, unless CUDA is not in use or a graph is being captured."""
        if not self._cuda.is_initialized() or self._cuda.is_current_stream_capturing():
            return None
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, pairs: "list[tuple[Any, Any]]") -> "list[int] | None":
        """Return the times between events in ns, once the last has passed; None where one is missing."""
        if not pairs or any(mark is None for pair in pairs for mark in pair):
            return None
        pairs[-1][1].synchronize()
        return [round(first.elapsed_time(last) * 1e6) for first, last in pairs]

    def wait(self) -> None:
        """Wait for the GPU, unless CUDA is not in use or a graph is being captured."""
        if self._cuda.is_initialized() and not self._cuda.is_current_stream_capturing():
            self._cuda.synchronize()


class Lap:
    """A step that is timed alone.

    Attributes:
        host_ns: The time from its start to that of the next one, by the host's clock.
        data_ns: The part of it in which the loader was waited for.
    """

    __slots__ = ("data_ns", "host_ns", "marks", "number")

    def __init__(self, number: int, host_ns: int, marks: "tuple[Any, Any]", data_ns: int) -> None:
        self.number, self.host_ns, self.marks, self.data_ns = number, host_ns, marks, data_ns


class Recording:
    """Decides at each step of this process whether it is timed, recorded, or neither.

    Until the recording begins, and after it has ended, the marks send their ranges here and not to the profiler.

    Args:
        marks: The marks of this process.
        sink: The profiler.
        schedule: Which steps are recorded.
        folder: The folder that the processes of the program share.
        gpu: Times steps on the GPU.
        sees_data: Whether the marks show when the loader is waited for.
        xray: Takes the X-ray step after those of the first recording; None for no such step.
        clock: Returns the time in ns.
    """

    def __init__(  # noqa: PLR0913 - what it connects
        self,
        marks: "Marks",
        sink: Sink,
        schedule: Schedule,
        folder: str,
        gpu: CudaEvents,
        *,
        sees_data: bool,
        xray: "XRay | None" = None,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._marks, self._sink, self._schedule, self._loop = marks, sink, schedule, marks.loop
        self._folder, self._round, self._waits = folder, 1, schedule.waits
        self._state, self._domain, self._start_recorded = marks.state, sink.domain, sink.start
        self._own = os.path.join(folder, str(os.getpid()))
        self._gpu, self._sees_data, self._clock = gpu, sees_data, clock
        self._described = sink.described(TEXT, GRAY)
        self._thread = self._alone_ns = self._data_began = self._data_ns = self._first = self._range = 0
        self._began = 0
        self._mark: Any = None
        self._is_whole = self._is_written = self._is_owner = False
        self._xray, self._after = xray, 0
        # Several processes have to know the number of the step before one of them begins it.
        self._ahead = AHEAD_STEPS if os.environ.get(NODE_VARIABLE, "1") != "1" else 0
        self._meetings = 0
        self._laps: deque[Lap] = deque(maxlen=MOST_STEPS)
        self._phase: Callable[[int, int, Any], int] = self._warm_up
        self._written_ns = 0
        self._name = WARM_UP
        marks.send_to(self._start, self._end, self.step, without_lines=True)

    def step(self, _domain: Any, described: Any) -> int:
        """Note that a step begins, where the one before has ended, and return the number of its range."""
        thread = get_ident()
        if thread != self._thread:
            if self._thread:
                return self._start_recorded(self._domain, described) if self._is_recorded else STEP_OPEN
            self._thread, self._state = thread, self._marks.state
        now = self._clock()
        try:
            return self._phase(now, self._state.steps, described)
        except Exception as error:  # noqa: BLE001 - no error here may end the program
            warn(f"no steps are recorded: {type(error).__name__}: {error}")
            return self._leave()

    @property
    def _is_recorded(self) -> bool:
        return self._name in {RECORDING, XRAYING}

    def write_alone(self) -> None:
        """Write the times of the steps alone to a file of this process, if there are any."""
        if self._is_written or not self._laps:
            return
        self._is_written = True
        laps = list(self._laps)
        try:
            gpu = self._gpu.between([lap.marks for lap in laps])
        except Exception:  # noqa: BLE001 - the marks are on several GPUs, or the GPU is gone
            gpu = None
        write_whole(
            f"{self._own}{ALONE_SUFFIX}",
            {
                "pid": os.getpid(),
                "rank": rank_of_process(),
                "first_step": laps[0].number,
                "host_ns": [lap.host_ns for lap in laps],
                "gpu_ns": gpu if gpu and min(gpu) > 0 else None,
                "data_ns": [lap.data_ns for lap in laps] if self._sees_data else None,
            },
        )

    def finish(self) -> None:
        """Write what is known at the end of the process."""
        self.write_alone()
        if self._phase == self._xrayed and self._name != ENDED_PHASE:
            if self._xray is not None:
                self._xray.end()
            if self._is_owner:
                self._write_ended()

    def leave(self) -> None:
        """Send all ranges to the profiler: in a forked process, which it does not follow."""
        self._is_written = True
        if self._phase == self._xrayed and self._xray is not None:
            self._xray.abandon()
        self._xray, self._is_owner = None, False
        self._marks.send_to(self._sink.start, self._sink.end)

    def _start(self, _domain: Any, described: Any) -> int:
        """Begin a range that is not recorded."""
        if self._name == ALONE and get_ident() == self._thread and self._marks.is_data(described):
            self._data_began = self._clock()
            return DATA_OPEN
        return 0

    def _end(self, _domain: Any, number: int) -> None:
        if number == STEP_OPEN:
            if get_ident() == self._thread:
                self._is_whole = True
        elif self._data_began:
            self._data_ns += self._clock() - self._data_began
            self._data_began = 0

    def _warm_up(self, now: int, number: int, described: Any) -> int:
        if self._exists(BEGUN):
            return self._follow(number, described)
        if number >= WARM_UP_STEPS or self._schedule.begins(number, 0, 0):
            self._name, self._phase = ALONE, self._alone
            return self._alone(now, number, described)
        return self._pass(now, number)

    def _alone(self, now: int, number: int, described: Any) -> int:
        """Time the step that has ended, and record the next one if these are enough."""
        if self._exists(BEGUN):  # the step that has ended was recorded in part
            return self._follow(number, described)
        mark = None if self._is_written else self._gpu.mark()
        if self._marks.loop != self._loop:  # other steps than those before
            self._loop, self._alone_ns = self._marks.loop, 0
            self._laps.clear()
        elif self._is_whole and self._began:
            self._alone_ns += now - self._began
            self._laps.append(Lap(number - 1, now - self._began, (self._mark, mark), self._data_ns))
        if self._waits and self._exists(WANTED):
            with open(self._path(WANTED), encoding="utf-8") as file:  # noqa: PTH123
                self._schedule = Schedule(file.read())
            return self._record(number, described)
        if self._schedule.begins(number, len(self._laps), self._alone_ns):
            return self._record(number, described)
        self._mark = mark
        self._pass(now, number)
        self._began = self._clock()
        return STEP_OPEN

    def _pass(self, now: int, number: int) -> int:
        """Let a step pass that is not recorded."""
        if now - self._written_ns >= PROGRESS_NS:
            self._tell(now, number)
        self._is_whole, self._data_ns, self._data_began = False, 0, 0
        return STEP_OPEN

    def _record(self, number: int, described: Any) -> int:
        """Begin the recording, unless another process has begun it."""
        self._first = number
        self.write_alone()
        try:
            os.close(os.open(self._path(BEGUN), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return self._follow(number, described)
        self._is_owner = True
        self._range = self._start_recorded(self._domain, self._described)
        if self._ahead:
            time.sleep(SPREAD_S)
            if self._schedule.count is not None:
                self._announce(number + self._schedule.count)
            self._touch(self._path(GOING))
        return self._go_on(number, described)

    def _follow(self, number: int, described: Any) -> int:
        """Send the ranges to the profiler, because another process has begun the recording."""
        self.write_alone()
        with open(self._path(BEGUN), encoding="utf-8") as file:  # noqa: PTH123
            self._is_owner = file.read() == FROM_OUTSIDE
        if self._ahead and not self._is_owner:
            _wait_for(lambda: self._exists(GOING), 4 * SPREAD_S)
        # Where the recording has begun from outside, it holds the warm-up, too.
        self._first = max(number, WARM_UP_STEPS) if self._is_owner else number
        return self._go_on(number, described)

    def _go_on(self, number: int, described: Any) -> int:
        self._marks.send_to(self._sink.start, self._sink.end, self.step)
        self._name, self._phase, self._began = RECORDING, self._recorded, self._clock()
        self._tell(self._began, number)
        return self._start_recorded(self._domain, described)

    def _recorded(self, now: int, number: int, described: Any) -> int:
        """Take the X-ray step when the recording is long enough, or end with the process that began the recording."""
        if not self._after:
            if not self._is_owner:
                if self._ahead and self._exists(XRAYED):
                    with open(self._path(XRAYED), encoding="utf-8") as file:  # noqa: PTH123
                        self._after = int(file.read() or 0)
            elif self._schedule.ends(number + self._ahead - self._first, now - self._began):
                self._announce(number + self._ahead)
        if 0 < self._after <= number:
            return self._take_xray(now, number, described)
        if not self._is_owner and self._exists(ENDED):
            return self._rest(now, number)
        if now - self._written_ns >= PROGRESS_NS:
            self._tell(now, number)
        return self._start_recorded(self._domain, described)

    def _announce(self, after: int) -> None:
        """Tell the other processes the number of the X-ray step."""
        self._after = after
        if self._ahead:
            with open(self._path(XRAYED), "w", encoding="utf-8") as file:  # noqa: PTH123
                file.write(str(after))

    def _take_xray(self, now: int, number: int, described: Any) -> int:
        """Take an X-ray step. Where there can be none, end the recording when the other processes have taken theirs."""
        if self._xray is not None and self._xray.begin(number):
            self._name, self._phase = XRAYING, self._xrayed
            self._tell(now, number)
            return self._start_recorded(self._domain, described)
        self._xray = None
        if not self._ahead:
            return self._end_recording(now, number)
        self._marks.send_to(self._start, self._end, self.step)
        self._phase = self._xrayed
        return STEP_OPEN

    def _xrayed(self, now: int, number: int, described: Any) -> int:
        """End an X-ray step, and take another one where this or another process wants one, or end the recording."""
        if self._xray is not None:
            self._xray.end()
        elif self._ahead:
            self._gpu.wait()
        if self._meet(again=self._xray is not None and self._xray.goes_on):
            return self._take_xray(now, number, described)
        self._xray = None
        return self._end_recording(now, number)

    def _meet(self, *, again: bool) -> bool:
        """Wait until all processes that take steps are here; return whether one of them wants another X-ray step."""
        self._meetings += 1
        number = f".{self._round}.{self._meetings}"
        self._touch(f"{self._own}{number}{AGAIN if again else DONE}")

        def here() -> "list[str]":
            return [each for each in os.listdir(self._folder) if each.endswith((number + AGAIN, number + DONE))]

        def all_are() -> bool:
            return len(here()) >= sum(each.endswith(PROGRESS_SUFFIX) for each in os.listdir(self._folder))

        if self._ahead:
            _wait_for(all_are, MEET_S)
        return any(each.endswith(AGAIN) for each in here())

    def _end_recording(self, now: int, number: int) -> int:
        """Let the profiler record nothing any more, if this process has begun the recording."""
        if self._is_owner:
            if self._range:
                self._sink.close(self._domain, self._range)
            self._write_ended()
        elif self._ahead:
            _wait_for(lambda: self._exists(ENDED), MEET_S)
        return self._rest(now, number)

    def _write_ended(self) -> None:
        text = json.dumps({"first": self._first, "last": self._after - 1})
        with open(self._path(ENDED), "x", encoding="utf-8") as file:  # noqa: PTH123
            file.write(text)

    def _rest(self, now: int, number: int) -> int:
        """Wait for the next recording, where the user may want one; else record nothing any more."""
        if not self._waits:
            return self._leave()
        self._round, self._schedule = self._round + 1, Schedule(LATER)
        self._range, self._is_owner, self._name, self._phase = 0, False, ALONE, self._alone
        self._xray, self._after, self._meetings = None, 0, 0
        self._marks.send_to(self._start, self._end, self.step, without_lines=True)
        self._laps.clear()
        self._mark, self._began = None, 0
        return self._pass(now, number)

    def _path(self, name: str) -> str:
        """Return a file that all processes of the program share."""
        return os.path.join(self._folder, f"{name}.{self._round}")

    def _exists(self, name: str) -> bool:
        return os.path.exists(self._path(name))

    def _touch(self, path: str) -> None:
        """Create an empty file."""
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))

    def _leave(self) -> int:
        """Record nothing any more."""
        if self._phase == self._xrayed and self._xray is not None:  # after an error
            self._xray.end()
        self._name = ENDED_PHASE
        self._marks.send_to(_ignore, _ignore, lambda _domain, _described: STEP_OPEN, without_lines=True)
        write_whole(f"{self._own}{PROGRESS_SUFFIX}", {"phase": self._name})
        return STEP_OPEN

    def _tell(self, now: int, number: int) -> None:
        """Write where this process is."""
        self._written_ns = now
        where = {"phase": self._name, "step": number, "first": self._first, "at_ns": now}
        has_loop = number > 0 or self._marks.has_loop
        write_whole(f"{self._own}{PROGRESS_SUFFIX}", {**where, "has_loop": has_loop})


def rank_of_process() -> "int | None":
    """Return the rank of this process; None in a program without ranks."""
    return next((int(os.environ[name]) for name in RANK_VARIABLES if os.environ.get(name, "").isdecimal()), None)


def _wait_for(is_so: "Callable[[], bool]", most_s: float) -> None:
    """Wait until something is so, but no longer than some seconds."""
    until = time.monotonic() + most_s
    while not is_so() and time.monotonic() < until:
        time.sleep(_LOOK_S)


def _ignore(_domain: Any, _what: Any) -> int:
    """Begin or end no range."""
    return 0
