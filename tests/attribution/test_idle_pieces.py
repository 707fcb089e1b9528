"""Delays of the host explain idle time: a delay explains its own gap and the gaps after it, up to its length.

Times are in microseconds: ``US``. A gap consists of CPU time, a launch call of 2 us and 8 us in which E is queued::

    GPU    ####|...........gap...........|EEEE
    host       |   cpu   | launch 2 | queued 8
"""

import numpy as np
import pytest
from analysis_fixtures import idle_pieces
from export_builder import ExportBuilder, global_id, trace_of
from made_steps import US

from nsyswrap.attribution.idle_pieces import IdlePieces
from nsyswrap.attribution.root_causes import blocking_waits
from nsyswrap.events import api_calls
from nsyswrap.trace.tables import Trace

BUSY, QUEUED = 10, 8
PEER = 5000


def with_gaps(*gaps: int, processes: tuple[int, ...] = ()) -> ExportBuilder:
    """Return kernels of 10 us with gaps of these lengths in us between them.

    Args:
        *gaps: Lengths of at least 10.
        processes: Process that launches the kernel at the end of each gap; one process where it is left out.
    """
    made, at = ExportBuilder().kernel(0, BUSY * US, launched=(-2 * US, 0)), BUSY
    for number, gap in enumerate(gaps):
        at += gap
        call = ((at - QUEUED - 2) * US, (at - QUEUED) * US)
        process = global_id(processes[number] if processes else 4711)
        made.kernel(at * US, (at + BUSY) * US, launched=call, process=process)
        at += BUSY
    return made


def explained(idle: IdlePieces, *delays: int) -> list[int]:
    """Return how much of each gap the delays explain, in us; a delay of 0 explains nothing."""
    delay = np.array(delays, np.int64) * US
    mask = idle.set_back(delay > 0, delay, np.ones(len(idle.length), bool), idle.none)
    found = np.zeros(len(idle.first), np.int64)
    np.add.at(found, idle.gap[mask], idle.length[mask] // US)
    return found.tolist()


def pieces(trace: Trace, *gaps: int) -> IdlePieces:
    """Return the idle time between the kernels of ``with_gaps``."""
    return idle_pieces(trace, 0, (BUSY + sum(gaps) + BUSY * len(gaps)) * US)


def test_the_pieces_of_a_gap() -> None:
    """A gap of 40 us has 30 us of CPU time, 2 us of launch and 8 us in the queue."""
    idle = pieces(trace_of(with_gaps(40)), 40)
    assert (idle.length // US).tolist() == [30, 2, QUEUED]
    assert idle.is_cause("cpu", "queued").tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        # A delay of at least 15 us explains the 30 us of CPU time: half of it. The delay is then used up.
        (14, [0, 0]),
        (15, [30, 0]),
        # Both explain the first gap of 40 us. The next CPU time is 14 us: 5 us are less than half of it, 7 us are half.
        (45, [40, 0]),
        (47, [40, 14]),
        # A long delay explains both gaps, 64 us, and no more.
        (1000, [40, 24]),
    ],
)
def test_a_delay_explains_its_gap_and_those_after_it_up_to_its_length(delay: int, expected: list[int]) -> None:
    assert explained(pieces(trace_of(with_gaps(40, 24)), 40, 24), delay, 0) == expected


def test_gaps_before_a_delay_are_not_explained() -> None:
    assert explained(pieces(trace_of(with_gaps(40, 24)), 40, 24), 0, 1000) == [0, 24]


def test_what_one_delay_leaves_over_counts_for_the_next_gaps() -> None:
    """Three waits follow each other, each with an idle GPU at its end, so the host is late by their sum.

    The second gap has 50 us of CPU time. Its own delay of 20 us is less than half of that. A first delay of 30 us
    leaves 20 us after its gap, and 40 us are enough.
    """
    idle = pieces(trace_of(with_gaps(10, 60, 10)), 10, 60, 10)
    assert explained(idle, 0, 20, 0) == [0, 0, 0]
    assert explained(idle, 30, 20, 0) == [10, 50, 0]
    # The first two delays, 40 us, cover the first gap and half of the 50 us. With the third, 80 us cover all gaps.
    assert explained(idle, 20, 20, 40) == [10, 50, 10]


def repeated_reads() -> ExportBuilder:
    """Return three rounds of a kernel, a wait for it and CPU time, then a last kernel.

    ::

        GPU    |###90###|..20..|###90###|..20..|###90###|..20..|#
        host   |----wait----|cpu |-----wait-----|cpu|
    """
    made = ExportBuilder()
    for number in range(4):
        at = number * 110 * US
        made.kernel(at, at + 90 * US, launched=(at - 10 * US, at - 8 * US))
        made.call("cudaStreamSynchronize", at - 7 * US, at + 92 * US)
    return made


