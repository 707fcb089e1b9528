"""GPU clocks: the verdict begins with a GPU that power or heat slowed; an idle GPU has no finding."""

from typing import Any

import pytest
from analysis_fixtures import window
from export_builder import ExportBuilder, trace_of
from host_records import gpu_samples, record_of, recorded
from made_steps import STEP, STEPS, US, made_loop
from savings import ends_of

from nsyswrap.events.host_record import HostRecord
from nsyswrap.loop.context import Settings, find_context
from nsyswrap.model import Severity
from nsyswrap.report import build_report
from nsyswrap.sections.gpu_clocks import find_clocks, is_slowed, slowed_finding

POWER, HEAT, IDLE, CHOSEN = 0x4, 0x20, 0x1, 0x2
TEN = window(0, STEPS * STEP)


def record(clocks: list[int], reasons: list[int], **rest: Any) -> HostRecord:  # noqa: ANN401 - any part of the JSON
    """Return a record with samples of one GPU, one for each step."""
    moments = [number * STEP + US for number in range(len(clocks))]
    return record_of(recorded(moments, gpus=[gpu_samples(clocks, reasons, **rest)]))


def test_a_gpu_below_its_clock_for_power_is_slowed() -> None:
    """Half of the samples are at 1400 of 2000 MHz, so the mean clock is 15 % lower."""
    context = find_context(trace_of(made_loop().session()), Settings(host=record([1400, 2000] * 6, [POWER, 0] * 6)))
    (clock,) = find_clocks(context, TEN)
    assert (clock.slowed_share, clock.median_mhz, clock.why) == (0.5, 1400, "the power limit")
    assert clock.lost_share == pytest.approx(0.15)
    found = slowed_finding(clock, TEN)
    assert found is not None
    assert found.severity is Severity.NOTE
    assert found.lost_ns == pytest.approx(0.15 * TEN.length_ns)
    assert ends_of(found) == (0, found.lost_ns)
    assert "nvidia-smi -pl" in found.advice
    assert "650 W" in found.evidence[0]


def test_the_verdict_says_it_first() -> None:
    """The rule of the verdict is still that of the first finding on the program."""
    trace = trace_of(made_loop().session())
    plain = build_report(trace)
    slowed = build_report(trace, "", Settings(host=record([1000] * 12, [HEAT] * 12)))
    assert slowed.verdict == f"The GPU ran at 1000 of 2000 MHz for 100.0 % of the time because of heat. {plain.verdict}"
    assert slowed.verdict_rule == plain.verdict_rule


@pytest.mark.parametrize(
    ("clock", "reason"),
    [(400, IDLE), (1200, CHOSEN), (1980, POWER), (1000, 0)],
    ids=["idle", "chosen by the user", "almost at its highest clock", "without a reason"],
)
def test_other_low_clocks_are_no_finding(clock: int, reason: int) -> None:
    context = find_context(trace_of(made_loop().session()), Settings(host=record([clock] * 12, [reason] * 12)))
    (found,) = find_clocks(context, TEN)
    assert not is_slowed(found)
    assert slowed_finding(found, TEN) is None


def test_several_reasons_are_named_by_their_number_of_samples() -> None:
    host = record([1000] * 12, [HEAT | POWER] * 4 + [HEAT] * 8)
    (clock,) = find_clocks(find_context(trace_of(made_loop().session()), Settings(host=host)), TEN)
    assert clock.why == "heat and the power limit"


def test_only_samples_of_the_window_count() -> None:
    """The GPU was slow before the window."""
    context = find_context(
        trace_of(made_loop().session()), Settings(host=record([500] * 6 + [2000] * 6, [HEAT] * 6 + [0] * 6))
    )
    (clock,) = find_clocks(context, window(7 * STEP, STEPS * STEP))
    assert clock.slowed_share == 0
    assert find_clocks(context, window(-5, -1)) == []


def test_of_several_gpus_the_place_on_the_bus_decides() -> None:
    """The program used the second GPU of the machine, and another program used the first."""
    places = ("00000000:1B:00.0", "00000000:5D:00.0")
    gpus = [gpu_samples([1000], [HEAT], index=number, bus=place) for number, place in enumerate(places)]
    host = record_of(recorded([US], gpus=gpus))
    built = made_loop(builder=ExportBuilder().gpu(busLocation="0000:5D:00.0")).session()
    (clock,) = find_clocks(find_context(trace_of(built), Settings(host=host)), TEN)
    assert (clock.device_id, clock.gpu) == (0, "GPU 1, NVIDIA H200")
