"""Ranges that look like steps count only if they ended, on threads and in processes that use the GPU."""

import numpy as np
import pytest
from export_builder import MAIN, PROCESS, ExportBuilder, global_id, thread, trace_of
from real_captures import RealContext

from nsyswrap.base.intervals import Window
from nsyswrap.compare.step_times import step_times
from nsyswrap.loop.step_detection import Steps, find_steps, while_gpu_is_behind
from nsyswrap.model import Report
from nsyswrap.report import build_report, report_of

MS = 1_000_000
PEER, PEER_MAIN = global_id(5000), global_id(5000, 5000)
LOADER = thread(4720)


def trained(
    builder: ExportBuilder, count: int, *, start: int = 10, main: int = MAIN, name: str = "step {}"
) -> ExportBuilder:
    """Add consecutive steps of 10 ms from a time in ms on, each with a kernel of 9 ms."""
    for number in range(count):
        at = (start + number * 10) * MS
        builder.range(name.format(number), at, at + 10 * MS, thread=main)
        process = main & ~0xFFFFFF
        builder.kernel(at + MS, at + 10 * MS, launched=(at, at + 1000), process=process, thread=main)
    return builder


def names(steps: Steps) -> list[str]:
    return list(steps.frame["name"])


def bounds(window: Window | None) -> tuple[int, int]:
    """Return the start and the end of a window, in ms."""
    assert window
    return window.start_ns // MS, window.end_ns // MS


def facts(report: Report) -> dict[str, float | int | str | None]:
    """Return the facts about steps."""
    section = report.section("steps")
    assert section
    return {fact.label: fact.value for fact in section.facts}


def notes(report: Report) -> tuple[str, ...]:
    """Return the notes of the section on steps."""
    section = report.section("steps")
    assert section
    return section.notes


# Steps that never ended.


@pytest.mark.parametrize("end", [None, 5000 * MS])
def test_a_step_still_open_at_the_end_is_none(end: int | None) -> None:
    """The program or nsys continues for 4.9 s. Nsys 2023 closes the range when the session ends.

    ::

        [step 0][step 1] ... [step 8][step 9 ...............................
         kernel  kernel       kernel                                       ^ the capture ends
    """
    builder = trained(ExportBuilder(), 9).range("step 9", 100 * MS, end).session(duration=5000 * MS)
    report = build_report(trace_of(builder))
    assert bounds(report.window) == (30, 100)
    assert report.window.label == "7 measured steps (step 2 to step 8, 2 warm-up steps left out)"
    assert report.verdict.startswith("Kernels do not run for 10.0 % of the time")
    assert not [finding for finding in report.findings if finding.rule == "steps/uneven"]
    assert notes(report) == ("Left out: step 9, still open when the capture or the program stopped.",)


def test_the_stump_of_a_step_is_none_where_the_capture_ends_at_once() -> None:
    """Nothing follows the last range, so it would look like a short step."""
    builder = trained(ExportBuilder(), 9).range("step 9", 100 * MS, None).session(duration=103 * MS)
    report = build_report(trace_of(builder))
    assert (facts(report)["measured_steps"], facts(report)["spread_share"]) == (7, 0.0)


def test_steps_that_all_never_end_are_none() -> None:
    """Ranges are pushed and never popped; advice to mark steps would not help."""
    builder = ExportBuilder().kernel(5, 9, launched=(1, 2))
    for number in range(3):
        builder.range(f"step {number}", 10 + number, None)
    report = build_report(trace_of(builder.session(duration=100)))
    assert report.window.source == "operations"
    assert notes(report) == (
        "Left out: 3 steps (step 0 to step 2), still open when the capture or the program stopped.",
    )


def test_an_open_range_around_all_steps_does_not_hide_them() -> None:
    """The open range covers most time only because it never ended. Its spelling differs, so no step is left out."""
    builder = trained(ExportBuilder(), 4).range("training iteration 1", 0, None).session(duration=100 * MS)
    steps = find_steps(trace_of(builder))
    assert names(steps) == ["step 0", "step 1", "step 2", "step 3"]
    assert steps.notes == ()


# Threads and processes that launch nothing.


def test_a_loader_s_thread_has_no_steps_however_long_they_are() -> None:
    """The loader thread also copies to the GPU; steps are those of the thread that launches kernels."""
    builder = trained(ExportBuilder(), 4)
    for number in range(4):
        at = number * 20 * MS
        builder.range(f"load batch {number}", at, at + 19 * MS, thread=LOADER)
        builder.copy(at + MS, at + 2 * MS, launched=(at, at + 10), thread=LOADER)
    assert names(find_steps(trace_of(builder))) == ["step 0", "step 1", "step 2", "step 3"]