def test_repeated_reads_explain_all_gaps_between_them() -> None:
    """Each wait of 99 us explains the gap of 20 us after it.

    A gap consists of 2 us in the wait, 8 us of CPU time, 2 us of launch, 1 us of CPU time and 7 us in the next wait.
    The last gap ends with the window, before the next launch.
    """
    idle = idle_pieces(trace_of(repeated_reads()), 0, 420 * US)
    found = blocking_waits.find(idle, np.ones(len(idle.length), bool))
    assert found.all()
    assert int(idle.length.sum()) == 3 * 20 * US


def catching_up(*, ahead: bool) -> ExportBuilder:
    """Return a gap from 20 to 40, kernels one after another until 120, and a second gap from 120 to 140.

    Launches are usually 2 us apart, so that a gap of up to 20 us is usual.

    Args:
        ahead: Whether the host launches the kernels between the gaps long before they begin, up to 71 us.
    """
    made = (
        ExportBuilder().kernel(10 * US, 20 * US, launched=(0, US)).kernel(40 * US, 50 * US, launched=(30 * US, 31 * US))
    )
    for number, start in enumerate((50, 70, 90, 110)):
        call = 32 + 2 * number if ahead else start - 4
        made.kernel(start * US, min(start + 20, 120) * US, launched=(call * US, (call + 1) * US))
    return made.kernel(140 * US, 150 * US, launched=(130 * US, 131 * US))


@pytest.mark.parametrize(("ahead", "expected"), [(True, [20, 0]), (False, [20, 20])])
def test_a_delay_explains_nothing_after_the_host_has_caught_up(*, ahead: bool, expected: list[int]) -> None:
    """A delay of 100 us has 80 us left after the first gap. They no longer count once the host is ahead of the GPU."""
    idle = idle_pieces(trace_of(catching_up(ahead=ahead)), 10 * US, 150 * US)
    assert (idle.gaps.spans.start // US).tolist() == [20, 120]
    assert explained(idle, 100, 0) == expected


def test_a_delay_of_another_process_explains_nothing() -> None:
    """The first and the third gap end with kernels of one process, the second with one of another process."""
    made = with_gaps(20, 20, 20, processes=(4711, PEER, 4711))
    idle = pieces(trace_of(made), 20, 20, 20)
    assert explained(idle, 1000, 0, 0) == [20, 0, 20]
    assert explained(idle, 0, 1000, 0) == [0, 20, 0]


def test_only_free_pieces_are_explained_and_only_they_use_up_a_delay() -> None:
    """The CPU time of the first gap has another root cause. The delay explains the other 10 us and later CPU time."""
    idle = pieces(trace_of(with_gaps(40, 24)), 40, 24)
    free = ~idle.is_cause("cpu") | (idle.gap == 1)
    mask = idle.set_back(np.array([True, False]), np.array([17, 0]) * US, free, idle.none)
    assert (idle.length[mask] // US).tolist() == [2, QUEUED, 14]


def test_the_length_of_the_call_in_which_a_gap_begins() -> None:
    """A call counts from the start of the window. The call from -30 to 20 has 20 us in a window from 0 on."""
    made = with_gaps(40, 24).call("cudaStreamSynchronize", -30 * US, 20 * US)
    made.call("cudaStreamSynchronize", 65 * US, 70 * US)
    idle = pieces(trace_of(made), 40, 24)
    waits, every = (api_calls.SYNCHRONIZATION,), np.ones(2, bool)
    assert (idle.call_length(waits, every) // US).tolist() == [20, 0]
    assert idle.call_length((api_calls.ALLOCATION,), every).tolist() == [0, 0]
    assert idle.call_length(waits, ~every).tolist() == [0, 0]


def test_masks_over_the_pieces_of_gaps() -> None:
    """Masks select pieces by their place in a gap. Both launches are chosen first, then only that of the second gap."""
    idle = pieces(trace_of(with_gaps(40, 24)), 40, 24)
    launch = idle.is_cause("launch")
    assert idle.from_first(launch).tolist() == [False, True, True] * 2
    assert idle.until_last(launch).tolist() == [True, True, False] * 2
    second = launch & (idle.gap == 1)
    assert idle.any_in_gap(second).tolist() == [False, True]
    assert idle.from_first(second).tolist() == [False] * 4 + [True] * 2
    assert idle.until_last(second).tolist() == [False] * 3 + [True, True, False]
    assert idle.gaps.ender.tolist() == [1, 2]
