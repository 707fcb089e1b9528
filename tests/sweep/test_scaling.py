"""Strong and weak scaling: each from its own pairs of cells, never mixed."""

import pytest
from hypothesis import given
from hypothesis import strategies as some
from made_sweeps import GPUS, gpus_sweep, keys_of

from nsyswrap.sweep.scaling import STRONG, WEAK, scaling


def test_a_step_that_is_half_as_long_is_full_strong_efficiency() -> None:
    steps = {key: 20.0 if "gpus-1" in key else 10.0 for key in keys_of(GPUS)}
    rows = scaling(gpus_sweep(steps), STRONG)
    assert len(rows) == 6, "three batches in two modes"
    assert all((row.speedup, row.efficiency.point) == pytest.approx((2.0, 1.0)) for row in rows)
    assert {row.kept for row in rows} == {8.0, 16.0, 32.0}


def test_a_step_that_stays_is_full_weak_efficiency() -> None:
    """Batches of 16 and 32 on two GPUs are 8 and 16 on each, as on one GPU."""
    rows = scaling(gpus_sweep(dict.fromkeys(keys_of(GPUS), 10.0)), WEAK)
    assert [(row.kept, row.gpus) for row in rows if dict(row.others)["mode"] == "dp"] == [(8.0, 2), (16.0, 2)]
    assert all((row.speedup, row.efficiency.point) == pytest.approx((2.0, 1.0)) for row in rows)


@given(some.floats(1.0, 100.0), some.floats(1.0, 100.0))
def test_the_parts_close_to_the_difference_of_the_steps(one: float, two: float) -> None:
    sweep = gpus_sweep({key: 4 + (one if "gpus-1" in key else two) for key in keys_of(GPUS)})
    for row in scaling(sweep, STRONG):
        assert sum(row.groups_ns.values()) == pytest.approx(row.step_ns - row.base_ns, abs=1.0)
        assert row.efficiency.low < row.efficiency.point < row.efficiency.high
