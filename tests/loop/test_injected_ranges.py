"""Ranges that nsyswrap adds count as steps and phases only where the program has no ranges of its own."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from analysis_fixtures import run_section, window
from export_builder import MAIN, ExportBuilder, global_id, trace_of

from nsyswrap.loop.context import TraceContext, find_context
from nsyswrap.loop.step_detection import find_steps
from nsyswrap.sections import phases
from nsyswrap.trace.tables import RANGES, Trace

OURS = 7
PEER_MAIN = global_id(5000, 5000)


def builder() -> ExportBuilder:
    """Return an export that names our NVTX domain."""
    return ExportBuilder().domain("nsyswrap", OURS).domain("nsyswrap", OURS, thread=PEER_MAIN)


def marked(build: ExportBuilder, count: int, phase: str = "backward", thread: int = MAIN) -> ExportBuilder:
    """Add steps of nsyswrap, 100 ns each, with a phase in each."""
    for number in range(count):
        start = number * 100
        build.range(f"step {number}", start, start + 100, domain=OURS, thread=thread)
        build.range(phase, start + 10, start + 60, domain=OURS, thread=thread)
    return build


def names(trace: Trace, pattern: str = "") -> list[str]:
    return list(find_steps(trace, pattern).frame["name"])


def host(trace: Trace, end: int) -> dict[str, tuple[int, int]]:
    """Return the number of ranges and the host time of each phase."""
    frame = run_section(phases, find_context(trace), window(0, end)).tables["phases"]
    return {str(row["phase"]): (int(row["count"]), int(row["host_ns"])) for _, row in frame.iterrows()}


def test_our_steps_are_the_steps_of_a_program_that_has_none() -> None:
    assert names(trace_of(marked(builder(), 4))) == ["step 0", "step 1", "step 2", "step 3"]


@pytest.mark.parametrize(("first", "warm_up"), [(0, 2), (1, 2), (2, 0), (200, 0)])
def test_the_warm_up_is_over_where_two_steps_came_before(first: int, warm_up: int) -> None:
    """The numbers of our steps say how many did; also of a program that marks steps itself. The range is no step."""
    build = builder().range("record", -20, 820, domain=OURS)
    for number in range(8):
        build.range(f"step {first + number}", number * 100, number * 100 + 100, domain=OURS)
    assert find_steps(trace_of(build)).frame["warm_up"].sum() == warm_up
    assert len(find_steps(trace_of(build)).frame) == 8
    for number in range(8):
        build.range(f"batch {number}", number * 100 + 20, number * 100 + 90)
    frame = find_steps(trace_of(build)).frame
    assert (frame["name"].iloc[0], frame["warm_up"].sum()) == ("batch 0", warm_up)


def test_a_program_s_own_steps_come_first() -> None:
    """This holds even if our steps cover more time. Our steps count in a process without steps of its own."""
    build = marked(marked(builder(), 4), 3, thread=PEER_MAIN)
    for number in range(4):
        build.range(f"batch {number}", number * 100 + 20, number * 100 + 70)
    frame = find_steps(trace_of(build)).frame
    by_process = frame.groupby("process")["name"].apply(list).to_list()
    assert by_process == [["batch 0", "batch 1", "batch 2", "batch 3"], ["step 0", "step 1", "step 2"]]


def test_a_step_that_turned_out_to_be_none_is_left_out() -> None:
    """The range after the last optimizer step has no backward pass; an evaluation has only a forward pass."""
    build = marked(builder(), 3).range("step 3", 300, 900, domain=OURS).range("optimizer", 310, 320, domain=OURS)
    build.range("batch 0", 400, 500, domain=OURS).range("forward", 410, 450, domain=OURS)
    assert names(trace_of(build)) == ["step 0", "step 1", "step 2"]


def test_where_nothing_is_trained_steps_are_those_with_a_forward_pass() -> None:
    """The last wait gets no batch, so its range is not a step. Without any forward pass, all ranges are steps."""
    build = marked(builder(), 3, "forward").range("step 3", 300, 310, domain=OURS)
    assert names(trace_of(build)) == ["step 0", "step 1", "step 2"]
    assert names(trace_of(marked(builder(), 3, "data"))) == ["step 0", "step 1", "step 2"]


def test_a_pattern_of_the_user_finds_our_steps_too() -> None:
    assert names(trace_of(marked(builder(), 2)), "^step") == ["step 0", "step 1"]


def test_a_phase_is_not_counted_twice() -> None:
    """Our range is left out if it lies inside a range of the program with the same phase. Other ranges stay.

    ::

        own   [forward      ]
        ours     [forward]      [forward] [data]
    """
    build = builder().range("Forward pass", 0, 100)
    for text, start in (("forward", 20), ("forward", 120), ("data", 150)):
        build.range(text, start, start + 20, domain=OURS)
    assert host(trace_of(build), 200) == {"data": (1, 20), "forward": (2, 120)}


def test_a_phase_inside_one_of_another_name_is_the_innermost() -> None:
    """A copy phase inside the data phase counts as copy, as it does for nested ranges of the program."""
    build = builder().range("data", 0, 100).range("copy", 40, 60, domain=OURS)
    assert host(trace_of(build), 100) == {"data": (1, 80), "copy": (1, 20)}


def test_a_step_of_ours_hides_no_phase_of_the_program() -> None:
    """Our step begins at the end of the optimizer step, inside a range of the program.

    ::

        own    [optimizer   ]
        ours   [step 0 ][step 1      ]
    """
    build = builder().range("optimizer", 0, 100).range("optimizer", 200, 300)
    for number, start in enumerate((0, 60, 260)):
        build.range(f"step {number}", start, (60, 260, 400)[number], domain=OURS)
        build.range("backward", start + 1, start + 2, domain=OURS)
    assert host(trace_of(build), 400) == {"backward": (3, 3), "optimizer": (2, 197), "batch": (3, 200)}


def test_the_section_says_what_was_marked_for_the_program() -> None:
    """There is no note if the program marks everything itself."""
    context = find_context(trace_of(marked(builder(), 3).range("data", 5, 8)))
    (note,) = run_section(phases, context, window(0, 300)).notes
    assert note == "Marked by nsyswrap (--annotate), not by the program: backward, step."
    alone = find_context(trace_of(ExportBuilder().range("data", 5, 8)))
    assert run_section(phases, alone, window(0, 300)).notes == ()


# The phases that are marked with Python 3.12 and newer, and with an older one.
MARKED: dict[str, tuple[str, ...]] = {"3.12": ("data",), "3.11": ()}


@pytest.mark.slow
@pytest.mark.parametrize("version", MARKED)
@pytest.mark.parametrize("name", ["balanced", "checkpoints", "slower_gpu"])
def test_phases_that_are_not_marked_are_inferred_around_those_that_are(
    version: str, name: str, real_trace: Callable[[str], Trace], real_context: Callable[[str], TraceContext]
) -> None:
    """A capture in which calls of all phases were marked keeps its phases without most of these marks."""
    trace, whole = real_trace(f"ranks/{name}"), real_context(f"ranks/{name}")
    ranges = trace[RANGES]
    kept = (ranges["domain"] != "nsyswrap") | ranges["text"].isin(MARKED[version])
    kept |= ranges["text"].astype(str).str.fullmatch(r"step \d+")
    left = find_context(replace(trace, frames={**trace.frames, "ranges": ranges[kept].reset_index(drop=True)}))
    before, after = (
        np.array([context.phases.name(int(code)) for code in context.phase_of_operations]) for context in (whole, left)
    )
    length = whole.operations.end - whole.operations.start
    known = np.isin(before, ["data", "copy", "forward", "backward", "optimizer"])
    assert length[known & (before == after)].sum() > 0.98 * length[known].sum()
