"""Steps of the training loop are found in ranges, warm-up steps are recognized, and the others define the window."""

import numpy as np
import pytest
from analysis_fixtures import run_section
from export_builder import ExportBuilder, global_id, thread, trace_of

from nsyswrap.base.errors import UsageError
from nsyswrap.base.intervals import Window
from nsyswrap.loop.context import Settings, find_context
from nsyswrap.loop.step_detection import find_steps, warm_up
from nsyswrap.sections import steps
from nsyswrap.trace.tables import Trace

PEER_MAIN = global_id(5000, 5000)


def loop(count: int, name: str = "batch {}", *, length: int = 100) -> ExportBuilder:
    """Return ranges that follow each other, 10 ns apart."""
    builder = ExportBuilder()
    for number in range(count):
        start = number * (length + 10)
        builder.range(name.format(number), start, start + length)
    return builder


def names(trace: Trace, pattern: str = "") -> list[str]:
    return list(find_steps(trace, pattern).frame["name"])


SPELLINGS = [
    "batch {}",
    "Batch {}",
    "step {}",
    "STEP_{}",
    "step #{}",
    "iteration {}",
    "iter={}",
    "iter:{}",
    "step[{}]",
    "batch({})",
    "ProfilerStep#{}",
    "epoch 3 batch {}",
    "train step {}",
    "step{}",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_range_that_ends_in_a_numbered_step_is_a_step(spelling: str) -> None:
    assert len(names(trace_of(loop(4, spelling)))) == 4


@pytest.mark.parametrize(
    "text", ["batch", "step", "steps 3 of 10 done", "forward", "batch {} forward", "epoch {}", "{}"]
)
def test_other_ranges_are_no_steps(text: str) -> None:
    assert names(trace_of(loop(4, text))) == []


def test_the_user_can_name_the_ranges_that_are_steps() -> None:
    """A regular expression for the text of ranges replaces the usual spellings."""
    builder = loop(4, "it{}").range("batch 1", 0, 500)
    assert names(trace_of(builder), "^it") == ["it0", "it1", "it2", "it3"]


def test_steps_the_user_names_are_the_phase_batch() -> None:
    """Steps that the user names belong to the phase batch, whatever their texts are."""
    context = find_context(trace_of(loop(4, "it{}").kernel(20, 30, launched=(5, 6))), Settings(step_pattern="^it"))
    assert [context.phases.name(code) for code in context.phases.of_operations(context.trace, context.operations)] == [
        "batch"
    ]


def test_a_pattern_that_is_no_regular_expression_is_an_error_of_the_user() -> None:
    with pytest.raises(UsageError, match="--step-range '\\('"):
        find_steps(trace_of(loop(1)), "(")


def test_of_nested_families_the_one_that_covers_most_time_is_taken() -> None:
    """With gradient accumulation, here two batches in each step, the steps are taken.

    ::

        [step 0           ][step 1         ]
          [batch 0][batch 1] [batch 2]...
    """
    builder = ExportBuilder()
    for number in range(3):
        builder.range(f"step {number}", number * 100, number * 100 + 98)
        for half in range(2):
            start = number * 100 + half * 48 + 1
            builder.range(f"batch {2 * number + half}", start, start + 45)
    assert names(trace_of(builder)) == ["step 0", "step 1", "step 2"]


def test_a_step_inside_another_step_is_none() -> None:
    """A loop takes its steps in turns. A function that marks a step and calls itself does not; a note counts its steps.

    ::

        [step 0                ][step 4 ][step 5 ]
          [step 1           ]
            [step 2][step 3]
    """
    builder = ExportBuilder().range("step 0", 0, 50).range("step 1", 5, 45)
    builder.range("step 2", 10, 25).range("step 3", 25, 45).range("step 4", 50, 60).range("step 5", 60, 70)
    found = find_steps(trace_of(builder))
    assert found.frame["name"].tolist() == ["step 0", "step 4", "step 5"]
    assert found.notes == ("Left out: 3 steps inside another step.",)


def test_steps_that_overlap_last_until_the_next_one_begins() -> None:
    """Of a pipeline with several steps in flight no time counts twice.

    ::

        [step 0     ]
            [step 1     ]
                    [step 2]
    """
    found = find_steps(trace_of(ExportBuilder().range("step 0", 0, 30).range("step 1", 10, 40).range("step 2", 30, 50)))
    assert found.frame[["start", "end"]].to_numpy().tolist() == [[0, 10], [10, 30], [30, 50]]
    assert found.notes == ("Cut where the next step begins: 2 steps.",)


def test_the_steps_of_a_process_are_those_of_one_thread() -> None:
    """A loader thread also numbers its batches, but only one thread of a process defines steps."""
    builder = loop(3).range("batch 0", 0, 50, thread=thread(4720)).range("batch 1", 60, 100, thread=thread(4720))
    frame = find_steps(trace_of(builder)).frame
    assert (len(frame), frame["thread"].nunique()) == (3, 1)


def test_each_process_has_steps_of_its_own() -> None:
    """Of two ranks, one marks batches and the other marks steps."""
    builder = loop(3)
    for number in range(3):
        builder.range(f"step {number}", number * 100, number * 100 + 90, thread=PEER_MAIN)
    frame = find_steps(trace_of(builder)).frame
    assert frame.groupby("process")["name"].apply(list).to_list() == [
        ["batch 0", "batch 1", "batch 2"],
        ["step 0", "step 1", "step 2"],
    ]


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([100] * 10, 2),
        ([900, 500] + [100] * 8, 2),
        ([900, 500, 300] + [100] * 7, 3),
        ([900, 500, 300, 201] + [100] * 6, 4),
        ([900, 500, 300, 200] + [100] * 6, 3),
        ([100, 100, 300, 300, 300, 300], 2),
        ([900, 800, 700, 600, 500, 100], 2),
        ([10_000, 5_000, 2_000, 900, 400, 100, 100, 100], 4),
        ([100, 100, 100, 100, 900] + [100] * 5, 2),
        ([100] * 3, 1),
        ([100] * 2, 1),
        ([100], 0),
        ([], 0),
    ],
)
def test_warm_up_is_two_steps_and_those_after_them_that_take_twice_the_median(
    lengths: list[int], expected: int
) -> None:
    """A step of exactly twice the median, or a later slow step, is not warm-up. At most half of the steps are."""
    flags = warm_up(np.array(lengths, np.int64))
    assert flags.tolist() == [True] * expected + [False] * (len(lengths) - expected)


