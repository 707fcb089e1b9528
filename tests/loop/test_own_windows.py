"""The steps of processes that do not start together: as many of each, and the part of the window that they take."""

from dataclasses import replace

import numpy as np
import pytest
from export_builder import global_id, trace_of
from made_programs import EACH, GEMM, MS, Machine, Thread, slow_host
from shifted_ranks import ShiftedRanks

from nsyswrap.base.intervals import Window
from nsyswrap.loop.context import TraceContext, find_context
from nsyswrap.loop.own_windows import find_own_windows, running
from nsyswrap.report import choose_window

US = 1000


def threads(*later: int, devices: tuple[int, ...] = (0, 1)) -> tuple[Machine, list[Thread]]:
    """Return a thread for each process, so much later than 100 ms; each uses a GPU."""
    machine = Machine()
    for gpu in set(devices):
        machine.built.gpu(gpu)
    begins = enumerate(zip(later, devices, strict=True))
    return machine, [machine.thread(5000 + n, device=gpu, at=100 * MS + after) for n, (after, gpu) in begins]


def numbers(context: TraceContext) -> dict[int, list[int]]:
    """Return the numbers of the steps of each process, by its id."""
    frame = context.steps.frame.assign(number=context.steps.number)
    return {int(str(process)) >> 24 & 0xFFFFFF: mine["number"].tolist() for process, mine in frame.groupby("process")}


@pytest.mark.parametrize(
    ("later_us", "first"), [(0, (2, 2)), (1, (2, 2)), (499, (2, 2)), (501, (3, 2)), (999, (3, 2)), (2600, (5, 2))]
)
def test_ranks_count_from_the_step_with_its_middle_after_all_warm_up(later_us: int, first: tuple[int, int]) -> None:
    """So a shift of less than half a step leaves none out."""
    job = ShiftedRanks(((500,) * 12, (500,) * 12), (0, later_us))
    found = numbers(find_context(trace_of(job.built())))
    assert tuple(each.index(0) for each in found.values()) == first
    assert len({max(each) for each in found.values()}) == 1


def test_a_rank_that_takes_two_steps_at_a_time_has_two_of_each_number() -> None:
    """A pattern may be found twice as often in one rank as in another; a step of the job is then two of its."""
    machine, (slow, quick) = threads(0, 0)
    slow_host(slow, 8)
    for number in range(16):
        begin = quick.now
        quick.work(4 * MS).launch(GEMM, EACH, EACH)
        quick.now = begin + (8 * MS + 40 * US) // 2
        quick.range(f"step {number}", begin)
    context = find_context(trace_of(machine.built))
    found = numbers(context)
    assert found[5000] == [-1, -1, 0, 1, 2, 3, 4, 5]
    assert found[5001][4:] == np.repeat(range(6), 2).tolist()
    assert context.steps.measured_count == 6


def test_the_gpu_of_a_process_that_marks_no_step_has_the_steps_of_another() -> None:
    machine, (marks, marks_none) = threads(0, 3 * MS)
    spans = slow_host(marks)
    slow_host(marks_none, name="")
    context = find_context(trace_of(machine.built))
    window = choose_window(context)
    own = find_own_windows(context, window)
    assert own.on(0) == own.on(1) == window
    assert (window.start_ns, window.end_ns) == (spans[2].start, spans[-1].end)


def test_a_shared_gpu_has_the_steps_of_the_process_that_ran_most_on_it() -> None:
    machine, (short, long) = threads(0, 3 * MS, devices=(0, 0))
    for thread, each in ((short, 10 * US), (long, 100 * US)):
        for number in range(12):
            begin = thread.now
            thread.work(5 * MS).launch(GEMM, *[each] * 8)
            thread.range(f"step {number}", begin)
    context = find_context(trace_of(machine.built))
    window = choose_window(context)
    assert find_own_windows(context, window).main_process == {0: global_id(5001)}


def test_processes_that_are_never_together_have_windows_of_their_own() -> None:
    """A third one runs beside both of them."""
    machine, (first, second, beside) = threads(0, 100 * MS, 50 * MS, devices=(0, 0, 1))
    for thread in (first, second, beside):
        slow_host(thread, 11)
    context = find_context(trace_of(machine.built))
    assert {tuple(each[2:]) for each in numbers(context).values()} == {tuple(range(9))}


def test_other_windows_have_no_parts() -> None:
    """Steps are numbered inside a window that the user gives."""
    job = ShiftedRanks(((500,) * 12, (500,) * 12), (0, 300))
    context = find_context(trace_of(job.built()))
    window = Window(2_300 * US, 8_000 * US, "by hand", "user")
    own = find_own_windows(context, window)
    assert own.on(0) == own.on(1) == own.of(-1) == window
    numbered = context.steps.frame[context.steps.number_inside(window) >= 0]
    assert (numbered["start"] >= window.start_ns).all()
    assert (numbered["end"] <= window.end_ns).all()
    assert numbered.groupby("process").size().nunique() == 1


def test_a_window_of_some_of_the_steps_has_no_parts() -> None:
    """The simulation takes such a window as a sample."""
    context = find_context(trace_of(ShiftedRanks(((500,) * 12,), (0,)).built()))
    window = choose_window(context)
    some = replace(window, end_ns=window.start_ns + 4_000 * US)
    assert find_own_windows(context, some).on(0) == some
    assert len(context.steps.measured_inside(some)) == 4
    assert len(context.steps.measured_inside(window)) == 10


def test_operations_are_clipped_to_the_part_of_their_gpu() -> None:
    job = ShiftedRanks(((500,) * 12, (500,) * 12), (0, 300))
    context = find_context(trace_of(job.built()))
    window = choose_window(context)
    rows, length = running(context, np.arange(len(context.operations.start)), window)
    own = find_own_windows(context, window)
    for row, ns in zip(rows.tolist(), length.tolist(), strict=True):
        mine = own.on(int(context.operations.device_id[row]))
        start, end = int(context.operations.start[row]), int(context.operations.end[row])
        assert ns == min(end, mine.end_ns) - max(start, mine.start_ns) > 0
