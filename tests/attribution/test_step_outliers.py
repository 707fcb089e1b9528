"""Uneven steps: the time they cost beyond the median, and the idle time that makes them longer."""

import numpy as np
import pytest
from analysis_fixtures import attributions_of
from export_builder import ExportBuilder, global_id, trace_of
from hypothesis import given
from hypothesis import strategies as st
from made_steps import STEP, US, launched_at_once
from savings import saving_of

from nsyswrap.attribution.step_outliers import is_outlier, longest_in, lost_to_outliers, unexplained
from nsyswrap.base.intervals import Spans
from nsyswrap.loop.context import find_context
from nsyswrap.report import build_report, report_of


def times(*values: int) -> np.ndarray:
    """Return an array of times in ns."""
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([100] * 9 + [109], []),
        ([100] * 9 + [111], [9]),
        ([80, 90, 100, 110, 120, 154], []),
        ([80, 90, 100, 110, 120, 156], [5]),
        ([100, 300], []),
        ([], []),
    ],
)
def test_which_steps_are_outliers(lengths: list[int], expected: list[int]) -> None:
    """An outlier is more than a tenth above the median and above Tukey's fence, 117.5 + 1.5 * 25 in the fourth row."""
    assert np.flatnonzero(is_outlier(np.array(lengths, np.int64))).tolist() == expected


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=40))
def test_outliers_are_the_longest_and_fewer_than_half(lengths: list[int]) -> None:
    """A step that is longer than an outlier is an outlier, too, and no outlier is as short as the median."""
    found = is_outlier(np.array(lengths, np.int64))
    assert found.sum() <= len(lengths) / 2
    if found.any():
        least = min(length for length, flag in zip(lengths, found, strict=True) if flag)
        assert all(flag == (length >= least) for length, flag in zip(lengths, found, strict=True))
        assert least > np.median(lengths)


def test_what_another_finding_explains_beyond_the_median_is_subtracted() -> None:
    """The last step is 60 longer than the others. Another finding explains 20 of these, or all."""
    length = times(100, 100, 100, 100, 100, 160)
    assert unexplained(length, times(5, 5, 5, 5, 5, 25)).tolist() == [0, 0, 0, 0, 0, 40]
    assert unexplained(length, times(5, 5, 5, 5, 5, 90)).tolist() == [0, 0, 0, 0, 0, 0]
    assert unexplained(times(), times()).tolist() == []


def lost(made: ExportBuilder) -> int:
    """Return the time lost to the outliers among the measured steps of a loop that no other finding explains, in us."""
    context = find_context(trace_of(made))
    window = context.steps.measured_window()
    assert window is not None
    ((process, steps),) = context.steps.measured_inside(window).groupby("process")
    left = unexplained((steps["end"] - steps["start"]).to_numpy(), np.zeros(len(steps), np.int64))
    return lost_to_outliers(context, int(str(process)), window, left) // US


def test_a_short_step_makes_up_for_a_long_one() -> None:
    """One step is 600 us longer than the median, and another one 300 us shorter: together they cost 300 us."""
    assert lost(loop(*[1000] * 9, 1600, 1000, 1000)) == 600
    assert lost(loop(*[1000] * 9, 1600, 700, 1000)) == 300


EVERY, WORK = 6, 500


def logged(*works: int) -> ExportBuilder:
    """Return steps that launch work of these lengths in us, each within 50 us; each sixth one waits for all of it."""
    made, at, done = ExportBuilder().gpu(), 0, 0
    made.os_call("mmap", 0, 1)
    for number, work in enumerate(works):
        start = max(done, at + 10)
        done = start + work
        end = done if number % EVERY == EVERY - 1 else at + 50
        made.range(f"batch {number}", at * US, end * US).range("forward", at * US, end * US)
        launched_at_once(made, at * US, start * US, done * US)
        at = end
    return made


def test_a_wait_for_the_work_of_several_steps_loses_nothing() -> None:
    """The host runs ahead and waits in each sixth step, which is long for it alone: the GPU works all the time."""
    made = logged(*[WORK] * 30)
    assert lost(made) == 0
    assert "steps/uneven" not in {each.rule for each in build_report(trace_of(made)).findings}


def test_more_work_of_a_step_is_lost_wherever_the_host_waits_for_it() -> None:
    """Two steps have 400 us more work. The host waits for one of them in another step."""
    works = [WORK] * 30
    works[9] = works[23] = WORK + 400
    assert lost(logged(*works)) == 800


def test_the_longest_idle_time_of_a_step_makes_it_long() -> None:
    """The longest intervals are taken while at least half of an interval is still unexplained.

    With 50 unexplained in the second step, its interval of 40 is taken. The 10 that are left are less than half of the
    next interval of 30. With 60 unexplained, 20 are left: more than half of 30, so that interval is taken too.
    """
    steps = Spans(times(0, 100), times(100, 250))
    start, length = times(10, 110, 120, 170, 260), times(90, 5, 40, 30, 90)
    assert longest_in(steps, times(0, 50), start, length).tolist() == [False, False, True, False, False]
    assert longest_in(steps, times(0, 60), start, length).tolist() == [False, False, True, True, False]
    assert longest_in(Spans(times(), times()), times(), start, length).tolist() == [False] * 5