def test_the_measured_window_lasts_from_the_first_measured_step_to_the_end_of_the_last() -> None:
    """The time between steps is part of the window. Its label names the steps and the number of warm-up steps."""
    window = find_steps(trace_of(loop(6))).measured_window()
    label = "4 measured steps (batch 2 to batch 5, 2 warm-up steps left out)"
    assert window == Window(220, 650, label, "steps")


def test_one_step_alone_is_a_window() -> None:
    """A single step is never warm-up."""
    assert find_steps(trace_of(loop(1))).measured_window() == Window(0, 100, "1 measured step (batch 0)", "steps")


def test_of_two_processes_the_window_has_the_measured_steps_of_both() -> None:
    """One process begins and ends half a step later. Each has a window of its own steps.

    ::

        rank 0   w w [3 4 5 6
        rank 1     w w 3 4 5 6]
    """
    builder = loop(6)
    for number in range(6):
        builder.range(f"batch {number}", 50 + number * 110, 150 + number * 110, thread=PEER_MAIN)
    steps = find_steps(trace_of(builder))
    window = steps.measured_window()
    assert window
    assert (window.start_ns, window.end_ns) == (220, 700)
    assert [(each.start_ns, each.end_ns) for each in steps.windows_of(window).values()] == [(220, 650), (270, 700)]
    assert window.label.startswith("4 measured steps")


