"""Recording explains idle time: only in pieces in which the host runs, and each nanosecond once."""

import numpy as np
import pytest
from analysis_fixtures import Piece, attributions_of, explained, idle_section, window
from export_builder import ExportBuilder, trace_of
from measured_costs import COST, US

from nsyswrap.attribution.attribution import RULE_CODE
from nsyswrap.loop.context import Settings, find_context

MEASURED = Settings(profiler_cost=COST)


def gap(*, cpu: int = 20, launch: int = 10) -> ExportBuilder:
    """Return a gap of some us of CPU time, a launch call, and a latency of 5 us, between two kernels."""
    begin = 110 + cpu
    builder = ExportBuilder().kernel(100 * US, 110 * US, launched=(0, 4 * US))
    return builder.kernel(
        (begin + launch + 5) * US, (begin + launch + 20) * US, launched=(begin * US, (begin + launch) * US)
    )


def test_the_cost_of_a_launch_is_taken_from_the_time_in_its_call() -> None:
    """A launch costs 3 us. The rest of the gap stays as it was."""
    pieces = explained(trace_of(gap()), 110 * US, 145 * US, settings=MEASURED)
    assert pieces == [
        Piece(110 * US, 130 * US, "cpu", "none"),
        Piece(130 * US, 137 * US, "launch", "none"),
        Piece(137 * US, 140 * US, "profiler", "none"),
        Piece(140 * US, 145 * US, "queued", "none"),
    ]


def test_what_a_call_costs_beyond_its_length_is_taken_from_the_piece_before() -> None:
    """The call lasts 2 us and costs 3 us, so some of the cost lies before its recorded start."""
    pieces = explained(trace_of(gap(launch=2)), 110 * US, 137 * US, settings=MEASURED)
    assert [(each.start // US, each.end // US, each.cause) for each in pieces] == [
        (110, 129, "cpu"),
        (129, 130, "profiler"),
        (130, 132, "profiler"),
        (132, 137, "queued"),
    ]


def test_a_piece_cannot_lose_more_than_it_has() -> None:
    """Ten events that cost 1 us each begin within 4 us: at most the whole piece is taken."""
    builder = gap(cpu=4)
    for number in range(10):
        builder.call("cudaEventRecord", 110 * US + number * 300, 110 * US + number * 300 + 100)
    pieces = explained(trace_of(builder), 110 * US, 129 * US, settings=MEASURED)
    assert pieces[0] == Piece(110 * US, 114 * US, "profiler", "none")
    assert sum(each.end - each.start for each in pieces) == 19 * US


def test_a_wait_keeps_its_time() -> None:
    """A thread that waits in a synchronize call is not delayed by the recording of that call."""
    builder = gap().call("cudaStreamSynchronize", 110 * US, 128 * US)
    pieces = explained(trace_of(builder), 110 * US, 145 * US, settings=MEASURED)
    assert Piece(110 * US, 128 * US, "synchronization", "none") in pieces


@pytest.mark.parametrize("settings", [Settings(), MEASURED])
def test_idle_time_adds_up_with_and_without_a_measured_cost(settings: Settings) -> None:
    section = idle_section(trace_of(gap()), 110 * US, 145 * US, settings)
    assert section.tables["attribution"]["idle_ns"].sum() == 35 * US
    gaps = section.tables["gaps"]
    assert (gaps["start_ns"].to_numpy()[1:] == gaps["end_ns"].to_numpy()[:-1]).all()


def test_the_evidence_says_that_nsys_recorded_calls() -> None:
    section = idle_section(trace_of(gap()), 110 * US, 145 * US, MEASURED)
    gaps = section.tables["gaps"]
    evidence = gaps.loc[gaps["cause"] == "profiler", "evidence"].astype(str).tolist()
    assert evidence == ["nsys records the calls of thread 4711"]


def test_ranges_in_an_inner_loop_own_the_time_that_recording_them_takes() -> None:
    """Fifty ranges of 2 us each in a gap of 200 us: the finding on ranges counts it with the CPU time around them."""
    builder = gap(cpu=200)
    for number in range(50):
        builder.range(f"item {number}", 111 * US + number * 4 * US, 113 * US + number * 4 * US)
    context, chosen = find_context(trace_of(builder), MEASURED), window(110 * US, 325 * US)
    (found,) = attributions_of(context, chosen)
    assert found.idle_ns[RULE_CODE["capture/overhead"]] == 200 * US
    assert np.array_equal(found.idle_ns.sum(), 215 * US)
