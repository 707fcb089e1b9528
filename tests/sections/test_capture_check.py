"""Missing events of a capture are found and bounded, and a complete capture has no finding."""

import pytest
from analysis_fixtures import run_section, window
from export_builder import ExportBuilder, global_id, thread, trace_of
from hypothesis import given
from random_traces import Sketch, context_of, same_examples, several, sketches
from savings import ends_of

from nsyswrap.base.intervals import Window, total
from nsyswrap.loop.context import find_context
from nsyswrap.model import Section, Severity
from nsyswrap.sections import capture_check
from nsyswrap.sections.capture_check import outweighs
from nsyswrap.trace.tables import Trace

AUTOGRAD = thread(4712)
PEER = global_id(5000)


def section_of(trace: Trace) -> Section:
    """Return the section of the first 1000 ns."""
    return run_section(capture_check, find_context(trace), window(0, 1000))


def found(trace: Trace) -> list[tuple[str, Severity, str]]:
    """Return rule, severity and headline of the findings."""
    return [(each.rule, each.severity, each.headline) for each in section_of(trace).findings]


def one_kernel() -> ExportBuilder:
    """Return a kernel with its call, which are two CUDA events."""
    return ExportBuilder().kernel(10, 20, launched=(1, 2))


def test_a_whole_capture_has_no_findings() -> None:
    """A capture with all its events is complete as far as it shows."""
    section = section_of(trace_of(one_kernel().range("forward", 0, 10)))
    assert section.findings == ()
    assert {fact.label: fact.value for fact in section.facts} == {
        "complete": "yes, as far as it can tell",
        "affected_ns": 0,
        "affected_share": 0.0,
        "cuda_rows": 2,
        "nvtx_rows": 1,
    }


@pytest.mark.parametrize("counted", ["2", "1", "0"])
def test_no_fewer_events_than_were_collected_is_whole(counted: str) -> None:
    """Nsys writes the number into a message for each process."""
    assert found(trace_of(one_kernel().diagnostic(f"Number of CUDA events collected: {counted}."))) == []


def test_fewer_events_than_were_collected_are_incomplete() -> None:
    """The numbers of all processes are added up; thousands have commas. Only the 10 ns of the kernel are certain."""
    builder = one_kernel().diagnostic("Number of CUDA events collected: 1,002.")
    builder.diagnostic("Number of CUDA events collected: 3.", process=PEER)
    section = section_of(trace_of(builder.diagnostic("Number of NVTX events collected: 7.")))
    (finding,) = section.findings
    assert (finding.rule, finding.severity, finding.lost_ns) == ("capture/incomplete", Severity.PROBLEM, 990)
    assert (*ends_of(finding), finding.saving_method) == (0, 0, None)
    assert finding.evidence == (
        "1,003 CUDA events are missing: nsys counted 1,005",
        "7 NVTX events are missing: nsys counted 7",
    )
    assert section.facts[0].value == "no"


@pytest.mark.parametrize(("counted", "affected"), [(7, 270), (8, 500), (9, 600), (100, 600)])
def test_each_missing_event_changes_one_interval_without_a_kernel(counted: int, affected: int) -> None:
    """Six events are recorded. The intervals without a kernel are 270, 230 and 100 ns long; one contains the copy."""
    builder = ExportBuilder().kernel(100, 400, launched=(1, 2)).kernel(630, 730, launched=(3, 4))
    builder.copy(410, 420, launched=(5, 6)).diagnostic(f"Number of CUDA events collected: {counted}.")
    assert affected_by(builder) == affected


@pytest.mark.parametrize(("counted", "affected"), [(4, 300), (5, 600), (6, 900), (7, 990)])
def test_each_missing_range_changes_no_more_than_the_longest_phase(counted: int, affected: int) -> None:
    """Three ranges are recorded, the longest of 300 ns; 990 ns of the window are idle."""
    builder = one_kernel().range("forward", 0, 300).range("backward", 300, 500).range("optimizer", 500, 600)
    builder.diagnostic(f"Number of NVTX events collected: {counted}.")
    assert affected_by(builder) == affected


def test_a_lost_launch_call_changes_the_idle_time_it_lies_in() -> None:
    """The lost call began after the last recorded call at 1 ns and before its operation at 30 ns.

    In that time, 9 and 10 ns are idle.

    ::

        call     |r|             ?
        GPU          |kernel|         |orphan|
                 1   10     20        30     40
    """
    section = run_section(capture_check, find_context(trace_of(one_kernel().kernel(30, 40))), window(0, 40))
    (finding,) = section.findings
    assert (finding.rule, finding.severity, finding.lost_ns) == ("capture/incomplete", Severity.PROBLEM, 19)
    assert finding.headline == "The capture is incomplete: at most 19 ns of the window (47.5 %) can be wrong."
    assert finding.evidence == ("1 of 2 GPU operations in the window were launched by calls that were lost",)


