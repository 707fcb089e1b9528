"""Memory on the GPUs: how much is held over time, what counts as an allocation, and allocations in each step."""

from collections.abc import Callable
from typing import Any

import pytest
from analysis_fixtures import run_section, window
from export_builder import DEVICE, PINNED, PROCESS, ExportBuilder, global_id, trace_of
from hypothesis import given
from hypothesis import strategies as st
from savings import saving_of

from nsyswrap.loop.context import find_context
from nsyswrap.model import Finding, Section, Severity
from nsyswrap.sections import device_memory
from nsyswrap.trace.tables import Trace

MANAGED, STATIC = 4, 5
OTHER = global_id(77)


def section(trace: Trace, start: int = 0, end: int = 100) -> Section:
    return run_section(device_memory, find_context(trace), window(start, end))


def device(trace: Trace, start: int = 0, end: int = 100) -> dict[str, Any]:
    """Return the row of the only GPU."""
    (row,) = section(trace, start, end).tables["devices"].to_dict("records")
    return {str(name): value for name, value in row.items()}


def training(steps: int = 20) -> ExportBuilder:
    """Return steps of 10 ns, one after another."""
    builder = ExportBuilder().gpu().kernel(0, 1, launched=(0, 1))
    for number in range(steps):
        builder.range(f"step {number}", number * 10, number * 10 + 10)
    return builder


def churn(trace: Trace, end: int = 200) -> list[Finding]:
    return [finding for finding in section(trace, 0, end).findings if finding.rule == "memory/churn"]


def test_what_was_held_when_the_window_began_counts() -> None:
    builder = ExportBuilder().memory(10, 512).memory(60, 100).memory(90, 4000)
    row = device(trace_of(builder), 50, 80)
    assert (row["start_bytes"], row["peak_bytes"], row["capture_peak_bytes"]) == (512, 612, 4612)
    assert row["allocation_count"] == 1


def test_what_was_there_before_the_capture_is_seen_when_it_goes() -> None:
    row = device(trace_of(ExportBuilder().memory(10, 100).memory(20, 700, release=True)))
    assert (row["start_bytes"], row["peak_bytes"], row["end_bytes"]) == (600, 700, 0)


def test_what_a_process_holds_goes_with_it() -> None:
    """Two runs in one capture, one after the other, never free memory. At most 512 are held, and 300 at the end."""
    builder = ExportBuilder().memory(10, 512).kernel(20, 30, launched=(15, 16))
    builder.memory(40, 300, process=OTHER).kernel(60, 90, launched=(50, 51), process=OTHER)
    row = device(trace_of(builder))
    assert (row["peak_bytes"], row["capture_peak_bytes"], row["end_bytes"]) == (512, 512, 300)
    assert (row["allocation_count"], row["release_count"], row["released_bytes"]) == (2, 0, 0)


@pytest.mark.parametrize(
    "alive",
    [
        lambda builder: builder.kernel(70, 80, launched=(15, 16)),
        lambda builder: builder.call("cudaDeviceSynchronize", 20, 80),
        lambda builder: builder.os_call("poll", 20, 80),
        lambda builder: builder.range("forward", 75, 80),
        lambda builder: builder.scheduled(80, running=False),
    ],
)
def test_a_process_lives_until_its_last_event(alive: Callable[[ExportBuilder], ExportBuilder]) -> None:
    """The process held 512 when the other took 300; both lived at least until 75."""
    builder = alive(ExportBuilder().memory(10, 512)).memory(40, 300, process=OTHER)
    row = device(trace_of(builder.os_call("poll", 0, 95, thread=OTHER | 77)))
    assert (row["peak_bytes"], row["end_bytes"]) == (812, 300)


def test_a_range_that_was_never_closed_does_not_keep_a_process_alive() -> None:
    builder = ExportBuilder().range("forward", 5, None).memory(10, 512).memory(40, 300, process=OTHER)
    assert device(trace_of(builder.os_call("poll", 0, 95, thread=OTHER | 77)))["peak_bytes"] == 512


def test_the_peak_is_a_share_of_the_gpus_memory() -> None:
    assert device(trace_of(ExportBuilder().gpu(totalMemory=4 << 30).memory(10, 1 << 30)))["peak_share"] == 0.25


def test_memory_of_the_host_is_not_the_gpus() -> None:
    builder = ExportBuilder().memory(10, 512, PINNED).memory(20, 8, MANAGED)
    assert device(trace_of(builder))["peak_bytes"] == 8


def test_variables_of_modules_are_held_but_not_allocations() -> None:
    row = device(trace_of(ExportBuilder().memory(10, 512, STATIC)))
    assert (row["peak_bytes"], row["allocation_count"]) == (512, 0)


