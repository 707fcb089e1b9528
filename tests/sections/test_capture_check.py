"""Is the capture complete? What is missing is found, and what is whole is not suspected."""

from collections.abc import Callable

import pytest
from analysis_fixtures import run_section, window
from export_builder import ExportBuilder, global_id, thread

from nsyswrap.loop.context import find_context
from nsyswrap.model import Section, Severity
from nsyswrap.sections import capture_check
from nsyswrap.tables import Trace

TraceOf = Callable[[ExportBuilder], Trace]

AUTOGRAD = thread(4712)
PEER = global_id(5000)


def section_of(trace: Trace) -> Section:
    """Return the section of a stretch."""
    return run_section(capture_check, find_context(trace), window(0, 1000))


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


def notes_of(builder: ExportBuilder, trace_of: TraceOf) -> tuple[str, ...]:
    """Return the notes of a capture in which nothing is found to be missing."""
    section = section_of(trace_of(builder))
    assert section.findings == ()
    return section.notes


def many_kernels(count: int = 199) -> ExportBuilder:
    """Kernels of 2 ns with their calls, from 0 to 1000."""
    builder = ExportBuilder()
    for start in range(0, 5 * count, 5):
        builder.kernel(start + 2, start + 4, launched=(start, start + 1))
    return builder


def test_an_orphan_outside_the_window_does_not_matter(trace_of: TraceOf) -> None:
    """Recording began while it ran; the window holds nothing of it."""
    assert notes_of(one_kernel().kernel(-30, 0), trace_of) == ()


def test_a_few_orphans_of_many_operations_are_noted(trace_of: TraceOf) -> None:
    """1 of 200, and 2 of 400 ns."""
    (note,) = notes_of(many_kernels().kernel(1, 3), trace_of)
    assert note.startswith(
        "1 of 200 GPU operations in the window have no host call: less than 1.0 % of them and of their "
    )


def test_two_of_two_hundred_operations_are_no_few(trace_of: TraceOf) -> None:
    ((rule, _, headline),) = found(trace_of(many_kernels(198).kernel(1, 3).kernel(6, 8)))
    assert rule == "capture/incomplete"
    assert headline == "The capture is incomplete: 2 of 200 GPU operations have no host call."


def test_one_long_orphan_weighs_by_its_time(trace_of: TraceOf) -> None:
    """1 of 200 operations, and a third of their time."""
    assert [rule for rule, _, _ in found(trace_of(many_kernels().kernel(0, 200)))] == ["capture/incomplete"]


@pytest.mark.parametrize("kind", [11, 12, 13])
@pytest.mark.parametrize("correlation", [0, None])
def test_migrations_of_unified_memory_miss_no_call(kind: int, correlation: int | None, trace_of: TraceOf) -> None:
    """Page faults begin them; they have no stream either."""
    builder = one_kernel()
    for start in range(100, 500, 100):
        builder.copy(start, start + 50, kind, correlation=correlation, stream=None)
    (note,) = notes_of(builder, trace_of)
    assert note == "4 migrations of unified memory in the window: page faults begin these, no host call does."


def test_a_copy_of_another_kind_without_its_call_is_missed(trace_of: TraceOf) -> None:
    assert [rule for rule, _, _ in found(trace_of(one_kernel().copy(100, 150)))] == ["capture/incomplete"]


def two_ranks(builder: ExportBuilder) -> ExportBuilder:
    """A kernel of each of two processes, both on what they call GPU 0."""
    builder.kernel(10, 20, launched=(1, 2)).kernel(30, 40, launched=(3, 4), process=PEER)
    return builder


@pytest.mark.parametrize("release", [2023, 2025])
def test_several_processes_without_a_table_of_gpus_are_noted(release: int, trace_of: TraceOf) -> None:
    (note,) = notes_of(two_ranks(ExportBuilder(release).gpu(0).gpu(1)), trace_of)
    assert note.startswith("2 processes use GPUs, and the capture does not tell how CUDA_VISIBLE_DEVICES numbers them")


def test_there_is_no_doubt_with_a_table_of_gpus_or_with_one_gpu(trace_of: TraceOf) -> None:
    told = ExportBuilder().gpu(0).gpu(1).visible_device(0, 0).visible_device(0, 1, pid=5000)
    assert notes_of(two_ranks(told), trace_of) == ()
    assert notes_of(two_ranks(ExportBuilder(2023).gpu(0)), trace_of) == ()


def test_a_process_whose_gpu_is_told_twice_is_noted(trace_of: TraceOf) -> None:
    """Processes of two containers have one number; of a process that uses no GPU nothing is said."""
    builder = ExportBuilder().gpu(0).gpu(1)
    for gpu in (1, 0):
        builder.visible_device(0, gpu, pid=5000).visible_device(0, gpu, pid=6000)
    assert notes_of(two_ranks(builder), trace_of) == (
        "The capture names several GPUs for one number of process 5000: the highest is taken.",
    )


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


def training_in_a_thread() -> ExportBuilder:
    """The main thread allocates and copies the model to the GPU; another thread launches all kernels."""
    builder = ExportBuilder().call("cudaMalloc", 0, 2).copy(4, 5, launched=(2, 3))
    for start in range(0, 1000, 100):
        builder.kernel(start + 20, start + 30, launched=(start + 10, start + 11), thread=AUTOGRAD)
    return builder


def test_a_main_thread_that_only_sets_up_is_not_suspected(trace_of: TraceOf) -> None:
    """It allocates and copies, and leaves the rest to a thread that trains or serves: nothing is missing."""
    assert found(trace_of(training_in_a_thread())) == []


def test_where_nsys_counted_its_events_no_thread_is_suspected(trace_of: TraceOf) -> None:
    """Ten kernels and four of the main thread's, each with its call: all 28 events arrived."""
    assert found(trace_of(training(300).diagnostic("Number of CUDA events collected: 28."))) == []


def test_a_count_that_does_not_match_proves_nothing(trace_of: TraceOf) -> None:
    """Another process wrote no message, so what is told is not the whole."""
    ((rule, _, headline),) = found(trace_of(training(300).diagnostic("Number of CUDA events collected: 27.")))
    assert rule == "capture/incomplete"
    assert "CUDA calls stop" in headline


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
