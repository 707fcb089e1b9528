"""The range of a saving: errors that are measured, and the work that no change touches."""

from math import hypot

import numpy as np
import pytest
from analysis_fixtures import window
from export_builder import MAIN, ExportBuilder, trace_of
from simulations import US, simulate_trace

from nsyswrap.base.intervals import Spans
from nsyswrap.loop.context import find_context, find_states
from nsyswrap.ranks.collectives import find_collectives
from nsyswrap.report import choose_window
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fixed_step import RUNS_DIFFER
from nsyswrap.what_if.saving import (
    WhatIf,
    estimated,
    faster,
    saving_of,
    set_by_host,
    work_that_stays,
)
from nsyswrap.what_if.simulate import Simulation, simulated_part

TURNS, TURN = 10, 100 * US


def turns(length: int = 20, *, named: bool = False, longer: int = 0) -> Simulation:
    """Return turns of 100 µs: a launch, a kernel of some µs, and a host that works until the next turn.

    Args:
        length: Length of a kernel in µs.
        named: Whether the turns are steps.
        longer: By how many µs every second turn is longer.
    """
    builder, at = ExportBuilder(), 0
    for number in range(TURNS + 1):
        builder.kernel(at + 10 * US, at + (10 + length) * US, launched=(at, at + 4 * US))
        until = at + TURN + (number % 2) * longer * US
        if named and number < TURNS:
            builder.range(f"step {number}", at, until)
        at = until
    return simulate_trace(trace_of(builder), None if named else window(0, 2 * at))


def without_host(simulation: Simulation, first: int, last: int) -> WhatIf:
    """Return the change that the host saves a part of each turn, from and to some µs after its launch."""
    start = simulation.context.operations.start - 10 * US
    return WhatIf(Change(host={MAIN: Spans(start + first * US, start + last * US)}), "")


@pytest.mark.parametrize(("first", "last", "error"), [(20, 24, 20.1), (20, 50, 146.8), (20, 90, 74.7)])
def test_the_error_of_a_fix_is_half_of_it_or_a_fifth_of_what_the_host_has_left(
    first: int, last: int, error: int
) -> None:
    """Of 1030 us, 40, 300 or 700 are saved; a twentieth of it may not come."""
    simulation = turns()
    found = saving_of(simulation, without_host(simulation, first, last))
    assert found.point == (last - first) * 10 * US
    assert found.point - found.low == pytest.approx(error * US, rel=0.01)


@pytest.mark.parametrize("factor", [0.9, 0.1])
def test_a_fix_of_kernels_leaves_open_how_long_others_take(factor: float) -> None:
    """The last kernel takes 99 us. A third of what is saved or left of it, 9.9 us, is open, and half of the saving."""
    simulation = turns(99)
    found = saving_of(simulation, faster(simulation.operations, factor, ""))
    assert found.point == pytest.approx((1 - factor) * 99 * US)
    assert found.point - found.low == pytest.approx(
        hypot(0.5 * found.point, 0.05 * found.point, 0.33 * 9.9 * US), rel=0.01
    )


def test_the_pace_of_the_host_matters_for_what_it_sets() -> None:
    """After the fix, kernels of 80 us set the pace where the host took 100 us; before, the host did."""
    simulation = turns(80)
    assert set_by_host(simulation, without_host(simulation, 4, 100)) < 0.1
    assert set_by_host(simulation, without_host(simulation, 4, 8)) == pytest.approx(1, abs=0.05)


def test_a_step_that_takes_more_than_twice_as_long_is_not_at_another_pace() -> None:
    """Nine measured steps take 100 us and the last one 500. The sample has three of 100; of 500 us, 200 count."""
    builder = ExportBuilder()
    for number in range(12):
        at = number * TURN
        builder.kernel(at + 10 * US, at + 12 * US, launched=(at, at + 4 * US))
        builder.range(f"step {number}", at, at + TURN + 400 * US * (number == 11))
    context = find_context(trace_of(builder))
    whole = choose_window(context)
    sample = simulated_part(context, find_states(context, whole), whole, find_collectives(context), 3)
    assert sample.steps == 3
    assert sample.of_window == pytest.approx(10 / 3 * 1.1, rel=0.001)


def test_nothing_saved_has_no_range() -> None:
    simulation = turns()
    assert saving_of(simulation, faster(simulation.operations, 1.0, "")).in_order == (0, 0, 0)


