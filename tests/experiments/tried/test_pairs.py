"""Turns on a clock that is made up: two changes that hide each other are found together, and bursts of steps timed."""

import itertools
from collections.abc import Callable
from statistics import fmean
from typing import Any

import pytest

from nsyswrap.experiments.changes import experiments
from nsyswrap.experiments.outcome import kept_of, outcomes_of
from nsyswrap.experiments.tried import turns
from nsyswrap.experiments.tried.experiment import NOTHING, Experiment, Undo
from nsyswrap.experiments.tried.program import TriedProgram


class Steps:
    """A program whose step is the longer one of what its CPU and its GPU take, in ns."""

    def __init__(self) -> None:
        self.cpu = self.gpu = 1e7
        self.now_ns = 0.0

    def now(self) -> float:
        """Return the present moment."""
        return self.now_ns

    def between(self, moments: list[float]) -> list[float]:
        return [after - before for before, after in itertools.pairwise(moments)]

    def switch(self, part: str) -> Callable[[TriedProgram, str], Undo]:
        """Return the change that halves a part."""

        def make(_program: TriedProgram, _value: str) -> Undo:
            before = getattr(self, part)
            setattr(self, part, before / 2)
            return lambda: setattr(self, part, before)

        return make


class Restarting:
    """A loader that starts its workers again in each epoch."""

    num_workers, persistent_workers = 2, False


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return what is noted where "gc" halves the work of the CPU, and "tf32" that of the GPU."""
    steps, noted = Steps(), list[dict[str, Any]]()
    known = {
        key: Experiment(
            key=key, place=0, name=key, alters=NOTHING, values=lambda _program: [""],
            switch=steps.switch(part),
        )
        for key, part in (("gc", "cpu"), ("tf32", "gpu"))
    }  # fmt: skip
    monkeypatch.setattr(turns, "experiments", lambda: known)
    request = {"turns": ["gc", "tf32"], "without": [], "budget_s": 60.0, "block_s": 0.1}
    request |= {"looks": [4, 6, 9], "limits": [0.0, 0.0, *[4.0] * 20]}
    taken = turns.Turns(request, lambda event, **fields: noted.append({"event": event, **fields}), lambda: None)
    taken.program = program = TriedProgram(None)
    monkeypatch.setattr(TriedProgram, "ranks", property(lambda _self: 1))
    assert not program.loaders
    schedule = taken.try_all(steps, 1e7)  # type: ignore[arg-type]
    for _ in schedule:
        steps.now_ns += max(steps.cpu, steps.gpu)
    return noted


def test_changes_that_hide_each_other_are_kept_together(events: list[dict[str, Any]]) -> None:
    found = outcomes_of(events)
    assert [(each.spec, each.verdict) for each in found] == [
        ("gc", "no difference"), ("tf32", "no difference"), ("gc+tf32", "faster"),
    ]  # fmt: skip
    (pair,) = kept_of(found)
    assert pair.ratio == pytest.approx(0.5)
    assert pair.specs == ("gc", "tf32")
    assert pair.name == f"{experiments()['gc'].name} and TF32"
    assert pair.alters == "rounding"
    assert set(pair.lines["PyTorch"].splitlines()) >= {"gc.freeze()", 'torch.set_float32_matmul_precision("high")'}


@pytest.mark.parametrize("burst", [1, 16, 80])
@pytest.mark.parametrize(("restarts", "least_s"), [(False, 1.0), (True, 3.0)])
def test_steps_that_come_in_bursts_take_no_more_time_than_is_wanted(
    monkeypatch: pytest.MonkeyPatch, burst: int, *, restarts: bool, least_s: float
) -> None:
    """A step of 1 ms in sixteen would fill three seconds with three thousand of them; the others take 0.2 s.

    The mean of whole bursts is known after a second, but not that of workers that start again in each epoch.
    """
    clock, noted = Steps(), list[dict[str, Any]]()
    taken = turns.Turns({"timed_s": 3.0}, lambda _event, **fields: noted.append(fields), lambda: None)
    taken.program = TriedProgram(None)
    if restarts:
        taken.program.loaders.add(Restarting)
    monkeypatch.setattr(TriedProgram, "ranks", property(lambda _self: 1))
    for number, _ in enumerate(taken.time_alone(clock)):  # type: ignore[arg-type]
        clock.now_ns += 2e8 if number % burst == burst - 1 else 1e6
    (timed,) = noted
    assert least_s <= sum(timed["step_ns"]) / 1e9 < 2 * max(least_s, 1.5)
    assert fmean(timed["step_ns"]) == pytest.approx((2e8 + 1e6 * (burst - 1)) / burst, rel=0.15)
