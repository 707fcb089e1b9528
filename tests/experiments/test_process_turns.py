"""Processes that alternate say "faster" or "slower" by chance in less than 5 % of cases, over all looks."""

import numpy as np
import pytest

from nsyswrap.experiments.process_turns import ProcessTurns, Variant
from nsyswrap.experiments.request import Answer

CASES = 400


class Session:
    """Runs a program whose processes differ.

    Args:
        seed: Of the random numbers.
        noise: What two processes differ by, as a share of a step.
        first: How much longer the steps of the first process are, as files are read for the first time.
        saved: Share of a step that each change saves.
        steps: What two steps of a process differ by.
    """

    def __init__(self, seed: int, noise: float, *, first: float = 0.0, saved: float = 0.0, steps: float = 0.01) -> None:
        self.random, self.noise, self.saved, self.first = np.random.default_rng(seed), noise, saved, first
        self.steps = steps
        self.runs = 0

    def timed(self, made: Variant, _timed_s: float) -> Answer:
        """Return a run of 30 steps."""
        length = 1e7 * np.exp(self.noise * self.random.standard_t(5)) * (1 - self.saved) ** len(made)
        length *= 1 if self.runs else 1 + self.first
        self.runs += 1
        steps = length * np.exp(self.steps * self.random.standard_normal(30))
        return Answer(0, ({"event": "timed", "step_ns": steps.tolist()},))


def verdicts(noise: float, **fields: float) -> list[tuple[str, int]]:
    """Return the verdict on a change, and the number of runs before it."""
    found = []
    for seed in range(CASES):
        session = Session(seed, noise, **fields)
        turns = ProcessTurns(session)  # type: ignore[arg-type]
        turns.add((), session.timed((), 0.0))
        found.append((turns.compare((), [("pin_memory",)])[0].verdict, session.runs))
    return found


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("noise", "fields"), [(0.003, {}), (0.04, {}), (0.04, {"first": 0.3}), (0.003, {"steps": 0.3})]
)
def test_a_change_without_effect_is_seldom_called_faster_or_slower(noise: float, fields: dict[str, float]) -> None:
    said = [verdict for verdict, _ in verdicts(noise, **fields)]
    assert sum(each in {"faster", "slower"} for each in said) < 0.05 * CASES


@pytest.mark.thorough
@pytest.mark.parametrize(("saved", "noise", "steps"), [(0.5, 0.01, 0.01), (0.27, 0.003, 0.01), (0.4, 0.003, 0.1)])
def test_a_clear_change_is_known_after_four_processes(saved: float, noise: float, steps: float) -> None:
    found = verdicts(noise, saved=saved, steps=steps)
    assert sum(each == ("faster", 4) for each in found) > 0.9 * CASES
