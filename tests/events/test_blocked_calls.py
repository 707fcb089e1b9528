"""Calls that wait for a pipe, a socket or a terminal get names of their own, from samples of the host."""

from collections.abc import Sequence

import pytest
from export_builder import MAIN, PID, ExportBuilder, trace_of
from host_records import STARTED_NS, record_of, recorded
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.capture import host_monitor as program
from nsyswrap.events import api_calls
from nsyswrap.events.api_calls import os_call_kind
from nsyswrap.events.blocked_calls import name_blocked_calls
from nsyswrap.events.host_record import HostRecord
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace

STEPS = 4
LENGTH = 1000


def loop(phase: str = "forward") -> ExportBuilder:
    """Return steps that write for 100 ns, read for 300 ns in a phase, and read for 100 ns outside of it."""
    builder = ExportBuilder().session()
    for number in range(STEPS):
        at = number * LENGTH
        builder.range(f"batch {number}", at, at + LENGTH).range(phase, at + 200, at + 600)
        builder.os_call("write", at + 50, at + 150).os_call("read", at + 250, at + 550)
        builder.os_call("read", at + 700, at + 800)
    return builder


def seen(moments: Sequence[tuple[int, str]], thread: int = PID) -> HostRecord:
    """Return a record in which a thread was blocked at some moments on something."""
    at, on = [STARTED_NS + each for each, _ in sorted(moments)], [on for _, on in sorted(moments)]
    return record_of(recorded([0], waits=[{"process": PID, "thread": thread, "at_ns": at, "on": on}]))


def names(trace: Trace) -> list[str]:
    """Return the names of the calls in order of time."""
    return [trace.text(each) for each in trace[tables.OS_CALLS]["name_id"].tolist()]


def test_calls_of_one_name_in_one_phase_are_named_alike() -> None:
    """One sample in the second step names the reads of that phase in all steps, and no other call."""
    found = name_blocked_calls(trace_of(loop()), seen([(LENGTH + 400, "pipe")]))
    assert names(found) == ["write", "read (pipe)", "read"] * STEPS


def test_the_number_in_the_name_of_a_step_does_not_count() -> None:
    found = name_blocked_calls(trace_of(loop()), seen([(750, "socket"), (60, "terminal")]))
    assert names(found) == ["write (terminal)", "read", "read (socket)"] * STEPS


@pytest.mark.parametrize(
    "moments",
    [
        [],
        [(400, "file")],
        [(400, "pipe"), (1400, "file")],
        [(20, "pipe"), (160, "pipe")],
        [(400, "what no version of this program writes")],
    ],
    ids=["none", "a file", "as many files", "outside of calls", "unknown"],
)
def test_without_a_majority_calls_keep_their_names(moments: list[tuple[int, str]]) -> None:
    assert names(name_blocked_calls(trace_of(loop()), seen(moments))) == ["write", "read", "read"] * STEPS


def test_the_majority_of_the_samples_counts() -> None:
    record = seen([(400, "pipe"), (1300, "file"), (1400, "pipe")])
    assert names(name_blocked_calls(trace_of(loop()), record))[1] == "read (pipe)"


def test_samples_of_other_threads_do_not_count() -> None:
    trace = trace_of(loop())
    assert names(name_blocked_calls(trace, seen([(400, "pipe")], thread=PID + 1))) == names(trace)


def test_only_calls_on_files_are_renamed() -> None:
    """The sample's time may lie in a call beside the read; that call is what it says."""
    builder = ExportBuilder().session().os_call("poll", 100, 900)
    assert names(name_blocked_calls(trace_of(builder), seen([(400, "pipe")]))) == ["poll"]


def test_such_a_call_is_a_wait_for_others() -> None:
    assert set(api_calls.NOT_FILES) == {program.PIPE, program.SOCKET, program.TERMINAL}
    for call in ("read", "write", "fread"):
        assert os_call_kind(call) == api_calls.FILE_IO
        for on in api_calls.NOT_FILES:
            assert os_call_kind(api_calls.named_after(call, on)) == api_calls.OTHER_WAIT


@given(st.lists(st.tuples(st.integers(0, STEPS * LENGTH), st.sampled_from(["pipe", "file", "socket", "terminal"]))))
def test_names_change_and_nothing_else(moments: list[tuple[int, str]]) -> None:
    """Times, threads and the number of calls stay; a name is the old one, or the old one with what it waits for."""
    trace = trace_of(loop())
    found = name_blocked_calls(trace, seen(moments))
    columns = ["start", "end", "thread"]
    assert found[tables.OS_CALLS][columns].equals(trace[tables.OS_CALLS][columns])
    for before, after in zip(names(trace), names(found), strict=True):
        assert after in {before, *(api_calls.named_after(before, on) for on in api_calls.NOT_FILES)}
    assert trace[tables.OS_CALLS]["thread"].unique().tolist() == [MAIN]
