"""Memory copies and memsets: bytes, rate, exposed time, which calls block the CPU, and the findings on them."""

from typing import Any

import numpy as np
import pytest
from analysis_fixtures import attributions_of, run_section, window
from export_builder import (
    DEVICE,
    DEVICE_TO_DEVICE,
    DEVICE_TO_HOST,
    HOST_TO_DEVICE,
    MAIN,
    PAGEABLE,
    PEER_TO_PEER,
    PINNED,
    ExportBuilder,
    trace_of,
)
from real_captures import RealContext, every_gpu_capture
from savings import ends_of

from nsyswrap.base.intervals import LabelledSpans
from nsyswrap.events.api_calls import BLOCKING_COPY
from nsyswrap.events.thread_states import NAMES
from nsyswrap.loop.context import find_context, find_states
from nsyswrap.model import Finding, Section
from nsyswrap.report import choose_window
from nsyswrap.sections import copies, idle, ledger
from nsyswrap.trace.tables import Trace

FROM_PAGEABLE: dict[str, Any] = {"srcKind": PAGEABLE, "dstKind": DEVICE}


def section(trace: Trace, start: int = 0, end: int = 1000) -> Section:
    return run_section(copies, find_context(trace), window(start, end))


def rows(found: Section, *columns: str) -> list[tuple[object, ...]]:
    """Return some columns of the table, longest time first."""
    table = found.tables["summary"]
    return list(zip(*(table[column].tolist() for column in columns), strict=True))


def value(found: Section, label: str) -> object:
    fact = found.fact(label)
    return None if fact is None else fact.value


def main_states(trace: Trace) -> LabelledSpans:
    return find_states(find_context(trace), window(0, 1000)).of(MAIN)


def finding(found: Section, rule: str) -> Finding | None:
    """Return the finding of a rule, or None."""
    return next((each for each in found.findings if each.rule == rule), None)


def test_the_table_has_a_row_for_each_direction_and_kind_of_memory() -> None:
    built = ExportBuilder().copy(0, 100).copy(100, 130, **FROM_PAGEABLE).copy(130, 140, DEVICE_TO_HOST).fill(150, 155)
    assert rows(section(trace_of(built)), "kind", "source_memory", "target_memory", "count", "total_ns", "bytes") == [
        ("Host-to-Device", "Pinned", "Device", 1, 100, 1024),
        ("Host-to-Device", "Pageable", "Device", 1, 30, 1024),
        ("Device-to-Host", "Device", "Pinned", 1, 10, 1024),
        ("Memset", "", "Device", 1, 5, 1024),
    ]


def test_the_rate_is_bytes_over_time() -> None:
    """3000 bytes in 200 ns are 15 GB a second."""
    built = ExportBuilder().copy(0, 100, bytes=1000).copy(200, 300, bytes=2000)
    assert rows(section(trace_of(built)), "per_second_bytes") == [(15e9,)]


def test_the_window_cuts_times_and_not_the_rate() -> None:
    """Half of the copy is outside the window, so half of its time counts, with the rate of the whole copy."""
    found = section(trace_of(ExportBuilder().copy(0, 100, bytes=1000)), start=50)
    assert rows(found, "total_ns", "bytes", "per_second_bytes", "exposed_ns") == [(50, 1000, 10e9, 50)]


def test_a_copy_that_took_no_time_has_no_rate() -> None:
    found = section(trace_of(ExportBuilder().copy(10, 10)))
    assert np.isnan(found.tables["summary"]["per_second_bytes"][0])


def test_a_copy_beside_a_kernel_is_not_exposed() -> None:
    """A kernel covers 60 of the 100 ns of the copy."""
    found = section(trace_of(ExportBuilder().copy(0, 100).kernel(0, 60, stream=8)))
    assert rows(found, "total_ns", "exposed_ns") == [(100, 40)]
    assert value(found, "exposed_share") == pytest.approx(0.4)


def test_parallel_copies_count_once_in_the_facts() -> None:
    """Two engines copy for 100 ns each, 50 of them at the same time, which is 150 ns of copying."""
    found = section(trace_of(ExportBuilder().copy(0, 100).copy(50, 150, DEVICE_TO_HOST, stream=8)))
    assert (value(found, "copy_ns"), value(found, "copied_bytes"), value(found, "exposed_share")) == (150, 2048, 1.0)