def notes_of(builder: ExportBuilder) -> tuple[str, ...]:
    """Return the notes of a capture in which nothing can be wrong."""
    section = section_of(trace_of(builder))
    assert section.findings == ()
    return section.notes


def affected_by(builder: ExportBuilder, start: int = 0, end: int = 1000) -> int:
    """Return the time of a window that can be wrong."""
    section = run_section(capture_check, find_context(trace_of(builder)), window(start, end))
    assert sum(each.lost_ns for each in section.findings) == section.facts[1].value
    return int(section.facts[1].value or 0)


def delayed() -> ExportBuilder:
    """Return a recording that began late: three operations were launched before it, all others have their calls.

    ::

        calls                                 |r|       |r|
        GPU     |orphan|  |orphan||orphan|       |kernel| |kernel|
                5     10  30     40     50    60 65     80 90    99
    """
    builder = ExportBuilder().kernel(5, 10).kernel(30, 40).kernel(40, 50)
    return builder.kernel(65, 80, launched=(60, 61)).kernel(90, 99, launched=(70, 71))


def test_operations_launched_before_recording_change_only_the_gaps_they_end() -> None:
    """The gaps are 5 and 20 ns. Before the first recorded call at 60 ns, another call may have been open for 10 ns."""
    section = section_of(trace_of(delayed()))
    (finding,) = section.findings
    assert (finding.severity, finding.lost_ns) == (Severity.WARNING, 35)
    assert finding.evidence == ("3 of 5 GPU operations in the window were launched before recording began",)
    assert finding.advice.startswith("Nothing is lost")


@pytest.mark.parametrize(("start", "affected"), [(0, 35), (7, 30), (35, 10), (55, 5), (60, 0), (85, 0)])
def test_a_window_after_a_late_start_is_not_affected(start: int, affected: int) -> None:
    assert affected_by(delayed(), start) == affected


@pytest.mark.parametrize(
    ("length", "severity"),
    [(175, Severity.PROBLEM), (176, Severity.WARNING), (3500, Severity.WARNING), (3501, Severity.NOTE)],
)
def test_severity_follows_the_share_that_can_be_wrong(length: int, severity: Severity) -> None:
    """35 ns are 20 % of 175 ns, and 1 % of 3500 ns."""
    section = run_section(capture_check, find_context(trace_of(delayed())), window(0, length))
    assert [each.severity for each in section.findings] == [severity]


def test_without_any_call_the_calls_are_lost_not_early() -> None:
    """No call shows when recording began."""
    section = section_of(trace_of(delayed().without("CUPTI_ACTIVITY_KIND_RUNTIME")))
    (finding,) = section.findings
    assert finding.evidence == ("5 of 5 GPU operations in the window were launched by calls that were lost",)
    assert finding.advice.startswith("Capture again with an nsys")


def test_an_orphan_that_ends_no_gap_changes_nothing() -> None:
    """The operation runs from the first ns of the window. That time is busy, whichever call launched it."""
    builder = ExportBuilder().kernel(0, 200)
    (note,) = notes_of(builder.kernel(200, 300, launched=(0, 2)))
    assert note == (
        "1 of 2 GPU operations in the window were launched before recording began. That changes nothing in the window."
    )


@pytest.mark.parametrize("kind", [11, 12, 13])
@pytest.mark.parametrize("correlation", [0, None])
def test_migrations_of_unified_memory_miss_no_call(kind: int, correlation: int | None) -> None:
    """Page faults start migrations, which have no stream and no call."""
    builder = one_kernel()
    for start in range(100, 500, 100):
        builder.copy(start, start + 50, kind, correlation=correlation, stream=None)
    (note,) = notes_of(builder)
    assert note == "4 migrations of unified memory in the window: page faults start them."


def test_a_copy_of_another_kind_without_its_call_is_missed() -> None:
    """Its call was lost between 1 and 100 ns."""
    assert affected_by(one_kernel().copy(100, 150), 0, 150) == 9 + 80


def test_calls_are_lost_between_the_recorded_calls_around_them() -> None:
    """The id of the lost call is between those of the calls at 1 and 50 ns. The time of its operation does not matter.

    ::

        calls    |r|                      |r|
        GPU          |kernel|  |orphan|         |kernel|
                 1   10     20 30     40  50    60     70
    """
    builder = one_kernel().kernel(30, 40).kernel(60, 70, launched=(50, 51))
    assert affected_by(builder) == (10 - 1) + (30 - 20) + (50 - 40)


