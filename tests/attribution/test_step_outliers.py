"""How much longer some steps are than the others, and which idle time makes them so; small enough to check by eye."""

from collections.abc import Callable

import numpy as np
import pytest
from export_builder import ExportBuilder, global_id
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.attribution.step_outliers import cost_of, longest_in, unexplained
from nsyswrap.intervals import Spans
from nsyswrap.report import build_report
from nsyswrap.tables import Trace

TraceOf = Callable[[ExportBuilder], Trace]
US = 1000
STEP = 1000 * US


def times(*values: int) -> np.ndarray:
    """Return ns."""
    return np.array(values, np.int64)


def test_what_another_finding_counts_more_than_usual_is_taken_off() -> None:
    """The last step is 60 longer; of these another finding has 20, and as much as always in the one before."""
    length = times(100, 100, 100, 100, 100, 160)
    assert unexplained(length, times(5, 5, 5, 5, 5, 25)).tolist() == [0, 0, 0, 0, 0, 40]
    assert unexplained(length, times(5, 5, 5, 5, 5, 90)).tolist() == [0, 0, 0, 0, 0, 0]
    assert unexplained(times(), times()).tolist() == []


def test_a_short_step_makes_up_for_a_long_one() -> None:
    length = times(100, 100, 100, 100, 100, 160, 70)
    assert cost_of(length, unexplained(length, np.zeros(7, np.int64))) == 30
    assert cost_of(times(), times()) == 0


def test_the_longest_idle_time_of_a_step_makes_it_long() -> None:
    """Of the second step 50 are to be found: its stretch of 40, and no more, for of the next one only 10 would be."""
    steps = Spans(times(0, 100), times(100, 250))
    start, length = times(10, 110, 120, 170, 260), times(90, 5, 40, 30, 90)
    assert longest_in(steps, times(0, 50), start, length).tolist() == [False, False, True, False, False]
    assert longest_in(steps, times(0, 60), start, length).tolist() == [False, False, True, True, False]
    assert longest_in(Spans(times(), times()), times(), start, length).tolist() == [False] * 5


@given(
    st.lists(st.tuples(st.integers(0, 49), st.integers(1, 30)), max_size=30),
    st.lists(st.integers(0, 100), min_size=5, max_size=5),
)
def test_no_step_has_much_more_than_is_to_be_found(stretches: list[tuple[int, int]], left: list[int]) -> None:
    """At most half of a stretch more, in whole ns, in each of five steps of 10."""
    steps = Spans(np.arange(5) * 10, np.arange(1, 6) * 10)
    start, length = (times(*(each[part] for each in stretches)) for part in (0, 1))
    chosen = longest_in(steps, times(*left), start, length)
    for number, most in enumerate(left):
        mine = chosen & (start // 10 == number)
        assert length[mine].sum() <= most + (length[mine].max(initial=0) + 1) / 2


def loop(*ends: int) -> ExportBuilder:
    """Steps one after another, of these lengths: the GPU works for the first 600 us of each."""
    made, at = ExportBuilder().gpu(), 0
    made.os_call("mmap", 0, 1)
    for number, length in enumerate(ends):
        made.range(f"batch {number}", at, at + length * US).range("forward", at, at + length * US)
        made.kernel(at + 10 * US, at + 600 * US, "k", launched=(at, at + 5 * US), gridX=9000, blockX=256)
        at += length * US
    return made


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        # Two long steps, 1 ms each: that is theirs, with their one stretch of idle time; the other 18 are the host's.
        ([1000] * 10 + [2000] + [1000] * 10 + [2000], {"steps/uneven": 2000, "idle/cpu": 18 * 400}),
        # Short steps make up for the long ones: all is the host's, and no part of it is lost.
        ([1000] * 9 + [1300, 700] + [1000] * 9 + [1300, 700], {"idle/cpu": 7800}),
    ],
)
def test_no_idle_time_is_lost_between_uneven_steps_and_their_host_code(
    lengths: list[int], expected: dict[str, int], trace_of: TraceOf
) -> None:
    report = build_report(trace_of(loop(*lengths)))
    costs = {each.rule: each.lost_ns / US for each in report.findings if each.rule in {"steps/uneven", "idle/cpu"}}
    assert costs == pytest.approx(expected, abs=200)


def test_a_copy_that_holds_the_host_for_another_gpu_is_not_lost(trace_of: TraceOf) -> None:
    """While pageable memory goes to GPU 1, GPU 0 has nothing to do: its time belongs to a finding of its own."""
    made = loop(*[1000] * 12).gpu(1)
    for number in range(12):
        at = number * STEP
        made.copy(at + 620 * US, at + 940 * US, launched=(at + 610 * US, at + 950 * US), device=1, srcKind=0)
    report = build_report(trace_of(made))
    told = sum(each.lost_ns for each in report.findings if each.device_id == 0 and each.rule != "copies/pageable")
    section = report.section("ledger")
    assert section is not None
    devices = section.tables["devices"]
    assert told == pytest.approx(int(devices.loc[devices["device_id"] == 0, "idle_ns"].iloc[0]), rel=0.05)


def test_the_start_of_a_long_copy_call_is_counted_once(trace_of: TraceOf) -> None:
    """Its call is open for 300 us before the copy begins: that is the copy's cost, and no launch's too."""
    made = loop(*[1000] * 12)
    for number in range(12):
        at = number * STEP
        made.copy(at + 910 * US, at + 940 * US, launched=(at + 610 * US, at + 950 * US), srcKind=0)
    costs = {each.rule: each.lost_ns / 10 / US for each in build_report(trace_of(made)).findings}
    assert costs["copies/pageable"] == pytest.approx(340)
    assert "idle/launch" not in costs


def test_a_change_is_made_in_all_ranks(trace_of: TraceOf) -> None:
    """Two ranks that do not wait for each other: to mend the idler one alone would gain nothing."""
    made = ExportBuilder().gpu().gpu(1)
    for rank, busy in enumerate((900, 300)):
        process = global_id(100 + rank)
        main = global_id(100 + rank, 100 + rank)
        made.os_call("mmap", 0, 1, thread=main)
        for number in range(12):
            at = number * 10 * STEP
            made.range(f"batch {number}", at, at + 10 * STEP, thread=main)
            made.kernel(
                *(at + 10 * US, at + 10 * busy * US, "k"),
                launched=(at, at + 5 * US),
                gridX=9000,
                device=rank,
                process=process,
            )
    found = {each.device_id: each for each in build_report(trace_of(made)).findings if each.rule == "idle/cpu"}
    assert found[0].saving_high_ns == pytest.approx(10 * 1000 * US, rel=0.1)
    assert found[1].saving_high_ns == pytest.approx(found[0].saving_high_ns, rel=0.1)
