"""Is the capture complete? What is missing is found, and what is whole is not suspected."""

from collections.abc import Callable

import pytest
from analysis_fixtures import window
from export_builder import ExportBuilder, global_id, thread

from nsyswrap.analyses import capture_check
from nsyswrap.analyses.base import Study
from nsyswrap.model import Section, Severity
from nsyswrap.tables import Trace

TraceOf = Callable[[ExportBuilder], Trace]

AUTOGRAD = thread(4712)
PEER = global_id(5000)


def section_of(trace: Trace) -> Section:
    """Return the section of a stretch."""
    return capture_check.run(Study(trace), window(0, 1000))


def found(trace: Trace) -> list[tuple[str, Severity, str]]:
    """Return rule, severity and headline of the findings."""
    return [(each.rule, each.severity, each.headline) for each in section_of(trace).findings]


def one_kernel() -> ExportBuilder:
    """A kernel with its call: two CUDA events."""
    return ExportBuilder().kernel(10, 20, launched=(1, 2))


def test_a_whole_capture_has_no_findings(trace_of: TraceOf) -> None:
    """It is complete as far as it can tell."""
    section = section_of(trace_of(one_kernel().range("forward", 0, 10)))
    assert section.findings == ()
    assert {fact.label: fact.value for fact in section.facts} == {
        "complete": "yes, as far as it can tell",
        "cuda_rows": 2,
        "nvtx_rows": 1,
    }


@pytest.mark.parametrize("told", ["2", "1", "0"])
def test_no_fewer_events_than_were_collected_is_whole(told: str, trace_of: TraceOf) -> None:
    """It is told how many, in a message for each process."""
    assert found(trace_of(one_kernel().diagnostic(f"Number of CUDA events collected: {told}."))) == []


def test_fewer_events_than_were_collected_is_incomplete(trace_of: TraceOf) -> None:
    """The numbers of all processes are added up; thousands have commas."""
    builder = one_kernel().diagnostic("Number of CUDA events collected: 1,002.")
    builder.diagnostic("Number of CUDA events collected: 3.", process=PEER)
    section = section_of(trace_of(builder.diagnostic("Number of NVTX events collected: 7.")))
    assert [finding.evidence for finding in section.findings] == [
        ("1003 CUDA events are missing",),
        ("7 NVTX events are missing",),
    ]
    assert {finding.rule for finding in section.findings} == {"capture/incomplete"}
    assert {finding.severity for finding in section.findings} == {Severity.PROBLEM}
    assert section.facts[0].value == "no"


def test_an_operation_without_its_call_is_incomplete(trace_of: TraceOf) -> None:
    assert found(trace_of(one_kernel().kernel(30, 40))) == [
        (
            "capture/incomplete",
            Severity.PROBLEM,
            "The capture is incomplete: 1 of 2 GPU operations have no host call.",
        )
    ]


def training(stops_at: int, main: bool = True) -> ExportBuilder:  # noqa: FBT001, FBT002 - drawn below
    """Autograd launches ten kernels, 100 ns apart; the main thread launches beside it until it stops."""
    builder = ExportBuilder()
    for number in range(10):
        start = number * 100
        builder.kernel(start + 20, start + 30, launched=(start, start + 1), thread=AUTOGRAD)
        if main and start <= stops_at:
            builder.kernel(start + 50, start + 60, launched=(start + 5, start + 6))
    return builder


def test_a_main_thread_that_falls_silent_while_others_launch_is_incomplete(trace_of: TraceOf) -> None:
    """Its calls were lost.

    ::

        autograd  l  l  l  l  l  l
        main       l  l
    """
    ((rule, _, headline),) = found(trace_of(training(300)))
    assert rule == "capture/incomplete"
    assert headline == "The capture is incomplete: the main thread's CUDA calls stop 594 ns before the last launch."


@pytest.mark.parametrize("stops_at", [900, 1000])
def test_a_main_thread_that_ends_with_the_others_is_not_suspected(stops_at: int, trace_of: TraceOf) -> None:
    """A tenth of the time is no silence: backward may well outlive it."""
    assert found(trace_of(training(stops_at))) == []


def test_a_main_thread_that_never_made_a_call_is_not_suspected(trace_of: TraceOf) -> None:
    """The program trains in a thread."""
    assert found(trace_of(training(0, main=False))) == []


def test_each_process_is_looked_at(trace_of: TraceOf) -> None:
    """One that ended early did not fall silent."""
    builder = training(900).kernel(5, 15, launched=(0, 2), process=PEER, device=1)
    assert found(trace_of(builder)) == []


def test_rows_that_cannot_be_true_are_told(trace_of: TraceOf) -> None:
    """An operation that could not be timed has zeros."""
    builder = one_kernel().kernel(0, 0, launched=(5, 6)).copy(40, 30, launched=(7, 8))
    rules = [(rule, severity) for rule, severity, _ in found(trace_of(builder))]
    assert rules == [("capture/impossible_rows", Severity.WARNING)] * 2


def test_ranges_that_were_traced_and_did_not_arrive_are_told(trace_of: TraceOf) -> None:
    """Those of libraries do not count: they come by another way."""
    builder = one_kernel().row("META_DATA_CAPTURE", name="CAPTURE_EVENT_TYPE", value="NvtxEvents")
    builder.domain("NCCL", 3).range("ncclAllReduce", 0, 5, domain=3)
    ((rule, severity, headline),) = found(trace_of(builder))
    assert (rule, severity) == ("capture/no_ranges", Severity.NOTE)
    assert headline == "NVTX was traced, but no range of the program arrived."


def test_ranges_that_were_not_traced_are_not_missed(trace_of: TraceOf) -> None:
    builder = one_kernel().row("META_DATA_CAPTURE", name="CAPTURE_EVENT_TYPE", value="Cuda")
    assert found(trace_of(builder)) == []


def test_ranges_in_a_domain_of_the_program_s_own_have_arrived(trace_of: TraceOf) -> None:
    """A program may name its domain."""
    builder = one_kernel().row("META_DATA_CAPTURE", name="CAPTURE_EVENT_TYPE", value="NvtxEvents")
    builder.domain("my training", 3).range("forward", 0, 5, domain=3)
    assert found(trace_of(builder)) == []
