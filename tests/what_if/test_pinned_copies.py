"""Pinned memory saves waits, and copy time if the rate of pinned copies is known from the capture or measured."""

from collections.abc import Mapping

import pytest
from analysis_fixtures import window
from export_builder import DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE, PAGEABLE, ExportBuilder, trace_of
from simulations import US, saved_us, simulate

from nsyswrap.hardware.link_rates import CopyRate
from nsyswrap.loop.context import Settings, find_context
from nsyswrap.trace.tables import Trace
from nsyswrap.what_if.changes.pinned_copies import pinned_copies
from nsyswrap.what_if.simulate import Simulation

SIZE = 1 << 20
WHOLE = window(0, 600 * US)
UP, DOWN = "Host-to-Device", "Device-to-Host"
# At the higher rate, SIZE bytes take 36.5 µs: half the time of the pageable copies below.
HALF_RATE = CopyRate(1e9, SIZE / 36_500 * 1e9)


def copies(size: int = SIZE, direction: int = HOST_TO_DEVICE) -> ExportBuilder:
    """Return five turns of 100 µs: a pageable copy of 73 µs in a call that blocks the host for 85 µs, and a kernel."""
    source, target = (DEVICE, PAGEABLE) if direction == DEVICE_TO_HOST else (PAGEABLE, DEVICE)
    builder = ExportBuilder()
    for at in range(0, 500 * US, 100 * US):
        ran, called = (at + 15 * US, at + 88 * US), (at + 5 * US, at + 90 * US)
        builder.copy(*ran, direction, launched=called, bytes=size, srcKind=source, dstKind=target)
        builder.kernel(at + 101 * US, at + 104 * US, launched=(at + 91 * US, at + 95 * US))
    return builder


def simulation_of(trace: Trace, rates: Mapping[str, CopyRate] | None = None) -> Simulation:
    """Return the simulation of the five turns, with measured rates of pinned copies."""
    return simulate(find_context(trace, Settings(copy_rates=rates or {})), WHOLE)


def factors(simulation: Simulation) -> list[float]:
    """Return the factors by which the change multiplies the lengths of the copies."""
    found = pinned_copies(simulation).change.factor
    assert not isinstance(found, float)
    return [float(each) for each in found]


def test_without_a_known_rate_copies_stay_as_long_as_they_are() -> None:
    simulation = simulation_of(trace_of(copies()))
    assert factors(simulation) == [1.0] * 5
    assert pinned_copies(simulation).assumed.endswith("run as before: the rate of pinned copies is not known here")


def test_the_capture_s_own_pinned_copies_tell_the_rate() -> None:
    """A pinned copy of the same size, outside the window, takes 10 µs. It takes precedence over a measured rate."""
    trace = trace_of(copies().copy(700 * US, 710 * US, bytes=SIZE, launched=(690 * US, 694 * US)))
    for rates in ({}, {UP: HALF_RATE}):
        simulation = simulation_of(trace, rates)
        assert factors(simulation) == pytest.approx([10 / 73] * 5)
        assert pinned_copies(simulation).assumed.endswith("run at the rate of pinned copies")


def test_small_pinned_copies_tell_no_rate() -> None:
    """Small copies take the same time whatever their size is, so they do not show the rate of large ones."""
    trace = trace_of(copies().copy(700 * US, 710 * US, bytes=(1 << 16) - 1, launched=(690 * US, 694 * US)))
    assert factors(simulation_of(trace)) == [1.0] * 5


@pytest.mark.parametrize(("direction", "name"), [(HOST_TO_DEVICE, UP), (DEVICE_TO_HOST, DOWN)])
def test_a_measured_rate_counts_for_its_direction(direction: int, name: str) -> None:
    """The higher of the two measured rates counts."""
    trace = trace_of(copies(direction=direction))
    assert factors(simulation_of(trace, {name: HALF_RATE})) == pytest.approx([0.5] * 5)
    other = {UP: DOWN, DOWN: UP}[name]
    unknown = simulation_of(trace, {other: HALF_RATE})
    assert factors(unknown) == [1.0] * 5
    assert "is not known here" in pinned_copies(unknown).assumed


def test_small_pageable_copies_are_not_faster_when_pinned() -> None:
    """Below 64 KiB the driver stages nothing, so the rate of pinned copies is not needed."""
    simulation = simulation_of(trace_of(copies((1 << 16) - 1)))
    assert factors(simulation) == [1.0] * 5
    assert "is not known here" not in pinned_copies(simulation).assumed


def test_faster_copies_save_more_than_the_waits_alone() -> None:
    """The host does not wait for the copies. They take 36.5 µs less, where the rate is known, in each of five turns."""
    trace = trace_of(copies())
    plain, faster = (saved_us(simulation_of(trace, rates), pinned_copies) for rates in ({}, {UP: HALF_RATE}))
    assert plain > 0
    assert faster - plain == pytest.approx(5 * 36.5, abs=1)
