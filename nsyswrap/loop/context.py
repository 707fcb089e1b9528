"""What every analysis is given and gives back: a context of one trace, and sections about one window of it."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from threading import RLock

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables
from nsyswrap.attribution.idle_sums import IdleSums
from nsyswrap.events.gpu_counters import CounterSamples, find_counter_samples
from nsyswrap.events.lost_events import SilentThread, silent_threads
from nsyswrap.events.operations import Operations, find_operations, launching_threads
from nsyswrap.events.python_stacks import SourceLines, find_lines
from nsyswrap.events.thread_states import ThreadStates, find_thread_states
from nsyswrap.hardware.kernel_names.user_rules import NameRule
from nsyswrap.intervals import Window
from nsyswrap.loop.phase_detection import PhaseRule, Phases, find_phases
from nsyswrap.loop.step_detection import Steps, find_steps
from nsyswrap.tables import Trace
from nsyswrap.what_if.dependency_graph import Replay
from nsyswrap.what_if.simulate import find_replay


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user may say about how a trace is read.

    Attributes:
        step_pattern: Regular expression of the ranges that are steps; empty for the usual spellings.
        phase_rules: Rules that come before the usual spellings of the phases.
        kernel_rules: Rules over kernel names that come before our own.
    """

    step_pattern: str = ""
    phase_rules: tuple[PhaseRule, ...] = ()
    kernel_rules: tuple[NameRule, ...] = ()


@dataclass(frozen=True)
class TraceContext:
    """A trace with what several analyses need of it, worked out once.

    Attributes:
        trace: The tables of one export.
        settings: What the user said about steps and phases.
        explaining: Held while idle time is explained, so that who needs its sums waits instead of doing it again.
        idle_sums: Idle time by cause of each device and window that was explained.
        claims: The same by the finding that each piece of idle time belongs to.
        root_lines: The lines of Python sampled in it, by the same findings.
    """

    trace: Trace
    settings: Settings = field(default_factory=Settings)
    explaining: AbstractContextManager[object] = field(default_factory=RLock)
    idle_sums: dict[tuple[int, Window], IdleSums] = field(default_factory=dict)
    claims: dict[tuple[int, Window], IdleSums] = field(default_factory=dict)
    root_lines: dict[tuple[int, Window], pd.DataFrame] = field(default_factory=dict)
    _asking: AbstractContextManager[object] = field(default_factory=RLock)
    _states: dict[Window, ThreadStates] = field(default_factory=dict)
    _replays: dict[Window, Replay] = field(default_factory=dict)

    def states(self, window: Window) -> ThreadStates:
        """Return what the threads do inside a window; that of the last window asked for is kept."""
        with self._asking:
            if window not in self._states:
                self._states.clear()
                self._states[window] = find_thread_states(self.trace, self.operations, window, self._threads())
            return self._states[window]

    def _threads(self) -> set[int]:
        """Return the threads that launch operations, the main threads, and the processes, for unknown launches."""
        launching = launching_threads(self.trace, self.operations)
        processes = tables.distinct(self.operations.process)
        return {*launching.tolist(), *processes.tolist(), *self.phases.main_thread.values()}

    def replay(self, window: Window) -> Replay:
        """Return the replay of a window, which says what a change would gain; made once."""
        with self.explaining:
            if window not in self._replays:
                self._replays[window] = find_replay(self, window)
            return self._replays[window]

    @cached_property
    def operations(self) -> Operations:
        """Return all that ran on the GPUs, joined to the calls that launched it."""
        return find_operations(self.trace)

    @cached_property
    def silences(self) -> list[SilentThread]:
        """Return the main threads whose calls were lost."""
        return silent_threads(self.trace, self.operations)

    @cached_property
    def readings(self) -> tuple[CounterSamples, ...]:
        """Return the samples of each GPU counter; nothing where none were taken."""
        return find_counter_samples(self.trace)

    @cached_property
    def lines(self) -> SourceLines:
        """Return the lines of Python that the sampled stacks stand for."""
        return find_lines(self.trace)

    @cached_property
    def steps(self) -> Steps:
        """Return the steps of the training loop."""
        return find_steps(self.trace, self.settings.step_pattern)

    @cached_property
    def phases(self) -> Phases:
        """Return the phase open on each thread at each time."""
        return find_phases(self.trace, self.steps, self.settings.phase_rules)

    @cached_property
    def phase_of_operations(self) -> npt.NDArray[np.int32]:
        """Return the code of the phase in which each operation was launched; -1 for none or an unknown launch."""
        return self.phases.of_operations(self.trace, self.operations)