@given(
    st.lists(st.tuples(st.integers(0, 49), st.integers(1, 30)), max_size=30),
    st.lists(st.integers(0, 100), min_size=5, max_size=5),
)
def test_no_step_gets_much_more_idle_time_than_is_left(intervals: list[tuple[int, int]], left: list[int]) -> None:
    """A step gets at most half of an interval more than is left, in whole ns. There are five steps of 10."""
    steps = Spans(np.arange(5) * 10, np.arange(1, 6) * 10)
    start, length = (times(*(each[part] for each in intervals)) for part in (0, 1))
    chosen = longest_in(steps, times(*left), start, length)
    for number, most in enumerate(left):
        mine = chosen & (start // 10 == number)
        assert length[mine].sum() <= most + (length[mine].max(initial=0) + 1) / 2


def loop(*ends: int) -> ExportBuilder:
    """Return steps of these lengths in us: six kernels keep the GPU busy from 10 to 600 us of each."""
    made, at = ExportBuilder().gpu(), 0
    made.os_call("mmap", 0, 1)
    for number, length in enumerate(ends):
        made.range(f"batch {number}", at, at + length * US).range("forward", at, at + length * US)
        launched_at_once(made, at, at + 10 * US, at + 600 * US)
        at += length * US
    return made


# A gap lasts from 600 us of a step to 10 us of the next one: 1 us is launch and 9 us are queued.
@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        # Two steps are 1 ms longer, which costs 2 ms. Each has one piece of CPU time of 1.4 ms, which is attributed to
        # uneven steps. The CPU time of the 18 other measured steps stays CPU time.
        ([1000] * 10 + [2000] + [1000] * 10 + [2000], {"steps/uneven": (2000, 2800), "idle/cpu": (7200, 7200)}),
        # Two steps are 300 us longer. This is less than half of the 700 us of CPU time in each, so no piece is
        # attributed to uneven steps. CPU time is 16 times 400, twice 700 and twice 100; the finding has all of it.
        ([1000] * 9 + [1300, 700] + [1000] * 9 + [1300, 700], {"steps/uneven": (0, 0), "idle/cpu": (8000, 8000)}),
        # Two steps are 500 us longer, and the next ones 390 us shorter, so 220 us are lost: no finding. The 900 us
        # of CPU time in each long step stay with the finding on CPU time.
        ([1000] * 9 + [1500, 610] + [1000] * 9 + [1500, 610], {"steps/uneven": (0, 0), "idle/cpu": (8220, 8220)}),
    ],
)
def test_no_idle_time_is_lost_between_uneven_steps_and_their_cpu_code(
    lengths: list[int], expected: dict[str, tuple[int, int]]
) -> None:
    """``expected`` is the lost time of the finding and the idle time of the rule, in us."""
    context = find_context(trace_of(loop(*lengths)))
    report = report_of(context)
    (attribution,) = attributions_of(context, report.window)
    lost = {each.rule: each.lost_ns / US for each in report.findings}
    assert {rule: (lost.get(rule, 0), attribution.idle_of(rule) / US) for rule in expected} == expected


def test_idle_time_during_a_copy_for_another_gpu_is_not_lost() -> None:
    """While the host copies pageable memory to GPU 1, GPU 0 is idle. The findings on GPU 0 cover all of that time."""
    made = loop(*[1000] * 12).gpu(1)
    for number in range(12):
        at = number * STEP
        made.copy(at + 620 * US, at + 940 * US, launched=(at + 610 * US, at + 950 * US), device=1, srcKind=0)
    report = build_report(trace_of(made))
    lost = sum(each.lost_ns for each in report.findings if each.device_id == 0 and each.rule != "copies/pageable")
    section = report.section("ledger")
    assert section is not None
    devices = section.tables["devices"]
    assert lost == pytest.approx(int(devices.loc[devices["device_id"] == 0, "idle_ns"].iloc[0]), rel=0.05)


def test_the_start_of_a_long_copy_call_is_counted_once() -> None:
    """The call is open for 300 us before the copy begins. This time belongs to the copy, and not also to a launch.

    So do the 59 us from the end of the call to the next kernel, which it delays.
    """
    made = loop(*[1000] * 12)
    for number in range(12):
        at = number * STEP
        made.copy(at + 910 * US, at + 940 * US, launched=(at + 610 * US, at + 950 * US), srcKind=0)
    lost = {each.rule: each.lost_ns / 10 / US for each in build_report(trace_of(made)).findings}
    assert lost["copies/pageable"] == 300 + 30 + 10 + 59
    assert "idle/launch" not in lost


def test_a_change_is_made_in_all_ranks() -> None:
    """Removing CPU time in both ranks saves 1 ms a step, because the run lasts as long as its busier rank.

    The two ranks do not wait for each other. They are idle for 1 ms and 7 ms in each step of 10 ms.
    """
    made = ExportBuilder().gpu().gpu(1)
    for rank, busy in enumerate((900, 300)):
        process, main = global_id(100 + rank), global_id(100 + rank, 100 + rank)
        made.os_call("mmap", 0, 1, thread=main)
        for number in range(12):
            at = number * 10 * STEP
            made.range(f"batch {number}", at, at + 10 * STEP, thread=main)
            launched_at_once(made, at, at + 10 * US, at + 10 * busy * US, device=rank, process=process)
    found = {each.device_id: each for each in build_report(trace_of(made)).findings if each.rule == "idle/cpu"}
    assert saving_of(found[0]).point == pytest.approx(10 * 1000 * US, rel=0.1)
    assert saving_of(found[1]) == saving_of(found[0])