def test_a_graph_is_work_as_well() -> None:
    builder = ExportBuilder().range("step 1", 0, 10).graph(5, 9, launched=(1, 2))
    assert names(find_steps(trace_of(builder.range("load batch 1", 0, 90, thread=LOADER)))) == ["step 1"]


def test_where_no_thread_with_steps_launches_the_longest_steps_count() -> None:
    """A thread without ranges launches everything."""
    builder = ExportBuilder().range("step 1", 0, 10).range("batch 1", 0, 90, thread=LOADER)
    builder.kernel(5, 9, launched=(1, 2), thread=thread(4730))
    assert names(find_steps(trace_of(builder))) == ["batch 1"]


def test_loader_processes_have_no_steps() -> None:
    """Workers run ahead and finish first: with their steps the window would end too early.

    ::

        main     [step 0][step 1][step 2] ... [step 19]
        worker   [load batch 0][load batch 2]
    """
    builder = trained(ExportBuilder(), 20)
    for worker in (PEER_MAIN, global_id(5001, 5001)):
        for number in range(5):
            builder.range(f"load batch {number}", (1 + number * 20) * MS, (20 + number * 20) * MS, thread=worker)
    report = build_report(trace_of(builder))
    assert bounds(report.window) == (30, 210)
    assert report.window.label == "18 measured steps (step 2 to step 19, 2 warm-up steps left out)"
    assert notes(report) == ("Left out: the steps of 2 processes without recorded work on a GPU.",)


# Processes one after another.


def sweep(first: int, second: int) -> ExportBuilder:
    """Return an export of two programs with the given numbers of steps; the second begins 3 s after the first."""
    return trained(trained(ExportBuilder(), first), second, start=3010, main=PEER_MAIN)


def test_of_programs_one_after_another_one_is_counted() -> None:
    """The time between programs and the start of the second are left out; on a tie the first program counts."""
    report = build_report(trace_of(sweep(20, 20)))
    assert bounds(report.window) == (30, 210)
    assert report.window.label == "18 measured steps (step 2 to step 19, 2 warm-up steps left out)"
    assert (facts(report)["measured_steps"], facts(report)["warm_up_steps"]) == (18, 2)
    assert step_times(report).count == 18
    (note,) = notes(report)
    assert note.startswith(
        "Processes took steps one after another: the steps of 4711 count, which used the GPU longest."
    )
    assert "--window" in note


def test_the_program_that_used_the_gpu_longest_is_the_one() -> None:
    steps = find_steps(trace_of(sweep(20, 21)))
    assert bounds(steps.measured_window()) == (3030, 3220)
    assert (steps.measured_count, steps.processes) == (19, frozenset({PEER}))


def test_the_other_program_has_its_steps_in_its_own_window() -> None:
    """The steps of the other program are listed in its window and compared with each other."""
    report = build_report(trace_of(sweep(20, 19)), "3.03:3.2")
    assert step_times(report).count == 17


def test_without_a_gpu_the_longest_steps_are_counted() -> None:
    builder = ExportBuilder().range("step 1", 0, 10).range("step 1", 20, 50, thread=PEER_MAIN)
    steps = find_steps(trace_of(builder))
    assert steps.processes == frozenset({PEER})
    assert "which took most time in them" in steps.notes[0]


def test_ranks_side_by_side_are_counted_together() -> None:
    """Ranks that run at the same time count together, also in a sweep of programs with two ranks each."""
    builder = trained(trained(ExportBuilder(), 6), 6, start=15, main=PEER_MAIN)
    assert find_steps(trace_of(builder)).processes is None
    trained(builder, 4, start=500, main=global_id(6000, 6000))
    steps = find_steps(trace_of(builder))
    assert steps.processes == frozenset({PROCESS, PEER})
    assert (bounds(steps.measured_window()), steps.measured_count) == ((30, 75), 4)
    assert "the steps of 4711, 5000 count, which" in steps.notes[0]


@pytest.mark.parametrize(
    ("first", "expected"), [(None, 0), (5, 0), (10, 2), (15, 2), (29, 3), (30, 4), (95, 5), (200, 5)]
)
def test_steps_are_left_out_while_the_gpu_runs_what_was_launched_before_the_recording(
    first: int | None, expected: int
) -> None:
    """Steps take 10 ns. A first kernel inside the first step says nothing: a step launches before its kernels run."""
    edges = np.arange(0, 101, 10, dtype=np.int64)
    assert while_gpu_is_behind(edges[:-1], edges[1:], first).sum() == expected


def test_ranks_of_four_gpus_are_compared_from_where_all_are_recorded(real_context: RealContext) -> None:
    """The hosts of most ranks are three steps ahead of their GPUs. Rank 3 works on the host inside backward."""
    report = report_of(real_context("jobs/late_of_four"), keys=("communication", "idle"))
    assert [each.device_id for each in report.findings if each.rule == "ranks/late"] == [3]
    assert not any(each.rule == "idle/not_traced" for each in report.findings)