def test_what_one_process_lost_changes_nothing_on_the_gpu_of_another() -> None:
    """GPU 1 is busy from 10 to 20 ns; the gap before it ends with an operation that has its call."""
    alone = affected_by(one_kernel().kernel(30, 40))
    builder = one_kernel().kernel(30, 40).kernel(10, 20, launched=(1, 2), process=PEER, device=1)
    assert affected_by(builder) == alone


@pytest.mark.parametrize(("launched", "affected"), [(12, 80), (35, 65), (120, 0)])
def test_a_graph_without_a_trace_may_have_run_until_the_gap_ends(launched: int, affected: int) -> None:
    """After its launch, the graph may fill the gap from 20 to 100 ns. The window ends with the last kernel."""
    builder = one_kernel().kernel(100, 150, launched=(95, 96)).call("cudaGraphLaunch", launched, launched + 2)
    assert affected_by(builder, 0, 150) == affected


def test_a_verdict_is_silenced_only_where_more_can_be_wrong_than_it_says() -> None:
    """In this capture, 35 ns can be wrong."""
    section = section_of(trace_of(delayed()))
    assert [outweighs(section, lost) for lost in (34, 35, 500)] == [True, False, False]


@pytest.mark.slow
@several
@same_examples
@given(sketches)
def test_no_time_with_a_compute_kernel_can_be_wrong(sketch: Sketch) -> None:
    context, chosen = context_of(sketch), window(-100, 200)
    affected = run_section(capture_check, context, chosen).facts[1].value
    devices = context.operations.used_in(chosen)
    compute = sum(total(context.operations.exclusive(device, chosen)[0]) for device in devices)
    assert isinstance(affected, int)
    assert 0 <= affected <= chosen.length_ns * max(len(devices), 1) - compute


def two_ranks(builder: ExportBuilder) -> ExportBuilder:
    """Return one kernel for each of two processes, each on the GPU that the process calls GPU 0."""
    builder.kernel(10, 20, launched=(1, 2)).kernel(30, 40, launched=(3, 4), process=PEER)
    return builder


@pytest.mark.parametrize("release", [2023, 2025])
def test_several_processes_without_a_table_of_gpus_are_noted(release: int) -> None:
    (note,) = notes_of(two_ranks(ExportBuilder(release).gpu(0).gpu(1)))
    assert note.startswith("2 processes use GPUs, and the capture does not show how CUDA_VISIBLE_DEVICES numbers them")


def test_there_is_no_doubt_with_a_table_of_gpus_or_with_one_gpu() -> None:
    with_table = ExportBuilder().gpu(0).gpu(1).visible_device(0, 0).visible_device(0, 1, pid=5000)
    assert notes_of(two_ranks(with_table)) == ()
    assert notes_of(two_ranks(ExportBuilder(2023).gpu(0))) == ()


def test_a_process_with_two_gpus_for_one_number_is_noted() -> None:
    """Processes of two containers may have the same number. There is no note on a process that uses no GPU."""
    builder = ExportBuilder().gpu(0).gpu(1)
    for gpu in (1, 0):
        builder.visible_device(0, gpu, pid=5000).visible_device(0, gpu, pid=6000)
    assert notes_of(two_ranks(builder)) == (
        "The capture names several GPUs for one GPU number of process 5000: the report uses the highest.",
    )


def training(stops_at: int, main: bool = True) -> ExportBuilder:  # noqa: FBT001, FBT002 - drawn below
    """Return ten launches of autograd, 100 ns apart, and launches of the main thread until it stops."""
    builder = ExportBuilder()
    for number in range(10):
        start = number * 100
        builder.kernel(start + 20, start + 30, launched=(start, start + 1), thread=AUTOGRAD)
        if main and start <= stops_at:
            builder.kernel(start + 50, start + 60, launched=(start + 5, start + 6))
    return builder


def test_a_main_thread_that_falls_silent_while_others_launch_is_incomplete() -> None:
    """The calls of the main thread were lost.

    ::

        autograd  l  l  l  l  l  l
        main       l  l
    """
    section = section_of(trace_of(training(300)))
    (finding,) = section.findings
    assert (finding.rule, finding.severity) == ("capture/incomplete", Severity.PROBLEM)
    assert finding.evidence[0] == "the CUDA calls of main thread 4711 stop 594 ns before the last launch"
    idle_after_last_call = 1000 - 306 - (330 - 320) - (360 - 350) - 6 * 10
    assert finding.lost_ns == idle_after_last_call


