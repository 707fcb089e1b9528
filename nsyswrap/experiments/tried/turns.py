"""Times a program's steps with and without a change, in turns, in one process.

::

    step     1 ... 12 | 13 ... 40      | ...                                                     |
    setting  as it is | changed        | changed | as it is | as it is | changed | changed | ... | the better one
             warm-up  | its own warm-up|       pair 1       |       pair 2       |

The first steps after each switch are left out. A ratio is the time with the change over the time without it, of one
pair; its logarithm has an interval from Student's t over pairs. The steps go on as the program's own: each is run once.
"""

import contextlib
import functools
import itertools
import math
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from ..changes import experiments
from .experiment import Experiment, NotApplicableError, Undo, parts_of, spec_of
from .program import TriedProgram

_STEP = "step"
# Steps before anything is timed, and steps left out after each switch, or this part of a block. Source: ours.
WARM_UP_STEPS, SETTLING_STEPS, SETTLING_PART = 10, 3, 5
FEWEST_STEPS, MOST_STEPS = 5, 200
# The change has settled when no step of a block takes longer than so many medians. Source: ours.
SETTLED_FACTOR = 3.0
# Steps that are timed alone may end once the standard error of their mean is such a share of it: two processes differ
# by more. They take at least such a part of the time, since clocks rise at first. Source: ours.
KNOWN_SHARE, LEAST_TIMED_SHARE, ERROR_BLOCKS = 0.002, 1 / 3, 10
# Tuning all kernels of a large model takes minutes. Source: ours.
COMPILES_LONGER = 5
MOST_WARM_BLOCKS = 8
# A change is worth keeping from this share of a step on, as in the plan.
LEAST_SHARE = 0.01
# A loop that waits for its loaders for this share of a step may be limited by them. Source: ours.
LOADER_SHARE = 0.1
# The change that a loop that waits for its loaders needs first.
WORKERS = "workers"
# All changes that were kept, together.
SET = "all"
# Between the changes of a pair; so many pairs are tried at most. Source: ours.
JOINED, MOST_PAIRS = "+", 6
FASTER, SLOWER, SAME, CANNOT_TELL = "faster", "slower", "no difference", "cannot tell"

Steps = Iterator[None]
Pair = tuple[tuple[Experiment, str], ...]
Blocks = Any  # a generator that yields at each step and returns the times of steps
_KIB = 1024


def _children() -> Iterator[str]:
    """Yield the ids of the processes that this one has started."""
    own = os.getpid()
    for task in os.listdir(f"/proc/{own}/task"):  # noqa: PTH208
        try:
            with open(f"/proc/{own}/task/{task}/children", encoding="ascii") as file:  # noqa: PTH123
                yield from file.read().split()
        except OSError:  # it has ended
            continue


def used_cpu_s() -> float:
    """Return the CPU time of this process and of those that it has started so far, in s."""
    used, ticks = time.process_time(), os.sysconf("SC_CLK_TCK")
    for each in _children():
        try:
            with open(f"/proc/{each}/stat", encoding="utf-8") as file:  # noqa: PTH123
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        used += (int(fields[11]) + int(fields[12])) / ticks  # utime and stime, see man proc
    return used


def worker_bytes() -> int:
    """Return the memory of the processes that this one has started; what they share counts in parts."""
    whole = 0
    for each in _children():
        try:
            with open(f"/proc/{each}/smaps_rollup", encoding="ascii") as file:  # noqa: PTH123
                whole += sum(int(line.split()[1]) * _KIB for line in file if line.startswith("Pss:"))
        except OSError:
            continue
    return whole


class TurnClock:
    """Takes the time at the ends of steps: on the GPU where the program uses one, so that nothing waits for it."""

    def __init__(self, torch: Any, *, is_of_gpu: bool) -> None:
        self._torch, self._is_of_gpu = torch, is_of_gpu

    def now(self) -> Any:
        """Return the present moment, in the order of the work of the GPU."""
        if not self._is_of_gpu:
            return time.perf_counter_ns()
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, moments: list[Any]) -> list[float]:
        """Return the times between successive moments, in ns; wait until the GPU has reached the last one."""
        if not self._is_of_gpu:
            return [float(after - before) for before, after in itertools.pairwise(moments)]
        moments[-1].synchronize()
        return [before.elapsed_time(after) * 1e6 for before, after in itertools.pairwise(moments)]


