"""Run-to-run noise of a loop, estimated from the share of a step without kernels."""

import math

import numpy as np
import pytest

from nsyswrap.base.interval import Interval
from nsyswrap.compare.run_noise import CPU_SPREAD, GPU_SPREAD, run_noise, widened
from nsyswrap.compare.step_times import LEDGER_ROWS, NO_STEPS, MeasuredSteps

# Source: a table of Student's t, 97.5 % quantile of 24 degrees of freedom.
STUDENT = 2.064


def loop(cpu_share: float, between: float = 0.0) -> MeasuredSteps:
    """Return ten steps of 100 ns, with a share of the time without kernels, and time between the steps."""
    parts = dict.fromkeys(LEDGER_ROWS, np.zeros(10))
    length = np.full(10, 100.0)
    idle, copy = length * cpu_share / 2, length * cpu_share / 2
    parts |= {"compute_ns": length - idle - copy, "idle_ns": idle, "copy_exposed_ns": copy}
    return MeasuredSteps(length, length + between, parts)


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_each_run_adds_what_the_host_paces(share: float) -> None:
    expected = STUDENT * math.sqrt(2 * ((CPU_SPREAD * share) ** 2 + GPU_SPREAD**2))
    assert run_noise([loop(share)], [loop(share)], 0.95) == pytest.approx(expected, rel=0.001)


def test_the_side_that_the_host_paces_decides() -> None:
    one = run_noise([loop(0.0)], [loop(1.0)], 0.95)
    assert one == run_noise([loop(1.0)], [loop(0.0)], 0.95) == pytest.approx(STUDENT * CPU_SPREAD, rel=0.003)


def test_time_without_kernels_counts_as_cpu_time() -> None:
    """It is idle time, exposed copies and time between steps; without a GPU it is all time."""
    assert loop(0.5).cpu_share == pytest.approx(0.5)
    assert loop(0.5, between=100.0).cpu_share == pytest.approx(0.75)
    assert MeasuredSteps(np.ones(3), np.ones(3)).cpu_share == 1
    assert NO_STEPS.cpu_share == 1


def test_an_interval_grows_to_both_sides_as_independent_errors_do() -> None:
    assert widened(Interval(-0.1, 0.2, 0.5), 0.4).in_order == pytest.approx((0.2 - 0.5, 0.2, 0.2 + 0.5))
    assert widened(Interval(-0.1, 0.2, 0.5), 0.0).in_order == pytest.approx((-0.1, 0.2, 0.5))