def test_a_silent_main_thread_without_ranges_makes_the_whole_window_doubtful() -> None:
    """NVTX was traced, so its steps were lost, too. The window of all operations may contain more than the steps."""
    builder = training(300).row("META_DATA_CAPTURE", name="CAPTURE_EVENT_TYPE", value="NvtxEvents")
    chosen = Window(20, 930, "all GPU operations", "operations")
    finding, *_ = run_section(capture_check, find_context(trace_of(builder)), chosen).findings
    assert finding.lost_ns == 910 - 10 * 10 - 4 * 10
    assert finding.evidence[-1] == "the ranges of its steps are missing, too: the window may hold more than the steps"


@pytest.mark.parametrize("stops_at", [900, 1000])
def test_a_main_thread_that_ends_with_the_others_is_not_suspected(stops_at: int) -> None:
    """A pause of a tenth of the time does not count as silence, because the backward pass may end later."""
    assert found(trace_of(training(stops_at))) == []


def test_a_main_thread_that_never_made_a_call_is_not_suspected() -> None:
    """The program trains in another thread."""
    assert found(trace_of(training(0, main=False))) == []


def training_in_a_thread() -> ExportBuilder:
    """Return a program whose main thread allocates and copies the model; another thread launches all kernels."""
    builder = ExportBuilder().call("cudaMalloc", 0, 2).copy(4, 5, launched=(2, 3))
    for start in range(0, 1000, 100):
        builder.kernel(start + 20, start + 30, launched=(start + 10, start + 11), thread=AUTOGRAD)
    return builder


def test_a_main_thread_that_only_sets_up_is_not_suspected() -> None:
    """The main thread allocates and copies; another thread trains or serves. No event is missing."""
    assert found(trace_of(training_in_a_thread())) == []


def test_where_nsys_counted_its_events_no_thread_is_suspected() -> None:
    """There are ten kernels of autograd and four of the main thread, each with its call, so all 28 events arrived."""
    assert found(trace_of(training(300).diagnostic("Number of CUDA events collected: 28."))) == []


def test_a_count_that_does_not_match_proves_nothing() -> None:
    """Another process may have written no message, so the numbers do not cover all processes."""
    (finding,) = section_of(trace_of(training(300).diagnostic("Number of CUDA events collected: 27."))).findings
    assert finding.rule == "capture/incomplete"
    assert "the CUDA calls of main thread 4711 stop" in finding.evidence[0]


def test_a_process_that_ended_early_is_not_suspected() -> None:
    """The last launch of the process itself counts, not that of another process."""
    builder = training(900).kernel(5, 15, launched=(0, 2), process=PEER, device=1)
    assert found(trace_of(builder)) == []


def test_impossible_rows_are_a_finding() -> None:
    """An operation without times starts and ends at 0."""
    builder = one_kernel().kernel(0, 0, launched=(5, 6)).copy(40, 30, launched=(7, 8))
    rules = [(rule, severity) for rule, severity, _ in found(trace_of(builder))]
    assert rules == [("capture/impossible_rows", Severity.NOTE)] * 2


def test_traced_ranges_that_are_not_in_the_capture_are_a_finding() -> None:
    """Ranges of libraries do not count: nsys gets them in another way."""
    builder = one_kernel().row("META_DATA_CAPTURE", name="CAPTURE_EVENT_TYPE", value="NvtxEvents")
    builder.domain("NCCL", 3).range("ncclAllReduce", 0, 5, domain=3)
    ((rule, severity, headline),) = found(trace_of(builder))
    assert (rule, severity) == ("capture/no_ranges", Severity.NOTE)
    assert headline == "NVTX was traced, but the capture holds no range of the program."


def test_ranges_that_nsys_counted_are_lost_and_not_absent() -> None:
    """The program has ranges: the export lacks three of them."""
    builder = one_kernel().row("META_DATA_CAPTURE", name="CAPTURE_EVENT_TYPE", value="NvtxEvents")
    trace = trace_of(builder.diagnostic("Number of NVTX events collected: 3.", 1))
    assert "capture/no_ranges" not in {rule for rule, *_ in found(trace)}


def test_ranges_that_were_not_traced_are_not_missed() -> None:
    builder = one_kernel().row("META_DATA_CAPTURE", name="CAPTURE_EVENT_TYPE", value="Cuda")
    assert found(trace_of(builder)) == []


def test_ranges_in_a_domain_of_the_program_s_own_have_arrived() -> None:
    """A program may use its own domain name."""
    builder = one_kernel().row("META_DATA_CAPTURE", name="CAPTURE_EVENT_TYPE", value="NvtxEvents")
    builder.domain("my training", 3).range("forward", 0, 5, domain=3)
    assert found(trace_of(builder)) == []
