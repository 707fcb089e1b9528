"""The energy of a recorded step, with its range."""

from collections.abc import Sequence

import pytest
from export_builder import ExportBuilder, trace_of
from host_records import gpu_samples, record_of, recorded

from nsyswrap.base.interval import Interval
from nsyswrap.loop.context import Settings, find_context
from nsyswrap.sections.gpu_clocks import find_step_energy

MS = 1_000_000
STEP_MS = 250


def energy(steps: int, moments_ms: Sequence[int], joules: Sequence[int]) -> Interval[float] | None:
    """Return the energy of steps of 250 ms, given samples of the counter; the first two are warm-up."""
    built = ExportBuilder().gpu().os_call("mmap", 0, 1)
    for number in range(steps):
        at = number * STEP_MS * MS
        built.range(f"step {number}", at, at + STEP_MS * MS)
        built.kernel(at + MS, at + (STEP_MS - 1) * MS, "k", launched=(at, at + MS), gridX=1000)
    used = {"at": list(range(len(joules))), "mj": [1000 * each for each in joules]}
    gpu = gpu_samples([1980] * len(moments_ms), [0] * len(moments_ms), energy=used)
    host = record_of(recorded([each * MS for each in moments_ms], gpus=[gpu]))
    context = find_context(trace_of(built), Settings(host=host))
    window = context.steps.measured_window()
    assert window is not None
    return find_step_energy(context, window)


def test_the_energy_lies_between_that_of_the_inner_and_the_outer_samples() -> None:
    """Steps 2 to 9 last from 500 to 2500 ms. At 400 W, 800 J; the inner samples have 720, the outer ones 960."""
    moments = [0, 400, 600, 2400, 2800, 3000]
    found = energy(10, moments, [round(0.4 * each) for each in moments])
    assert found is not None
    assert (found.low * 8, found.point * 8, found.high * 8) == pytest.approx((720, 800, 960))


@pytest.mark.parametrize(("steps", "is_known"), [(10, True), (9, False)])
def test_it_needs_two_seconds_of_steps(steps: int, *, is_known: bool) -> None:
    assert (energy(steps, [0, 1000, 3000], [0, 400, 1200]) is not None) == is_known


@pytest.mark.parametrize("moments", [[600, 1000, 3000], [0, 1000, 2000], []])
def test_samples_that_do_not_reach_the_window_say_nothing(moments: list[int]) -> None:
    assert energy(10, moments, [0, 400, 1200][: len(moments)]) is None
