"""NVTX ranges: which contain a call, their projections on one thread and on any thread, and kernels by range."""

import numpy as np
import pandas as pd
from analysis_fixtures import run_section, window
from export_builder import ExportBuilder, global_id, thread, trace_of
from hypothesis import example, given
from hypothesis import strategies as st

from nsyswrap.base.intervals import Spans
from nsyswrap.loop.context import find_context
from nsyswrap.loop.range_nesting import RangeNesting
from nsyswrap.sections import ranges
from nsyswrap.trace.tables import CodedIds, Trace

AUTOGRAD = thread(4712)
# More levels are not joined with calls.
MOST_LEVELS = 128
SPAN = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(lambda span: (min(span), max(span)))


def projection(trace: Trace, start: int = 0, end: int = 1000) -> dict[str, dict[str, int]]:
    """Return the rows of the projection by name of range."""
    table = run_section(ranges, find_context(trace), window(start, end)).tables["projection"]
    rows = table.set_index("name").to_dict("index")
    return {str(name): {str(column): int(value) for column, value in row.items()} for name, row in rows.items()}


def same_thread(row: dict[str, int]) -> tuple[int, ...]:
    """Return count, envelope and union of the operations that the range's own thread launched."""
    return row["operation_count"], row["envelope_ns"], row["busy_ns"]


def any_thread(row: dict[str, int]) -> tuple[int, ...]:
    """Return count, envelope and union of the operations that any thread launched."""
    return row["operation_count_any_thread"], row["envelope_any_thread_ns"], row["busy_any_thread_ns"]


@given(st.lists(SPAN, max_size=9), st.lists(SPAN, max_size=6))
@example([(0, 1), (1, 2)], [(1, 1)])
def test_ranges_that_nest_or_cross_are_found_around_every_call(
    spans: list[tuple[int, int]], calls: list[tuple[int, int]]
) -> None:
    """The ranges of one level do not overlap; all levels together find each range that contains a call once."""
    start, end = (np.array([span[place] for span in spans], np.int64) for place in (0, 1))
    begun, done = (np.array([call[place] for call in calls], np.int64) for place in (0, 1))
    nesting = RangeNesting(pd.DataFrame({"start": start, "end": end, "thread": 1, "end_thread": 0}))
    thread, found = CodedIds(np.zeros(len(begun), np.int8), np.ones(1, np.int64)), []
    for which, rows in nesting.enclosing(thread, lambda some: Spans(begun[some], done[some])):
        found += list(zip(which.tolist(), rows.tolist(), strict=True))
    wanted = [
        (call, row)
        for call, (first, last) in enumerate(calls)
        for row, (a, b) in enumerate(spans)
        if a < b and a <= first and last <= b
    ]
    assert sorted(found) == wanted


def test_a_projection_is_the_envelope_and_the_union_of_operations_launched_inside() -> None:
    """Two kernels of one range, 10 ns apart on the GPU.

    ::

        main   [forward]
                l  l
        GPU              ####  ####
    """
    builder = ExportBuilder().range("forward", 0, 50).kernel(60, 80, launched=(5, 8)).kernel(90, 110, launched=(20, 25))
    row = projection(trace_of(builder))["forward"]
    assert same_thread(row) == any_thread(row) == (2, 50, 40)
    assert (row["count"], row["range_ns"]) == (1, 50)


def test_operations_of_another_thread_count_only_in_the_columns_for_any_thread() -> None:
    """The main thread has the range of the backward pass, and autograd's thread launches its kernels.

    ::

        main      [backward   ]
                  l
        autograd     l  l
        GPU          #  ## ##
    """
    builder = ExportBuilder().range("backward", 0, 100).kernel(20, 25, launched=(1, 2))
    builder.kernel(30, 40, launched=(10, 12), thread=AUTOGRAD).kernel(60, 70, launched=(20, 22), thread=AUTOGRAD)
    row = projection(trace_of(builder))["backward"]
    assert same_thread(row) == (1, 5, 5)
    assert any_thread(row) == (3, 50, 25)


def test_a_range_whose_own_thread_launches_nothing_has_a_row() -> None:
    """The projection of nsys has no instance of it, so the count is 0."""
    builder = ExportBuilder().range("backward", 0, 100).kernel(30, 40, launched=(10, 12), thread=AUTOGRAD)
    row = projection(trace_of(builder))["backward"]
    assert (row["count"], same_thread(row), any_thread(row)) == (0, (0, 0, 0), (1, 10, 10))


def test_a_thread_with_a_range_of_its_own_is_not_joined_to_the_main_one() -> None:
    """With emit_nvtx autograd's thread has ranges of operators, which contain its launches.

    ::

        main      [backward    ]
        autograd   [mm] l
                    l
    """
    builder = ExportBuilder().range("backward", 0, 100).range("mm", 5, 20, thread=AUTOGRAD)
    builder.kernel(30, 40, launched=(10, 12), thread=AUTOGRAD).kernel(60, 70, launched=(22, 24), thread=AUTOGRAD)
    found = projection(trace_of(builder))
    assert any_thread(found["backward"]) == (1, 10, 10)
    assert same_thread(found["mm"]) == any_thread(found["mm"]) == (1, 10, 10)