class Turns:
    """Takes turns at the ends of the program's steps. It has the methods of a ``Sink`` of marks.

    The request is that of ``nsyswrap.experiments.request``. ``note`` keeps an event, ``end`` ends the process.
    """

    domain = "nsyswrap"

    def __init__(self, request: dict[str, Any], note: Callable[..., object], end: Callable[[], object]) -> None:
        self._request, self._note, self._end = request, note, end
        self._process = os.getpid()
        self._thread = 0
        self._schedule: Steps | None = None
        self._began, self._usual_ns, self._block = time.perf_counter(), 0.0, FEWEST_STEPS
        self.program: TriedProgram | None = None
        self._kept: list[_Turn] = []
        self._same: set[str] = set()
        self._trying, self._last_s = "", time.monotonic()
        self._needs_workers = False

    def described(self, text: str, color: int) -> str:  # noqa: ARG002 - the signature of a sink
        """Return what describes other ranges than steps."""
        return text

    def steps(self) -> Iterator[str]:
        """Yield what describes steps."""
        return itertools.repeat(_STEP)

    def start(self, _domain: str, described: str) -> int:
        """Note that a step begins, where the one before has ended; other ranges have no number."""
        if described is not _STEP or self.program is None or os.getpid() != self._process:
            return 0
        self._thread = self._thread or threading.get_ident()
        if self._thread == threading.get_ident():
            self._step()
        return 1

    def end(self, domain: str, number: int) -> None:
        """Do nothing: the next step begins where one ends."""

    close = end

    def _step(self) -> None:
        self._last_s = time.monotonic()
        if self._schedule is None:
            self._schedule = self._run()
            with contextlib.suppress(RuntimeError):  # Python 3.12 starts no thread while the process ends
                threading.Thread(target=self._watch, daemon=True, name="nsyswrap-try").start()
        try:
            next(self._schedule)
        except StopIteration:
            self._schedule = itertools.repeat(None)
            self._note("end")
            self._end()
        except Exception as error:  # noqa: BLE001 - an error of ours must not look like one of the program
            self._note("error", words=f"{type(error).__name__}: {error}")
            self._end()

    def _watch(self) -> None:
        """End the process where a change keeps the program from its next step; what compiles may take longer."""
        while True:
            time.sleep(1.0)
            limit_s = self._request["hang_s"] * (COMPILES_LONGER if "compile" in self._trying else 1)
            if self._trying and time.monotonic() - self._last_s > limit_s:
                self._note("exception", words=f"no step for {limit_s:g} s")
                self._end()

    def _run(self) -> Steps:
        """Run the whole schedule; it goes on by one step at each ``next``."""
        program = self._program
        program.observe()
        for number in range(WARM_UP_STEPS):
            if number == WARM_UP_STEPS // 2:
                program.note_memory()
            yield
        program.note_memory()
        program.leave()
        self._clock = TurnClock(program.torch, is_of_gpu=program.uses_gpu)
        proved = self._request["proved_steps"]
        for spec in self._request["base"]:
            key, value = parts_of(spec)
            switch = experiments()[key].switch
            if switch is not None:
                switch(self._program, value)
                self._note("made", spec=spec)
            for _ in range(WARM_UP_STEPS if switch is not None and not proved else 0):
                yield
        if proved:
            self._note("ready", workers=max((each.num_workers for each in program.loaders), default=0))
            yield from itertools.repeat(None, proved - WARM_UP_STEPS)
            return
        yield from self._get_ready()
        if self._request["timed_s"]:
            yield from self.time_alone(self._clock)
        if self._needs_workers:
            return
        yield from self.try_all(self._clock, self._usual_ns)

    def try_all(self, clock: TurnClock, usual_ns: float) -> Steps:
        """Try each change, then pairs of those that bring nothing alone, then all that were kept."""
        self._clock, self._usual_ns = clock, usual_ns
        found = self._applicable(self._request["turns"]) if self._program.ranks == 1 else []
        candidates = [each for each in found if spec_of(each[0].key, each[1]) not in self._request["without"]]
        self._note("candidates", specs=[spec_of(each.key, value) for each, value in candidates])
        for place, (experiment, value) in enumerate(candidates):
            # The last part of the time is for pairs, and for all changes together.
            yield from self._try(experiment, value, self._left_s / (len(candidates) - place + 1))
        for pair in self._hidden_pairs(candidates):
            text = JOINED.join(spec_of(each.key, value) for each, value in pair)
            yield from self._try(_combined(text, functools.partial(self._set_both, pair)), "", self._left_s / 2)
        if len(self._kept) > 1:
            yield from self._try(_combined(SET, self._set_all), "", self._left_s)

    def _hidden_pairs(self, candidates: list[tuple[Experiment, str]]) -> Iterator[Pair]:
        """Yield pairs of changes that bring nothing alone, as long as there is time.

        A CPU and a GPU that take equally long hide each other: only both changes together save time.
        """
        rest = [each for each in candidates if spec_of(each[0].key, each[1]) in self._same]
        pairs = [pair for pair in itertools.combinations(rest, 2) if pair[0][0].key != pair[1][0].key]
        for pair in pairs[:MOST_PAIRS]:
            known = {part for each in self._kept for part in each.spec.split(JOINED)}
            if self._left_s > 0 and not known & {spec_of(each.key, value) for each, value in pair}:
                yield pair

    def _set_both(self, pair: Pair, program: TriedProgram, _value: str) -> Undo:
        undo = [experiment.switch(program, value) for experiment, value in pair if experiment.switch is not None]
        return lambda: [each() for each in reversed(undo)]

    def _set_all(self, _program: TriedProgram, _value: str) -> Undo:
        """Make all changes that were kept, in their order."""
        kept = list(self._kept)
        for each in kept:
            each.set_to(is_on=True)
        return lambda: [each.set_to(is_on=False) for each in reversed(kept)]

    def _get_ready(self) -> Steps:
        """Find the usual length of a step, and the share of it that the loop waits for its loaders."""
        program = self._program
        for _ in range(self._settling):
            yield
        loading, began = program.loading_ns, time.perf_counter_ns()
        lengths = yield from self._measured(FEWEST_STEPS, 0)
        # All ranks go on in the same way, or they would wait for one another.
        share = program.agreed((program.loading_ns - loading) / (time.perf_counter_ns() - began))
        self._usual_ns = program.agreed(statistics.median(lengths))
        # Ranks judge by their own times, so they would switch at different steps: each change gets a process.
        wanted = [*self._request["processes"], *(self._request["turns"] if program.ranks > 1 else ())]
        others = [spec_of(each.key, value) for each, value in self._applicable(wanted)]
        may_have_others = any(parts_of(each)[0] == WORKERS for each in others)
        self._needs_workers = share >= LOADER_SHARE and self._request["is_for_loader"] and may_have_others
        workers = max((each.num_workers for each in program.loaders), default=0)
        names = [type(each).__name__ for each in program.models]
        self._note(
            "ready", step_ns=self._usual_ns, models=names, loader_share=share, needs_workers=self._needs_workers,
            workers=workers, cores=program.cores, processes=others,
        )  # fmt: skip

    def time_alone(self, clock: TurnClock) -> Steps:
        """Note the times of steps without turns, and what the processes of the program use meanwhile.

        Batches come in bursts, one of each worker, so a few steps do not say how many fill the time. Once their mean is
        known well they end, unless workers start again in each epoch, which a short time may miss.
        """
        self._clock = clock
        before, lengths, count, most_s = used_cpu_s(), list[float](), 2 * FEWEST_STEPS, self._request["timed_s"]
        has_epochs = any(each.num_workers and not each.persistent_workers for each in self._program.loaders)
        while count:
            lengths += yield from self._measured(count, 0, with_epochs=True)
            spent_s = self._program.agreed(sum(lengths)) / 1e9
            error = self._program.agreed(standard_error(lengths))
            enough_s = most_s if has_epochs or error > KNOWN_SHARE else LEAST_TIMED_SHARE * most_s
            wanted = math.ceil(len(lengths) * (enough_s / spent_s - 1))
            # At most as many again as so far.
            count = max(min(wanted, len(lengths), 10 * MOST_STEPS - len(lengths)), 0)
        cores = (used_cpu_s() - before) / (sum(lengths) / 1e9)
        losses = [float(each) for each in self._program.losses]
        since_s = time.perf_counter() - self._began
        self._note(
            "timed", step_ns=lengths, losses=losses, cores=cores, worker_bytes=worker_bytes(), since_s=since_s
        )  # fmt: skip

    @property
    def _program(self) -> TriedProgram:
        if self.program is None:
            raise RuntimeError("a step began before torch was imported")
        return self.program

    @property
    def _left_s(self) -> float:
        """Return the seconds that are left of the budget."""
        left: float = self._request["budget_s"] - (time.perf_counter() - self._began)
        return left

    @property
    def _settling(self) -> int:
        """Return how many steps to leave out after a switch: as many as batches may be loaded ahead."""
        ahead = [each.num_workers * (each.prefetch_factor or 0) for each in self._program.loaders]
        return SETTLING_STEPS + max(ahead, default=0)

    def _applicable(self, texts: list[str]) -> list[tuple[Experiment, str]]:
        """Return the experiments that apply to the program, with their values; note why the others do not."""
        found, known = [], experiments()
        for wanted in texts:
            key, only = parts_of(wanted)
            try:
                values = known[key].values(self._program)
            except NotApplicableError as error:
                self._note("result", spec=wanted, verdict="does not apply", words=str(error))
                continue
            found += [(known[key], value) for value in values if not only or value == only]
        return found

    def _measured(self, count: int, settling: int, *, with_epochs: bool = False) -> Blocks:
        """Return the times of so many steps, in ns, after some that are left out; yield at each step.

        Steps in which a loader begins are left out, as far as there are others: they hold evaluations and the ends of
        epochs. They count where the loader itself is changed.
        """
        for _ in range(settling):
            yield
        program, moments, kept = self._program, [self._clock.now()], list[bool]()
        program.is_new_epoch = False
        while sum(kept) < count and len(kept) < 2 * count:
            yield
            moments.append(self._clock.now())
            kept.append(with_epochs or not program.is_new_epoch)
            program.is_new_epoch = False
        lengths = self._clock.between(moments)
        return list(itertools.compress(lengths, kept)) or lengths

    def _try(self, experiment: Experiment, value: str, allowed_s: float) -> Steps:
        """Try a change in turns, note the result, and keep the change where it is worth it."""
        spec, until = spec_of(experiment.key, value), time.perf_counter() + allowed_s
        block_s = min(self._request["block_s"], allowed_s / (2 * self._request["looks"][-2]))
        self._block = _steps_in(block_s, self._usual_ns)
        self._note("begin", spec=spec)
        self._trying = spec
        began = time.perf_counter_ns()
        try:
            undo = self._switched(experiment, value)
        except Exception as error:  # noqa: BLE001 - what it raises is the result
            self._note("result", spec=spec, verdict="failed", words=f"{type(error).__name__}: {error}")
            self._trying = ""
            return
        warm, changed_ns = yield from self._warm(time.perf_counter_ns() - began, until)
        # Steps that become much shorter need more of them to be timed as well.
        blocks = {False: self._block, True: _steps_in(block_s, changed_ns)}
        turns = _Turn(self, experiment, value, undo)
        logs, pairs, verdict = list[float](), list[tuple[float, float]](), CANNOT_TELL
        limits: list[float] = self._request["limits"]
        looks: list[int] = self._request["looks"]
        while len(logs) < looks[-1] and (time.perf_counter() < until or len(logs) < looks[0]):
            is_first_on = len(logs) % 2 == 0
            times = {}
            for is_on in (is_first_on, not is_first_on):
                settling = max(self._settling, blocks[is_on] // SETTLING_PART) if turns.set_to(is_on=is_on) else 0
                times[is_on] = statistics.fmean((yield from self._measured(blocks[is_on], settling)))
            pairs.append((times[False], times[True]))
            logs.append(math.log(times[True] / times[False]))
            if len(logs) in looks and (verdict := judged(logs, limits[len(logs)])) is not CANNOT_TELL:
                break
        mean, reach = interval(logs, limits[len(logs)])
        is_kept = verdict is FASTER and mean <= math.log1p(-LEAST_SHARE)
        turns.set_to(is_on=is_kept)
        self._kept += [turns] if is_kept else []
        if verdict is SAME:
            self._same.add(spec)
        self._note("pairs", spec=spec, ns=pairs)
        before, after = (statistics.fmean(each) for each in zip(*pairs, strict=True))
        self._trying = ""
        self._usual_ns = after if is_kept else before
        extra = sum(warm) - len(warm) * after
        self._note(
            "result", spec=spec, verdict=verdict, kept=is_kept, pairs=len(logs), ratio=math.exp(mean),
            low=math.exp(mean - reach), high=math.exp(mean + reach), before_ns=before, after_ns=after,
            start_ns=max(extra, 0.0),
        )  # fmt: skip

    def _warm(self, switching_ns: float, until: float) -> Blocks:
        """Return the times until a change has settled, the first one with its switch, and a usual step then, in ns."""
        times = yield from self._measured(FEWEST_STEPS, 0)
        times[0] += switching_ns
        for _ in range(MOST_WARM_BLOCKS):
            block = yield from self._measured(max(self._block // 2, FEWEST_STEPS), 0)
            if max(block) <= SETTLED_FACTOR * statistics.median(block) or time.perf_counter() > until:
                break
            times += block
        return times, statistics.median(block)

    def _switched(self, experiment: Experiment, value: str) -> Undo:
        if experiment.switch is None:
            raise RuntimeError(f"{experiment.key} cannot be changed in a process")
        return experiment.switch(self._program, value)


class _Turn:
    """A change that is on or off.

    ``undo`` undoes it; it is on.
    """

    def __init__(self, turns: Turns, experiment: Experiment, value: str, undo: Undo) -> None:
        self._turns, self._experiment, self._value = turns, experiment, value
        self._undo: Undo | None = undo
        self.spec = spec_of(experiment.key, value)

    def set_to(self, *, is_on: bool) -> bool:
        """Make or undo the change; return whether that was necessary."""
        if is_on == (self._undo is not None):
            return False
        if self._undo is not None:
            self._undo()
            self._undo = None
        else:
            self._undo = self._turns._switched(self._experiment, self._value)  # noqa: SLF001
        return True


def _steps_in(block_s: float, step_ns: float) -> int:
    return min(max(math.ceil(1e9 * block_s / step_ns), FEWEST_STEPS), MOST_STEPS)


def _combined(key: str, switch: Callable[[TriedProgram, str], Undo]) -> Experiment:
    """Return an experiment that makes several changes at once."""
    return Experiment(key=key, place=0, name=key, alters="", values=lambda _program: (), switch=switch)


def standard_error(lengths: list[float]) -> float:
    """Return the standard error of the mean of neighbouring steps, as a share of it, from the means of ten blocks."""
    size = len(lengths) // ERROR_BLOCKS
    means = [statistics.fmean(lengths[at * size : (at + 1) * size]) for at in range(ERROR_BLOCKS)]
    return statistics.stdev(means) / math.sqrt(ERROR_BLOCKS) / statistics.fmean(means)


def interval(logs: list[float], limit: float) -> tuple[float, float]:
    """Return the mean of the logarithms of ratios, and half of its interval; infinite for one pair.

    The limit is the quantile of Student's t for so many pairs.
    """
    mean = statistics.fmean(logs)
    return mean, limit * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.inf


def judged(logs: list[float], limit: float) -> str:
    """Judge a change by the logarithms of its ratios; see ``verdict_of``."""
    return verdict_of(*interval(logs, limit))


def verdict_of(mean: float, reach: float) -> str:
    """Return whether a change is faster, slower, or makes no difference of 1 %; else "cannot tell".

    A change counts as faster or slower where its interval lies on one side, and is narrow enough to compare changes:
    half of it is at most half of the time that one of both saves, as shares of the longer step. ``mean`` is the
    logarithm of the ratio of step times, ``reach`` half of its interval.
    """
    if abs(mean) + reach < LEAST_SHARE:
        return SAME
    if 2 * math.sinh(reach) <= math.expm1(abs(mean)):
        return FASTER if mean < 0 else SLOWER
    return CANNOT_TELL
