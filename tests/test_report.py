"""The report of a trace: its window, its sections, the notes on missing parts, and the order of findings."""

import re
from collections.abc import Callable

import pytest
from export_builder import ExportBuilder, global_id, thread, trace_of
from made_steps import STEP, made_loop
from made_steps import STEPS as MADE_STEPS
from savings import ends_of, saving_of

from nsyswrap.base.errors import CannotTellError, UsageError
from nsyswrap.base.intervals import Window
from nsyswrap.loop.context import NO_SETTINGS, Settings, find_context
from nsyswrap.loop.phase_detection import PhaseRule
from nsyswrap.model import NO_STEP, Report, Severity, StepTimes
from nsyswrap.render import FORMS, render
from nsyswrap.report import ALL, STEPS, build_report, choose_window, report_of
from nsyswrap.sections import SECTIONS
from nsyswrap.trace.tables import Trace

S = 10**9
PEER = global_id(5000)


def training() -> ExportBuilder:
    """Return six steps of 1 s; each is half a wait for data and half one kernel."""
    builder = ExportBuilder().gpu().session(duration=20 * S)
    for number in range(6):
        start = number * S
        builder.range(f"batch {number}", start, start + S).range("data", start, start + S // 2)
        builder.os_call("poll", start, start + S // 2)
        builder.kernel(start + S // 2, start + S, launched=(start + S // 2, start + S // 2 + 10))
    return builder


def one_kernel() -> ExportBuilder:
    """Return a kernel from 1 to 2 s, without ranges."""
    return ExportBuilder().gpu().kernel(S, 2 * S, launched=(S - 10, S - 5))


@pytest.fixture(scope="module")
def trained() -> Trace:
    """Return the trace of the six steps; the tests share it."""
    return trace_of(training())


@pytest.fixture(scope="module")
def trained_report(trained: Trace) -> Report:
    """Return the report of the six steps."""
    return build_report(trained)


@pytest.fixture(scope="module")
def inner_report(trained: Trace) -> Report:
    """Return the report of two of the six seconds."""
    return build_report(trained, "1:3")


def part_of(trace: Trace, key: str, wanted: str = "", settings: Settings = NO_SETTINGS) -> Report:
    """Return the report of a trace with one section, for tests that read no other."""
    return report_of(find_context(trace, settings), wanted, keys=(key,))


def window_of(trace: Trace, wanted: str = "") -> tuple[int, int, str]:
    """Return start, end and source of the chosen window."""
    window = choose_window(find_context(trace), wanted)
    return window.start_ns, window.end_ns, window.source


@pytest.mark.parametrize("wanted", ["", STEPS])
def test_with_steps_the_window_is_the_measured_steps(wanted: str, trained: Trace) -> None:
    assert window_of(trained, wanted) == (2 * S, 6 * S, "steps")


def test_all_is_from_the_first_operation_to_the_last() -> None:
    """The operations may be on any device and of any kind."""
    builder = training().copy(-5, 1, launched=(-9, -8), device=1).fill(7 * S, 8 * S, launched=(7 * S, 7 * S + 1))
    assert window_of(trace_of(builder), ALL) == (-5, 8 * S, "operations")


def test_without_steps_the_window_is_all_operations() -> None:
    assert window_of(trace_of(one_kernel())) == (S, 2 * S, "operations")


BETWEEN = {
    "0:1": (0, S),
    "1.5:2.25": (1_500_000_000, 2_250_000_000),
    " 1:2 ": (S, 2 * S),
    "4.138590623:4.138590624": (4138590623, 4138590624),
}


@pytest.mark.parametrize("wanted", BETWEEN)
def test_a_window_between_two_times_is_read_to_the_nanosecond(wanted: str, trained: Trace) -> None:
    """The times are in seconds since the start of the capture."""
    assert window_of(trained, wanted) == (*BETWEEN[wanted], "user")


@pytest.mark.parametrize(
    ("wanted", "start", "end", "label"),
    [("-1:0.5", 0, S // 2, "0 s to 0.5 s"), ("5.5:40", 5 * S + S // 2, 6 * S, "5.5 s to 6 s")],
)
def test_a_window_beyond_the_recorded_events_is_cut_with_a_note(
    wanted: str, start: int, end: int, label: str, trained: Trace
) -> None:
    """The session lasts longer than its events, and nothing is known about the time after them."""
    report = part_of(trained, "ledger", wanted)
    assert report.window == Window(start, end, label, "user")
    assert report.notes[0].startswith("--window ")
    assert label in report.notes[0]
    assert report.notes[0].count("beyond what was recorded") == 1


@pytest.mark.parametrize("wanted", ["1000:2000", "-3:-2", "6:7"])
def test_a_window_without_recorded_events_is_a_usage_error(wanted: str, trained: Trace) -> None:
    """Otherwise the GPU would count as idle for all of it."""
    with pytest.raises(UsageError, match="events lie from 0 s to 6 s"):
        build_report(trained, wanted)


def test_patterns_that_match_nothing_are_noted(trained: Trace) -> None:
    """Patterns that match are not noted, and the advice is not to name steps again."""
    rules = (PhaseRule("foo", re.compile("nosuch")), PhaseRule("mine", re.compile("^data")))
    report = part_of(trained, "steps", settings=Settings("nosuch", rules))
    assert report.notes[:2] == (
        "--step-range nosuch: no range matches, so there are no steps.",
        "--phase foo=nosuch: no range matches.",
    )
    assert not any("mine" in note for note in report.notes)
    steps = report.section("steps")
    assert steps is not None
    assert steps.notes == ("No range matches --step-range nosuch.",)
    with pytest.raises(CannotTellError, match="no range matches --step-range nosuch"):
        build_report(trained, STEPS, Settings("nosuch"))


@pytest.mark.parametrize(
    "wanted",
    [
        "Steps",
        "step",
        "1",
        "1:",
        ":1",
        "1:2:3",
        "a:b",
        "1e3:2e3",
        "nan:inf",
        "2:1",
        "1:1",
        "0:0.0000000001",
        "0:99999999999",
        "-99999999999:0",
        "\u0661:\u0662x",
        "1-2",
    ],
)
def test_a_window_that_cannot_be_read_or_is_empty_is_a_usage_error(wanted: str) -> None:
    with pytest.raises(UsageError) as raised:
        build_report(trace_of(one_kernel()), wanted)
    assert "--window" in raised.value.message
    assert "--window 12.5:14" in raised.value.hint


def test_a_window_of_steps_without_steps_is_an_error() -> None:
    with pytest.raises(CannotTellError) as raised:
        build_report(trace_of(one_kernel()), STEPS)
    assert "--step-range" in raised.value.hint


def test_without_a_gpu_the_window_is_the_steps() -> None:
    builder = ExportBuilder().session(duration=20 * S)
    for number in range(4):
        builder.range(f"step {number}", number * S, number * S + S // 2)
    report = build_report(trace_of(builder))
    assert (report.window.start_ns, report.window.end_ns) == (2 * S, 3 * S + S // 2)
    assert report.gpus == ()


def test_without_a_gpu_and_steps_the_window_is_the_whole_capture() -> None:
    builder = ExportBuilder().session(duration=20 * S).os_call("poll", S, 2 * S)
    assert window_of(trace_of(builder)) == (0, 20 * S, "session")


def test_without_a_duration_the_window_is_from_the_first_event_to_the_last() -> None:
    builder = ExportBuilder().os_call("poll", S, 2 * S).range("forward", 3 * S, 5 * S)
    assert window_of(trace_of(builder)) == (S, 5 * S, "session")


def test_a_capture_without_events_is_an_error() -> None:
    with pytest.raises(CannotTellError) as raised:
        build_report(trace_of(ExportBuilder()))
    assert "doctor" in raised.value.hint


def test_the_sections_are_in_the_order_of_the_list() -> None:
    report = build_report(trace_of(training().copy(0, 1, launched=(0, 1))))
    listed = [each for each in SECTIONS if not each.of_excerpt and each.applies is None]
    assert [section.key for section in report.sections] == [each.key for each in listed]
    assert report.notes == ()


KINDS: dict[str, Callable[[ExportBuilder], ExportBuilder]] = {
    "copy": lambda builder: builder.copy(10, 20, launched=(1, 2)),
    "memset": lambda builder: builder.fill(10, 20, launched=(1, 2)),
    "graph": lambda builder: builder.graph(10, 20, launched=(1, 2)),
    "kernel": lambda builder: builder.kernel(10, 20, launched=(1, 2)),
}


@pytest.mark.parametrize("kind", ["graph", "kernel"])
def test_a_kernel_or_a_graph_is_work_of_the_gpu(kind: str) -> None:
    """A capture whose kernels all ran inside CUDA graphs has a ledger like any other."""
    report = build_report(trace_of(KINDS[kind](ExportBuilder().gpu())))
    assert {"ledger", "idle", "launches", "copies"} <= {section.key for section in report.sections}
    assert "No GPU work" not in report.verdict
    assert all(render(form, report) for form in FORMS)


@pytest.mark.parametrize(("kind", "work"), [("copy", "1 copy of 10 ns"), ("memset", "1 memset of 10 ns")])
def test_a_gpu_that_ran_no_kernel_is_named_with_what_it_did(kind: str, work: str) -> None:
    """The window is that of the host, and no share of it is one of kernels that do not run."""
    built = KINDS[kind](ExportBuilder().gpu().session(duration=S)).call("cudaFree", 100, S // 2)
    report = build_report(trace_of(built))
    assert report.verdict.startswith(f"No kernel was recorded, only {work}.")
    assert work in report.notes[0]
    assert (report.window.start_ns, report.window.end_ns) == (0, S)
    assert report.section("ledger") is None
    assert all(render(form, report) for form in FORMS)


@pytest.mark.parametrize("kind", ["copy", "memset"])
def test_a_gpu_that_copies_for_much_of_the_time_has_a_ledger(kind: str) -> None:
    """Ten of them take 30 ns each, one every 90 ns, in a capture of 1000 ns."""
    built = ExportBuilder().gpu().session(duration=1000)
    for at in range(0, 900, 90):
        KINDS[kind](built)
        row = built.rows["CUPTI_ACTIVITY_KIND_MEMCPY" if kind == "copy" else "CUPTI_ACTIVITY_KIND_MEMSET"][-1]
        row["start"], row["end"] = at + 60, at + 90
    report = build_report(trace_of(built))
    ledger = report.section("ledger")
    assert ledger is not None
    assert (report.window.start_ns, report.window.end_ns) == (60, 900)
    (device,) = ledger.tables["devices"].to_dict("records")
    assert device["copy_exposed_ns"] + device["memset_exposed_ns"] == 300
    named = "10 copies" if kind == "copy" else "10 memsets"
    assert report.verdict.startswith(f"No kernel was recorded, only {named}, 300 ns in all. ")
    assert "Kernels do not run" not in report.verdict


def test_launches_without_a_record_are_no_absence_of_work() -> None:
    """The export holds the calls of twelve steps, and no kernel of them."""
    built = made_loop().option("CAPTURE_EVENT_TYPE", "Cuda").without("CUPTI_ACTIVITY_KIND_KERNEL")
    built.diagnostic("CUDA profiling might have not been started correctly.", severity=2)
    built.diagnostic("No cuDNN events collected. Does the process use cuDNN?", severity=2)
    report = build_report(trace_of(built))
    assert report.verdict.startswith("The GPU's records are missing: 72 launch calls were recorded and no kernel.")
    assert "CUDA work was launched (72 launch calls)" in report.notes[0]
    assert not any("saw no CUDA work" in note for note in report.notes)
    (finding,) = (each for each in report.findings if each.rule == "capture/incomplete")
    assert finding.evidence[0].startswith("72 launch calls of process 4711 have no record of the GPU")
    assert "nsys: CUDA profiling might have not been started correctly." in finding.evidence
    assert not any("cuDNN" in line for line in finding.evidence)
    assert "another profiler" in finding.advice
    assert all(render(form, report) for form in FORMS)
    text = render("text", report)
    assert "GPU busy" not in text


def test_what_nsys_says_of_lost_events_reaches_the_report() -> None:
    """Messages on other traces, on helper processes and on what was fine do not matter."""
    built = one_kernel()
    for severity, text in (
        (1, "Number of CUPTI events produced: 5, CUPTI buffers: 50."),
        (2, "Not all CUDA events might have been collected."),
        (2, "No CUDA events collected. Does the process use CUDA?"),
        (2, "No cuDNN events collected. Does the process use cuDNN?"),
        (2, "Scheduling information is absent."),
        (3, "An error occurred while CUPTI was set up."),
    ):
        built.diagnostic(text, severity)
    notes = [note for note in build_report(trace_of(built)).notes if note.startswith("nsys")]
    assert notes == [
        "nsys reports: An error occurred while CUPTI was set up.",
        "nsys warns: Not all CUDA events might have been collected.",
    ]


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_program_that_goes_on_after_its_recording_has_lost_nothing(*, goes_on: bool) -> None:
    """A warning of nsys is about what comes later; one about lost events stays."""
    built = one_kernel().diagnostic("Not all CUDA events might have been collected.", 2)
    built.diagnostic("Some events were lost.", 2)
    if goes_on:
        built.diagnostic("Stopping the profiling session using NVTX trigger.", 1)
    notes = [note for note in build_report(trace_of(built)).notes if note.startswith("nsys")]
    assert ("nsys warns: Not all CUDA events might have been collected." in notes) == (not goes_on)
    assert "nsys warns: Some events were lost." in notes


def test_graphs_without_a_record_are_no_absence_of_work() -> None:
    """Only a copy was recorded: the graphs ran, and left no trace."""
    built = ExportBuilder().gpu().session(duration=S).copy(10, 20, launched=(1, 2))
    for at in (30, 40):
        built.call("cudaGraphLaunch", at, at + 1, correlation=at)
    verdict = build_report(trace_of(built)).verdict
    assert verdict.startswith("The GPU's records are missing: 2 launch calls were recorded and no kernel.")


def test_the_lost_records_of_one_process_are_no_rank_that_is_absent() -> None:
    """Two processes launch; the records of the second are missing."""
    built = made_loop()
    for number in range(MADE_STEPS):
        at = number * STEP
        built.call("cudaLaunchKernel", at, at + 10, thread=PEER | 5000, correlation=number + 1)
    report = build_report(trace_of(built))
    notes = [note for section in report.sections for note in section.notes]
    assert "Missing are the GPU's records of the kernels of 1 process: 5000." in notes
    assert not any("not in the capture" in note for note in notes)
    assert [each for each in report.findings if each.rule == "capture/incomplete"]


@pytest.mark.parametrize(
    ("built", "why"),
    [
        (ExportBuilder().session(duration=S).call("cudaFree", 0, 5), "1 CUDA call: none launches a kernel"),
        (ExportBuilder().session(duration=S).option("CAPTURE_EVENT_TYPE", "NvtxEvents"), "CUDA was not traced"),
    ],
)
def test_without_work_the_report_says_what_was_recorded(built: ExportBuilder, why: str) -> None:
    assert why in build_report(trace_of(built)).notes[0]


def test_a_section_without_its_table_is_left_out_with_a_note() -> None:
    report = build_report(trace_of(one_kernel()))
    assert report.section("os_calls") is None
    notes = [note for note in report.notes if "no operating system calls were" in note]
    titles = "Where the launching threads wait, Operating system calls"
    assert notes == [f"Left out, since no operating system calls were recorded: {titles}."]


def test_only_gpus_that_ran_something_are_listed() -> None:
    """The GPUs are in order. The export lists all GPUs of the machine."""
    builder = ExportBuilder().gpu(2, "B").gpu(0, "A").gpu(1, "C")
    builder.kernel(0, 10, device=2, launched=(0, 1)).kernel(0, 10, device=0, launched=(2, 3))
    assert [gpu.name for gpu in part_of(trace_of(builder), "ledger").gpus] == ["A", "B"]


def test_findings_are_in_the_order_of_the_plan_and_then_of_their_predicted_saving() -> None:
    """Where savings are equal, the finding that loses more time comes first.

    Each step waits 100 ms in cudaMalloc, 67 ms in a module load and 333 ms for its batch. The loader limits the loop,
    so only faster batches save time: the four waits. After that change the others save time, too.
    """
    builder = training()
    for number in range(2, 6):
        start = number * S
        builder.call("cudaMalloc", start, start + S // 10).call("cuModuleLoadData", start + S // 10, start + S // 6)
    report = build_report(trace_of(builder))
    found = [
        (
            each.rule,
            each.severity,
            *(round(part / 1e6) for part in (each.lost_ns, saving_of(each).point if each.saving else 0)),
        )
        for each in report.findings
    ]
    assert found == [
        ("idle/data_wait", Severity.PROBLEM, 1333, 1333),
        ("memory/churn", Severity.NOTE, 400, 0),
        ("modules/in_window", Severity.NOTE, 267, 0),
        ("occupancy/small_grid", Severity.NOTE, 2000, 0),
        ("compute/kernels", Severity.NOTE, 0, 0),
    ]
    planned = [each.rule for each in report.plan.changes]
    assert planned == [each.rule for each in report.findings][: len(planned)]
    rest = [each.order for each in report.findings[len(planned) :]]
    assert rest == sorted(rest)


def test_a_finding_has_numbers_as_evidence(trained_report: Report) -> None:
    """The evidence has the time lost, the saving, the time lost in a step and by phase, and the longest gaps."""
    finding = next(each for each in trained_report.findings if each.rule == "idle/data_wait")
    assert (finding.lost_ns, saving_of(finding).point, finding.device_id) == (2 * S, 2 * S, 0)
    assert finding.evidence[0].startswith("500 ms a step, in 4 measured steps")
    assert finding.evidence[1] == "2.00 s in phase data, 4 gaps"
    assert finding.evidence[2] == "500 ms at 2.000000 s: thread 4711 waits for data in poll"
    assert finding.evidence[-1] == "simulated: batches always come in time"
    assert len(finding.evidence) == 6
    assert finding.saving_method == "simulated"


@pytest.mark.parametrize(
    ("lost", "severity"),
    [
        (19, None),
        (20, Severity.NOTE),
        (49, Severity.NOTE),
        (50, Severity.WARNING),
        (199, Severity.WARNING),
        (200, Severity.PROBLEM),
    ],
)
def test_the_time_lost_decides_the_severity(lost: int, severity: Severity | None) -> None:
    """A finding is a note from 2 % of the window, a warning from 5 %, a problem from 20 %. Cases are in thousandths."""
    builder = ExportBuilder().kernel(2, 500, launched=(0, 1)).call("cudaMalloc", 500, 500 + lost)
    builder.kernel(502 + lost, 1000, launched=(500 + lost, 501 + lost))
    report = part_of(trace_of(builder), "idle", "0:0.000001")
    found = [(each.severity, each.lost_ns) for each in report.findings if each.rule == "idle/allocation"]
    assert found == ([] if severity is None else [(severity, lost)])


def test_a_finding_that_saves_nothing_is_a_note() -> None:
    """The GPU is idle for a quarter of the window, but no operation after that is launched in the window."""
    builder = ExportBuilder().kernel(0, 750, launched=(0, 1)).call("cudaMalloc", 750, 1000)
    report = part_of(trace_of(builder.kernel(1000, 2000, launched=(1000, 1001))), "idle", "0:0.000001")
    finding = next(each for each in report.findings if each.rule == "idle/allocation")
    assert (finding.lost_ns, finding.severity) == (250, Severity.NOTE)
    assert ends_of(finding) == (0, 0)


def test_time_that_the_capture_does_not_show_is_a_note_without_a_saving() -> None:
    """No change of the program follows from it, so nothing is predicted."""
    builder = ExportBuilder().kernel(0, 500, launched=(0, 1)).kernel(1000, 2000)
    finding = next(each for each in part_of(trace_of(builder), "idle").findings if each.rule == "idle/not_traced")
    assert (finding.severity, finding.lost_ns) == (Severity.NOTE, 500)
    assert (*ends_of(finding), finding.saving_method) == (None, None, None)


def test_time_of_the_profiler_is_a_note_that_saves_nothing() -> None:
    """Without the profiler, the program does not have this idle time."""
    builder = ExportBuilder().kernel(0, S, launched=(0, 1)).overhead("CUPTI Buffer flush", S, 3 * S)
    report = part_of(trace_of(builder.kernel(3 * S, 4 * S, launched=(3 * S, 3 * S + 1))), "idle")
    (finding,) = [each for each in report.findings if each.rule == "idle/profiler"]
    assert (finding.severity, finding.lost_ns) == (Severity.NOTE, 2 * S)
    assert (*ends_of(finding), finding.saving_method) == (0, 0, None)


def test_the_report_has_count_and_median_length_of_the_measured_steps(
    trained_report: Report, inner_report: Report
) -> None:
    """Two of six steps of 1 s are warm-up. A window given by hand has no step times."""
    assert trained_report.step == StepTimes(4, S, total_ns=4 * S)
    assert inner_report.step == NO_STEP


def test_a_window_far_from_all_events_is_idle() -> None:
    """The idle time is explained by the thread that launches next, which did nothing until then."""
    late = training().kernel(300 * S, 301 * S, launched=(300 * S - 10, 300 * S - 5))
    report = part_of(trace_of(late), "idle", "100:200")
    section = report.section("idle")
    assert section
    assert section.tables["attribution"]["idle_ns"].sum() == 100 * S
    assert report.window == Window(100 * S, 200 * S, "100 s to 200 s", "user")


def test_time_lost_in_a_step_is_that_of_one_process() -> None:
    """Two ranks that take four measured steps at the same time count as four steps, not eight."""
    builder = training()
    for number in range(6):
        builder.range(f"batch {number}", number * S, number * S + S, thread=thread(5000, pid=5000))
    finding = next(each for each in part_of(trace_of(builder), "idle").findings if each.rule == "idle/data_wait")
    assert finding.evidence[0].startswith("500 ms a step, in 4 measured steps")