def test_a_library_s_range_on_the_other_thread_is_not_one_of_its_own() -> None:
    """NCCL adds ranges on any thread. Launches inside them still belong to the backward pass."""
    builder = ExportBuilder().range("backward", 0, 100).domain("NCCL", 3)
    builder.range("ncclAllReduce", 5, 20, thread=AUTOGRAD, domain=3)
    builder.kernel(30, 40, "ncclDevKernel", launched=(10, 12), thread=AUTOGRAD)
    found = projection(trace_of(builder))
    assert any_thread(found["backward"]) == (1, 10, 10)
    assert same_thread(found["NCCL:ncclAllReduce"]) == (1, 10, 10)


def test_a_library_s_range_on_the_main_thread_takes_nothing_from_other_threads() -> None:
    """The main thread is in a range of cuBLAS while autograd launches."""
    builder = ExportBuilder().range("backward", 0, 100).domain("cuBLAS", 2).range("cublasSgemm", 5, 20, domain=2)
    builder.kernel(30, 40, launched=(10, 12), thread=AUTOGRAD)
    assert list(projection(trace_of(builder))) == ["backward"]


def test_every_range_around_the_launch_counts_it() -> None:
    """The step counts the operations of the backward pass inside it, as on one thread."""
    builder = ExportBuilder().range("step 1", 0, 200).range("backward", 0, 100)
    builder.kernel(30, 40, launched=(10, 12), thread=AUTOGRAD)
    found = projection(trace_of(builder))
    assert any_thread(found["backward"]) == any_thread(found["step 1"]) == (1, 10, 10)


def test_a_call_across_the_end_of_a_range_is_not_in_it() -> None:
    """This holds on any thread, as in nsys."""
    builder = ExportBuilder().range("forward", 0, 50).kernel(60, 80, launched=(45, 55))
    builder.kernel(90, 95, launched=(45, 55), thread=AUTOGRAD)
    assert projection(trace_of(builder)) == {}


def test_another_process_s_ranges_take_nothing_from_ours() -> None:
    """Each of two ranks has a main thread of its own."""
    builder = ExportBuilder().range("forward", 0, 50).range("backward", 0, 50, thread=global_id(5000, 5000))
    builder.kernel(60, 80, launched=(5, 8), thread=AUTOGRAD)
    assert list(projection(trace_of(builder))) == ["forward"]


def test_ranges_of_one_name_are_added_up() -> None:
    """Unions are added up range by range, so GPU time that belongs to two of them counts twice."""
    builder = ExportBuilder().range("forward", 0, 10).range("forward", 20, 30)
    builder.kernel(40, 60, launched=(1, 2)).kernel(50, 70, launched=(21, 22), stream=8)
    row = projection(trace_of(builder))["forward"]
    assert (row["count"], *same_thread(row)) == (2, 2, 40, 40)


def test_ranges_outside_the_window_are_left_out() -> None:
    """A range that overlaps the window counts with its whole length."""
    builder = ExportBuilder().range("before", 0, 10).range("across", 15, 30)
    trace = trace_of(builder.kernel(40, 60, launched=(1, 2)).kernel(60, 70, launched=(18, 19)))
    assert {name: same_thread(row) for name, row in projection(trace, 20, 50).items()} == {"across": (1, 10, 10)}


def test_kernels_are_counted_in_every_range_around_their_launch() -> None:
    """The counts are by range and kernel; copies are not kernels."""
    builder = ExportBuilder().range("step 1", 0, 100).range("forward", 5, 50)
    builder.kernel(60, 80, "gemm", launched=(10, 12)).copy(80, 90, launched=(13, 14))
    table = run_section(ranges, find_context(trace_of(builder)), window(0, 200)).tables["kernels"]
    assert table[["range", "name", "count", "total_ns"]].to_numpy().tolist() == [
        ["forward", "gemm", 1, 20],
        ["step 1", "gemm", 1, 20],
    ]


def nested(builder: ExportBuilder, levels: int, start: int = 0) -> ExportBuilder:
    """Add ranges inside one another, and one kernel that is launched inside them all."""
    for level in range(levels):
        builder.range(f"deep {level}", start + level, start + 2 * levels + 10 - level)
    return builder.kernel(start + levels + 2, start + levels + 7, launched=(start + levels, start + levels + 1))


def test_nesting_deeper_than_the_bound_is_cut_and_said() -> None:
    """The outermost levels have their work, the deeper ones only their host time."""
    deeper = 40
    builder = nested(ExportBuilder(), MOST_LEVELS + deeper)
    section = run_section(ranges, find_context(trace_of(builder)), window(0, 1000))
    assert len(section.tables["summary"]) == MOST_LEVELS + deeper
    assert set(section.tables["projection"]["name"]) == {f"deep {level}" for level in range(MOST_LEVELS)}
    (note,) = section.notes
    assert f"{MOST_LEVELS} outermost levels" in note
    assert f"{deeper} ranges" in note


def test_the_work_of_a_range_does_not_grow_with_the_levels_below_the_bound() -> None:
    """With a hundred times as many levels, the tables of work are as large as at the bound."""
    few, many = (
        run_section(ranges, find_context(trace_of(nested(ExportBuilder(), count))), window(0, 100_000)).tables
        for count in (MOST_LEVELS, 100 * MOST_LEVELS)
    )
    for name in ("projection", "kernels", "modules"):
        assert len(many[name]) == len(few[name])