def test_steps_that_save_unevenly_widen_the_range_and_longer_ones_do_not() -> None:
    """The host saves 20 us of 100 in each turn, or 40 in every second one; or 28 of 140 in every second one."""
    even, longer = (turns(named=True, longer=longer) for longer in (0, 40))
    start = even.context.operations.start - 10 * US
    uneven = WhatIf(Change(host={MAIN: Spans(start[::2] + 20 * US, start[::2] + 60 * US)}), "")
    ends = longer.context.operations.start + np.where(np.arange(TURNS + 1) % 2, 38, 30) * US
    alike = WhatIf(Change(host={MAIN: Spans(longer.context.operations.start + 10 * US, ends)}), "")
    cases = ((even, without_host(even, 20, 40)), (even, uneven), (longer, alike))
    widths = [saving_of(each, fix).width / each.length() for each, fix in cases]
    assert widths[1] > 1.5 * widths[0]
    assert widths[2] < 1.01 * widths[0]


def test_the_work_that_no_change_touches_bounds_the_saving() -> None:
    """Kernels of 60 µs stay, eleven of them. All of the host goes: the GPU needs 660 µs, or 3 % less in another run."""
    simulation = turns(60)
    fix = without_host(simulation, 4, 100)
    assert work_that_stays(simulation, [fix.change]) == 660 * US
    found = saving_of(simulation, fix)
    assert simulation.length() - found.high == round((1 - RUNS_DIFFER) * 660 * US)
    assert found.point <= found.high


def test_the_work_of_the_host_stays_where_kernels_get_faster() -> None:
    """Each turn has 100 µs of the host's work, which no kernel shortens."""
    simulation = turns(99)
    fix = faster(simulation.operations, 0.1, "")
    assert work_that_stays(simulation, [fix.change]) >= TURNS * 100 * US
    assert saving_of(simulation, fix).high < 150 * US


@pytest.mark.parametrize(("or_nothing", "lowest"), [(True, 0), (False, 1)])
def test_a_fix_that_may_not_fit_may_save_nothing(or_nothing: bool, lowest: int) -> None:  # noqa: FBT001
    simulation = turns()
    change = without_host(simulation, 20, 70).change
    found = saving_of(simulation, WhatIf(change, "", or_nothing))
    assert found.point == 500 * US
    assert (found.low > 0) == bool(lowest)


def test_kernels_that_go_leave_a_twentieth_open_of_what_is_saved_and_left() -> None:
    """Eleven kernels of 100 us wait in a queue; the first six go."""
    builder = ExportBuilder()
    for number in range(11):
        builder.kernel((number + 2) * TURN, (number + 3) * TURN, launched=(number * 10 * US, (number * 10 + 4) * US))
    simulation = simulate_trace(trace_of(builder), window(0, 14 * TURN))
    fix = faster(simulation.operations[:6], 0.0, "")
    found, left = saving_of(simulation, fix), simulation.length(fix.change)
    assert found.point == simulation.length() - left == pytest.approx(600 * US, rel=0.2)
    assert found.point - found.low == pytest.approx(hypot(0.05 * found.point, 0.05 * left), rel=0.01)


def test_of_a_fix_that_leaves_little_a_third_of_it_is_open() -> None:
    """Of 1030 us the host saves 960: a twentieth of them is more than a third of the 70 that are left."""
    simulation = turns(2)
    found = saving_of(simulation, without_host(simulation, 4, 100))
    left = simulation.length() - found.point
    assert 0 < left < 0.1 * simulation.length()
    assert found.point - found.low == pytest.approx(hypot(0.2, 0.33) * left, rel=0.01)


def test_an_estimate_has_the_larger_error_and_stays_within_the_time() -> None:
    found = estimated(100, 1000, "all of it").time
    assert found is not None
    assert found.in_order == (67, 100, 133)
    whole = estimated(1000, 1000, "all of it").time
    assert whole is not None
    assert whole.in_order == (1000, 1000, 1000)


def test_a_sample_of_steps_longer_than_the_mean_saves_no_more_than_its_share_of_the_window() -> None:
    """Eight of nine steps take 300 µs, and one 100; a sample has three of the long ones. Its kernels stay."""
    builder, at = ExportBuilder(), 0
    for number in range(11):
        builder.kernel(at + 10 * US, at + 12 * US, launched=(at, at + 4 * US))
        until = at + (300 if number < 10 else 100) * US
        builder.range(f"step {number}", at, until)
        at = until
    context = find_context(trace_of(builder))
    whole = choose_window(context)
    sample = simulated_part(context, find_states(context, whole), whole, find_collectives(context), 3)
    assert sample.scale * sample.measured_ns > whole.length_ns
    fix = WhatIf(Change(host={MAIN: Spans(np.array([0]), np.array([at]))}), "")
    found = saving_of(sample, fix)
    left = sample.length(fix.change) / sample.length()
    assert left > 0
    assert found.point == pytest.approx((1 - left) * whole.length_ns, rel=0.001)
    assert found.high < whole.length_ns