def test_of_ranks_that_are_never_measured_together_the_window_spans_all() -> None:
    """The second process begins when the first one ends."""
    builder = loop(4)
    for number in range(4):
        builder.range(f"batch {number}", 400 + number * 110, 500 + number * 110, thread=PEER_MAIN)
    window = find_steps(trace_of(builder)).measured_window()
    assert window
    assert (window.start_ns, window.end_ns) == (220, 830)


def test_without_steps_there_is_no_measured_window() -> None:
    assert find_steps(trace_of(ExportBuilder().range("forward", 0, 10))).measured_window() is None


def test_steps_without_length_make_no_window() -> None:
    """A mark is written as a range without length."""
    assert find_steps(trace_of(loop(4, length=0).range("forward", 0, 10))).measured_window() is not None
    assert find_steps(trace_of(ExportBuilder().range("batch 1", 5, 5))).measured_window() is None


def test_the_section_lists_every_step_with_its_ledger_on_each_gpu() -> None:
    """Warm-up steps are listed in full length and flagged. The facts describe the measured steps."""
    builder = loop(4).kernel(10, 60, launched=(5, 6)).kernel(230, 260, launched=(225, 226))
    context = find_context(trace_of(builder.copy(250, 300, launched=(240, 241), device=1)))
    section = run_section(steps, context, Window(220, 430, "measured", "steps"))
    rows = section.tables["steps"]
    assert rows["warm_up"].tolist() == [True, True, False, False] * 2
    on = {(row["device_id"], row["name"]): row for row in rows.to_dict("records")}
    assert [on[0, "batch 0"][row] for row in ("compute_ns", "idle_ns")] == [50, 50]
    assert [on[1, "batch 2"][row] for row in ("copy_exposed_ns", "idle_ns")] == [50, 50]
    assert {fact.label: fact.value for fact in section.facts} == {
        "measured_steps": 2,
        "median_ns": 100.0,
        "p05_ns": 100.0,
        "p95_ns": 100.0,
        "spread_share": 0.0,
        "outlier_count": 0,
        "outlier_excess_ns": 0,
        "warm_up_steps": 2,
        "warm_up_ns": 200,
    }


def test_a_kernel_across_two_steps_is_cut_between_them() -> None:
    """Each step gets its part of the kernel. The time between the steps belongs to neither."""
    builder = loop(2).kernel(50, 150, launched=(5, 6))
    rows = run_section(steps, find_context(trace_of(builder)), Window(0, 210, "both", "steps")).tables["steps"]
    assert rows["compute_ns"].tolist() == [50, 40]


def test_without_a_gpu_steps_have_lengths_and_no_ledger() -> None:
    rows = run_section(steps, find_context(trace_of(loop(2))), Window(0, 210, "both", "steps")).tables["steps"]
    assert list(rows.columns) == ["process", "name", "start_ns", "end_ns", "warm_up", "number"]


def test_without_steps_the_section_says_what_to_do() -> None:
    section = run_section(
        steps, find_context(trace_of(ExportBuilder().range("forward", 0, 10))), Window(0, 10, "all", "operations")
    )
    assert "--step-range" in section.notes[0]
    assert not len(section.tables["steps"])


def test_a_window_given_by_hand_is_about_the_steps_whole_inside_it() -> None:
    """The last two steps take 300 and the others 100. The window has the median of the last two, not that of all."""
    builder = loop(8).range("batch 8", 1000, 1300).range("batch 9", 1310, 1610).kernel(1010, 1020)
    context = find_context(trace_of(builder), Settings())
    late = run_section(steps, context, Window(990, 1610, "late", "user"))
    whole = run_section(steps, context, Window(990, 1610, "late", "operations"))
    facts = [[section.fact(label) for label in ("measured_steps", "median_ns")] for section in (late, whole)]
    assert [[fact.value for fact in row if fact is not None] for row in facts] == [[2, 300.0], [8, 100.0]]
    assert late.notes == ()