@pytest.mark.parametrize(
    ("call", "source", "target", "blocking"),
    [
        ("cudaMemcpyAsync_v3020", PINNED, DEVICE, 0),
        ("cudaMemcpyAsync_v3020", PAGEABLE, DEVICE, 1),
        ("cudaMemcpyAsync_v3020", DEVICE, PAGEABLE, 1),
        ("cudaMemcpy_v3020", PINNED, DEVICE, 1),
        ("cuMemcpyHtoD_v2", PINNED, DEVICE, 1),
        ("cudaMemcpy_v3020", DEVICE, DEVICE, 0),
        ("cudaMemcpy_ptds_v7000", PINNED, DEVICE, 1),
        ("cudaGraphLaunch_v10000", PAGEABLE, DEVICE, 0),
    ],
)
def test_which_calls_block_the_cpu(call: str, source: int, target: int, blocking: int) -> None:
    """Copies of pageable memory block, and calls without Async, except inside a device. Graphs never block."""
    built = ExportBuilder().copy(50, 90, launched=(10, 20), call=call, srcKind=source, dstKind=target)
    trace = trace_of(built)
    found = section(trace)
    assert (rows(found, "blocking_count"), value(found, "blocking_count")) == ([(blocking,)], blocking)
    states = main_states(trace)
    assert (states.code // NAMES == BLOCKING_COPY).tolist() == [True] * blocking, "idle time uses the same rule"


def test_a_call_of_two_copies_blocks_if_one_of_them_does() -> None:
    built = ExportBuilder().copy(50, 90, launched=(10, 20), call="cudaMemcpy", correlation=9)
    trace = trace_of(built.copy(90, 95, DEVICE_TO_DEVICE, correlation=9))
    states = main_states(trace)
    assert (states.code // NAMES).tolist() == [BLOCKING_COPY]


def test_a_copy_of_an_unknown_call_is_not_blocking() -> None:
    found = section(trace_of(ExportBuilder().copy(0, 900, **FROM_PAGEABLE)))
    assert value(found, "blocking_count") == 0
    assert finding(found, "copies/pageable") is None


def test_kinds_without_a_label_show_their_number() -> None:
    """A kind of memory that is not in the export is empty."""
    found = section(trace_of(ExportBuilder().copy(0, 9, 77, srcKind=66, dstKind=None)))
    assert rows(found, "kind", "source_memory", "target_memory") == [("kind 77", "kind 66", "")]


def test_a_window_without_copies_is_empty() -> None:
    found = section(trace_of(ExportBuilder().copy(0, 9).fill(10, 19)), start=500)
    assert len(found.tables["summary"]) == 0
    assert [fact.value for fact in found.facts] == [0, 0, None, 0]


def test_pageable_copies_lose_their_idle_and_their_exposed_time() -> None:
    """The kernel's launch is unknown, so the idle time before it is not traced, and there is no simulation.

    ::

        call     |------------|        100 to 400
        kernel       |----|            200 to 300
        copy         |--------|        200 to 390
    """
    built = ExportBuilder().copy(200, 390, launched=(100, 400), bytes=1900, **FROM_PAGEABLE)
    found = finding(section(trace_of(built.kernel(200, 300, stream=8))), "copies/pageable")
    assert found is not None
    assert (found.lost_ns, *ends_of(found), found.device_id) == (100, None, None, 0)
    assert found.evidence == (
        "the GPU is idle for 10 ns because of them, and copies for 90 ns with no kernel running",
        "they block the host for 300 ns, in 1 call",
        "190 ns in 1 Host-to-Device copy, Pageable to Device, 1.86 KiB, 9.31 GiB a second, 90 ns of it exposed",
        "no saving is predicted: the simulation does not reproduce this run",
    )
    assert "pin_memory" in found.advice


def test_a_call_of_several_copies_is_counted_once() -> None:
    built = ExportBuilder().copy(200, 300, launched=(100, 400), correlation=9, **FROM_PAGEABLE)
    found = finding(section(trace_of(built.copy(300, 390, correlation=9, **FROM_PAGEABLE))), "copies/pageable")
    assert found is not None
    assert found.lost_ns == 300
    assert found.evidence[1] == "they block the host for 300 ns, in 1 call"


LARGE = 1 << 16


def read(size: int, memory: int = PAGEABLE) -> ExportBuilder:
    """Return a copy to the CPU from 100 to 400 between two kernels; its call blocks from 50 to 450.

    ::

        call           |-------------------|           50 to 450
        copy             |--------------|             100 to 400
        kernel   |######|                  |##|  to 100 and from 460
    """
    built = ExportBuilder().kernel(20, 100, launched=(0, 10))
    built.copy(100, 400, DEVICE_TO_HOST, launched=(50, 450), bytes=size, srcKind=DEVICE, dstKind=memory)
    return built.kernel(460, 1000, launched=(452, 456))


def test_a_large_pageable_copy_to_the_cpu_is_staged() -> None:
    """The copy takes 300 ns. Because the call blocks the CPU until 450, the GPU is idle from 400 to 460."""
    found = section(trace_of(read(LARGE)))
    pageable = finding(found, "copies/pageable")
    assert pageable is not None
    assert (pageable.lost_ns, pageable.severity) == (360, "problem")
    assert pageable.evidence[:3] == (
        "the GPU is idle for 60 ns because of them, and copies for 300 ns with no kernel running",
        "they block the host for 400 ns, in 1 call",
        "300 ns in 1 Device-to-Host copy, Device to Pageable, 64.0 KiB, 203 GiB a second, 300 ns of it exposed",
    )
    assert "To the host, copy into a pinned tensor" in pageable.advice
    assert finding(found, "copies/exposed") is None, "its 300 ns count once"


@pytest.mark.parametrize(("size", "memory"), [(LARGE - 1, PAGEABLE), (LARGE, PINNED)])
def test_a_small_copy_to_the_cpu_is_a_read_of_a_value(size: int, memory: int) -> None:
    """It does not count as a pageable copy, so its exposed time is that of any other copy."""
    found = section(trace_of(read(size, memory)))
    assert finding(found, "copies/pageable") is None
    exposed = finding(found, "copies/exposed")
    assert exposed is not None
    assert exposed.lost_ns == 300


@pytest.mark.parametrize(("size", "rule"), [(LARGE, "copies/pageable"), (LARGE - 1, "synchronization/in_step")])
def test_idle_time_around_a_copy_to_the_cpu_belongs_to_its_kind(size: int, rule: str) -> None:
    """A copy of 300 ns runs while the call blocks, and the GPU is then idle for 60 ns until the next kernel.

    From 400 to 450 the call is open, and from 450 to 460 the CPU launches again: both are due to the wait.
    """
    table = run_section(idle, find_context(trace_of(read(size))), window(20, 1000)).tables["attribution"]
    assert table.groupby("rule")["idle_ns"].sum().to_dict() == {rule: 60}


@pytest.mark.parametrize(
    ("kind", "advised"),
    [
        (HOST_TO_DEVICE, "Copy the next batch"),
        (DEVICE_TO_HOST, "to the host less often"),
        (DEVICE_TO_DEVICE, "inside the GPU"),
        (PEER_TO_PEER, "from GPU to GPU"),
        (77, "Copy the next batch"),
    ],
)
def test_the_advice_on_exposed_copies_is_that_of_the_longest_direction(kind: int, advised: str) -> None:
    """There is a copy of 400 ns in one direction and a copy of 100 ns in another."""
    other = DEVICE_TO_HOST if kind == HOST_TO_DEVICE else HOST_TO_DEVICE
    found = section(trace_of(ExportBuilder().copy(0, 400, kind).copy(500, 600, other)))
    exposed = finding(found, "copies/exposed")
    assert exposed is not None
    assert exposed.lost_ns == 500
    assert advised in exposed.advice


def test_overlapped_copies_are_no_finding() -> None:
    found = section(trace_of(ExportBuilder().copy(0, 900).kernel(0, 900, stream=8)))
    assert found.findings == ()


def test_findings_are_of_one_gpu_each() -> None:
    built = ExportBuilder().copy(0, 300).copy(0, 400, DEVICE_TO_DEVICE, device=1)
    assert [(each.device_id, each.lost_ns) for each in section(trace_of(built)).findings] == [(1, 400), (0, 300)]


@pytest.mark.parametrize("kind", [HOST_TO_DEVICE, DEVICE_TO_DEVICE])
def test_old_exports_without_kinds_of_memory_have_all_other_columns(kind: int) -> None:
    built = ExportBuilder(2022).copy(0, 100, kind, launched=(0, 9))
    found = section(trace_of(built.without("CUPTI_ACTIVITY_KIND_MEMCPY", "srcKind", "dstKind")))
    assert rows(found, "source_memory", "target_memory", "total_ns", "blocking_count") == [("", "", 100, 0)]


@every_gpu_capture
def test_exposed_time_is_that_of_the_ledger(real_context: RealContext, name: str) -> None:
    """Rows add up to at least the ledger's exposed copy time, and to no more than their own; facts are the ledger's."""
    context = real_context(name)
    chosen = choose_window(context)
    found = run_section(copies, context, chosen)
    table = found.tables["summary"]
    devices = run_section(ledger, context, chosen).tables["devices"]
    moved = table[table["kind"] != "Memset"]
    assert (table["exposed_ns"] <= table["total_ns"]).all()
    assert moved["exposed_ns"].sum() >= devices["copy_exposed_ns"].sum()
    share, busy = value(found, "exposed_share"), value(found, "copy_ns")
    assert isinstance(busy, int)
    if busy:
        assert isinstance(share, float)
        assert round(share * busy) == devices["copy_exposed_ns"].sum()


@every_gpu_capture
def test_the_findings_count_the_idle_and_the_exposed_time_of_other_sections(
    real_context: RealContext, name: str
) -> None:
    """Of each GPU, both findings lose the idle time of copies in the attribution and the ledger's exposed copies."""
    context = real_context(name)
    chosen = choose_window(context)
    found = run_section(copies, context, chosen)
    exposed = run_section(ledger, context, chosen).tables["devices"].set_index("device_id")["copy_exposed_ns"]
    for attribution in attributions_of(context, chosen):
        device = attribution.device_id
        lost = {each.rule: each.lost_ns for each in found.findings if each.device_id == device}
        if set(lost) == {"copies/pageable", "copies/exposed"}:
            assert sum(lost.values()) == attribution.idle_of("copies/pageable") + exposed[device]
        assert lost.get("copies/exposed", 0) <= exposed[device]
        assert lost.get("copies/pageable", 0) <= attribution.idle_of("copies/pageable") + exposed[device]
