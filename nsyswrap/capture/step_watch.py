"""Follows a program that records its own steps, from outside: where it is, and whether its recording is over.

A program that takes no step for two minutes is recorded from then on, by ``nsys start``: its loop has no marks.
"""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nsyswrap.capture.annotate.injection import Injection
from nsyswrap.capture.annotate.recording import ALONE, ENDED_PHASE, RECORDING, WARM_UP, XRAYING, Schedule
from nsyswrap.capture.process import output_of
from nsyswrap.capture.xray_file import write_steps_alone, write_xray

# How long a program may run without a step before it is recorded from outside, and the longest program that is run
# once more if it ended before it was recorded. One limit, so that every program is recorded.
PATIENCE_S = 120.0

_LOOK_S = 0.5
_START_TIMEOUT_S = 60.0

_ORDER = (WARM_UP, ALONE, RECORDING, XRAYING, ENDED_PHASE)


@dataclass(frozen=True, slots=True)
class StepState:
    """Where a program is that records its own steps.

    Attributes:
        phase: ``warm-up``, ``alone`` (timed, not recorded), ``recording``, ``x-ray`` or ``ended``.
        step: The number of the newest step; None where it is not known.
        per_s: Steps in a second; None where it is not known.
        left_s: Seconds until the phase ends; None where they are not known.
    """

    phase: str
    step: int | None = None
    per_s: float | None = None
    left_s: float | None = None


@dataclass(slots=True)
class StepWatch:
    """Looks at the files that the processes of a program write about their steps.

    Attributes:
        folder: The folder of the run, for the times of the steps alone: also a run that is killed has them.
        start: Returns the command that starts the recording, given the program's process id.
        env: The environment of that command.
        stop_after: Whether the program is to end when its recording has ended.
        on_state: Called when the phase or the step has changed.
        is_outside: Whether the recording was started from outside.
    """

    injection: Injection
    folder: Path
    start: Callable[[int], Sequence[str]]
    env: Mapping[str, str]
    stop_after: bool = False
    on_state: Callable[[StepState], None] = lambda _state: None
    is_outside: bool = field(default=False, init=False)
    _is_over: bool = field(default=False, init=False)
    _looked_at: float = field(default=0.0, init=False)
    _last: dict[str, tuple[int, int]] = field(default_factory=dict, init=False)
    _shown: StepState | None = field(default=None, init=False)

    def look(self, program: int, ran_s: float) -> None:
        """Look at the files, at most twice a second, and start the recording where the program takes no steps."""
        now = time.monotonic()
        if self._is_over or now - self._looked_at < _LOOK_S:
            return
        self._looked_at = now
        self._is_over = bool(self.injection.recorded()) and not self.injection.is_waiting
        if self._is_over:
            write_steps_alone(self.folder, self.injection.steps_alone())
            write_xray(self.folder, self.injection.xray())
        found = self.injection.progress()
        if found or self._is_over:
            if self._is_over:
                state = StepState(ENDED_PHASE)
            else:
                first = max(found, key=lambda each: (_ORDER.index(str(each["phase"])), _number(each, "step")))
                phase, step = str(first["phase"]), _number(first, "step")
                state = self._state(phase, step, _number(first, "at_ns"))
            if state != self._shown:
                self._shown = state
                self.on_state(state)
        # The first batch of a loader begins a step that nothing ends where weights are updated by hand.
        if self._is_over or ran_s <= PATIENCE_S or any(each.get("has_loop", True) for each in found):
            return
        if not self.injection.is_waiting and not self.injection.begun and self.injection.begin():
            self.is_outside = True
            # If nsys cannot be started, the program runs on, and what was not recorded is reported at its end.
            with contextlib.suppress(OSError, TimeoutError):
                output_of(self.start(program), timeout_s=_START_TIMEOUT_S, env=self.env)

    @property
    def stops_recording(self) -> bool:
        """Return whether nsys has to stop the recording: it was started from outside and is long enough."""
        return self.is_outside and self._is_over

    @property
    def ends_program(self) -> bool:
        """Return whether the program is to end."""
        return self.stop_after and self._is_over

    def _state(self, phase: str, step: int, at_ns: int) -> StepState:
        """Return the state with the pace of the steps since the phase began."""
        began = self._last.setdefault(phase, (step, at_ns))
        taken, taken_s = step - began[0], (at_ns - began[1]) / 1e9
        if taken <= 0 or taken_s <= 0:
            return StepState(phase, step)
        timed = phase in {ALONE, RECORDING} and self.injection.steps is not None
        left = Schedule(self.injection.steps or "").left_s(phase, step, taken, taken_s) if timed else None
        return StepState(phase, step, taken / taken_s, left)


def _number(values: Mapping[str, object], name: str) -> int:
    value = values.get(name)
    return value if isinstance(value, int) else 0