def test_a_gpu_is_the_physical_one() -> None:
    """The GPU that a process calls GPU 0 may be another one, as with operations."""
    assert device(trace_of(ExportBuilder().visible_device(0, 3).memory(10, 512)))["device_id"] == 3


def test_without_records_the_section_says_how_to_get_them() -> None:
    found = section(trace_of(ExportBuilder().kernel(0, 10)))
    assert (found.tables, found.facts, found.findings) == ({}, (), ())
    assert "--cuda-memory" in found.notes[0]


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 99), st.integers(1, 50), st.booleans()), min_size=1, max_size=12),
    st.integers(0, 98),
    st.integers(1, 50),
)
def test_held_at_the_end_is_held_at_the_start_and_the_changes(
    events: list[tuple[int, int, bool]], start: int, length: int
) -> None:
    """The held memory is never negative and never more than the peak."""
    builder = ExportBuilder()
    for at, size, release in events:
        builder.memory(at, size, release=release)
    row = device(trace_of(builder), start, start + length)
    assert row["end_bytes"] == row["start_bytes"] + row["allocated_bytes"] - row["released_bytes"]
    assert min(row["start_bytes"], row["end_bytes"]) >= 0
    assert max(row["start_bytes"], row["end_bytes"]) <= row["peak_bytes"] <= row["capture_peak_bytes"]


def test_measured_steps_that_allocate_are_a_finding() -> None:
    """The time lost is from the first allocation of the gap to the end of the last. CPU code after them is separate.

    ::

        GPU      15 |##| 21                                        206 |##|
        host        malloc at 21, 41, ... 181 to 185      launch at 198 to 200
        lost        |------------- 164 --------------|
    """
    builder = training()
    for step in range(2, 20, 2):
        builder.memory(step * 10 + 1, 1 << 20).call("cudaMalloc", step * 10 + 1, step * 10 + 5)
    builder.kernel(15, 21, launched=(10, 12))
    # The GPU gets work after all of them. Without them, the launch comes earlier by their length.
    (finding,) = churn(trace_of(builder.kernel(206, 208, launched=(198, 200))))
    assert finding.headline.startswith("9 of 18 measured steps allocate or free GPU memory")
    assert finding.evidence[:2] == ("9 allocations, 9.00 MiB in all", "0 releases, 0 B in all")
    assert finding.lost_ns == 164
    assert finding.evidence[3].startswith("36 ns of the host")
    # The simulation lasts until the GPU is done, 8 ns after the window: the saving is its share of the window.
    assert (finding.severity, saving_of(finding).point) == (Severity.PROBLEM, 35)


def test_releases_are_churn_too() -> None:
    builder = training()
    for step in range(2, 20):
        builder.memory(step * 10 + 1, 64, release=True)
    (finding,) = churn(trace_of(builder))
    assert finding.evidence[:2] == ("0 allocations, 0 B in all", "18 releases, 1.12 KiB in all")
    assert finding.severity is Severity.NOTE


def test_churn_on_a_gpu_that_runs_nothing_loses_no_time() -> None:
    """The program allocates memory on a second GPU and never computes there."""
    builder = training()
    for step in range(2, 20):
        builder.memory(step * 10 + 1, 64, device=1)
    (finding,) = churn(trace_of(builder))
    assert (finding.device_id, finding.lost_ns) == (1, 0)


@pytest.mark.parametrize(
    ("first", "last", "what"),
    [
        (0, 2, {}),
        (2, 3, {}),
        (2, 20, {"kind": STATIC}),
        (2, 20, {"kind": PINNED}),
        (2, 20, {"localMemoryPoolAddress": 0x7000}),
        (2, 20, {"process": OTHER}),
    ],
    ids=["warm-up", "one step", "variables of modules", "memory of the host", "a pool", "a process without steps"],
)
def test_what_is_no_churn(first: int, last: int, what: dict[str, Any]) -> None:
    builder = training()
    for step in range(first, last):
        builder.memory(step * 10 + 1, 64, **what)
    assert churn(trace_of(builder)) == []


def test_steps_outside_the_window_do_not_count() -> None:
    builder = training()
    for step in range(15, 20):
        builder.memory(step * 10 + 1, 64)
    trace = trace_of(builder)
    assert churn(trace, 100) == []
    assert len(churn(trace)) == 1


def test_calls_of_other_processes_do_not_count() -> None:
    def allocating() -> ExportBuilder:
        builder = training()
        for step in range(2, 20):
            builder.memory(step * 10 + 1, 64, DEVICE, process=PROCESS).call("cudaFree", step * 10, step * 10 + 5)
        return builder

    (alone,) = churn(trace_of(allocating()))
    (beside,) = churn(trace_of(allocating().call("cudaMalloc", 50, 90, thread=OTHER | 77)))
    assert alone.lost_ns == beside.lost_ns > 0
