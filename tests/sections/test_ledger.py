"""The ledger: the row of each nanosecond. Tests with random traces check the sums elsewhere."""

from analysis_fixtures import run_section, window
from export_builder import ExportBuilder, global_id, trace_of

from nsyswrap.loop.context import find_context
from nsyswrap.sections import ledger
from nsyswrap.sections.ledger import ROWS, ledger_rows
from nsyswrap.trace.tables import Trace

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096>)"


def rows_of(trace: Trace, start: int = 0, end: int = 100, device: int = 0) -> list[int]:
    """Return the ledger of a device, in the order of its rows."""
    return [ledger_rows(find_context(trace).operations, device, window(start, end))[row] for row in ROWS]


def test_each_kind_has_a_row() -> None:
    """The rows are compute, waiting for communication, its transfer, copy, memset, idle.

    ::

        ####NNNNCCCCFFFF....
    """
    builder = ExportBuilder().kernel(0, 20, launched=(0, 1)).kernel(20, 40, NCCL, launched=(1, 2))
    builder.copy(40, 60, launched=(2, 3)).fill(60, 80, launched=(3, 4))
    assert rows_of(trace_of(builder)) == [20, 0, 20, 20, 20, 20]


def test_where_operations_overlap_the_first_kind_has_the_time() -> None:
    """Copies are exposed while no kernel runs.

    ::

        7    ####
        8      NNNN
        9        CCCC
        10         FFFF
             0   20  40  60  80
    """
    builder = ExportBuilder().kernel(0, 40, launched=(0, 1)).kernel(20, 60, NCCL, launched=(1, 2), stream=8)
    builder.copy(40, 80, launched=(2, 3), stream=9).fill(60, 100, launched=(3, 4), stream=10)
    assert rows_of(trace_of(builder)) == [40, 0, 20, 20, 20, 0]


def test_a_nanosecond_with_two_kernels_counts_once() -> None:
    builder = ExportBuilder().kernel(0, 60, launched=(0, 1)).kernel(20, 40, launched=(1, 2), stream=8)
    assert rows_of(trace_of(builder)) == [60, 0, 0, 0, 0, 40]


def test_a_graph_traced_as_a_whole_is_compute() -> None:
    assert rows_of(trace_of(ExportBuilder().graph(10, 60, launched=(0, 1)))) == [50, 0, 0, 0, 0, 50]


def test_communication_is_all_transfer_and_a_note_says_so() -> None:
    """Without the other ranks the wait for them is unknown. A run without communication has no note."""
    alone = ExportBuilder().kernel(0, 10, launched=(0, 1))
    assert run_section(ledger, find_context(trace_of(alone)), window(0, 100)).notes == ()
    section = run_section(ledger, find_context(trace_of(alone.kernel(10, 30, NCCL, launched=(1, 2)))), window(0, 100))
    (row,) = section.tables["devices"].to_dict("records")
    assert (row["communication_wait_ns"], row["communication_transfer_ns"]) == (0, 20)
    assert section.notes == (ledger.ALL_TRANSFER,)


def test_communication_behind_a_kernel_needs_no_note() -> None:
    builder = ExportBuilder().kernel(0, 40, launched=(0, 1)).kernel(10, 30, NCCL, launched=(1, 2), stream=8)
    assert run_section(ledger, find_context(trace_of(builder)), window(0, 100)).notes == ()


def test_the_ledger_of_a_window_does_not_depend_on_earlier_ones() -> None:
    """Overlaps are found once, for all windows.

    ::

        kernel     ####
        copy     CCCCCC
        windows  |--|        then  |---|
    """
    operations = find_context(
        trace_of(ExportBuilder().kernel(20, 60, launched=(1, 2)).copy(0, 60, launched=(2, 3)))
    ).operations
    found = [ledger_rows(operations, 0, window(start, end)) for start, end in ((0, 30), (20, 70), (80, 90), (0, 30))]
    assert [[each[row] for row in ROWS] for each in found] == [
        [10, 0, 0, 20, 0, 0],
        [40, 0, 0, 0, 0, 10],
        [0, 0, 0, 0, 0, 10],
        [10, 0, 0, 20, 0, 0],
    ]


def test_each_device_has_a_ledger_of_its_own() -> None:
    """All processes on a device share its ledger."""
    builder = ExportBuilder().kernel(0, 50, launched=(0, 1)).kernel(20, 30, launched=(1, 2), device=1)
    builder.kernel(40, 70, launched=(0, 1), process=global_id(5000))
    section = run_section(ledger, find_context(trace_of(builder)), window(0, 100))
    devices = section.tables["devices"]
    assert devices[["device_id", "compute_ns", "idle_ns"]].to_numpy().tolist() == [[0, 70, 30], [1, 10, 90]]
    assert {fact.label: fact.value for fact in section.facts} == {
        "window_ns": 100,
        "busy_share": 0.4,
        "idle_share": 0.6,
    }


def test_time_over_the_window_adds_up_to_the_ledger() -> None:
    """There are thirty intervals; a window of fewer nanoseconds has one for each."""
    builder = ExportBuilder().kernel(0, 500, launched=(0, 1)).copy(700, 800, launched=(1, 2))
    context = find_context(trace_of(builder))
    for start, end, count in ((0, 1000, 30), (490, 510, 20)):
        table = run_section(ledger, context, window(start, end)).tables["over_time"]
        assert len(table) == count
        assert table["start_ns"].iloc[0] == start
        assert table["end_ns"].iloc[-1] == end
        assert (table["end_ns"].iloc[:-1].to_numpy() == table["start_ns"].iloc[1:].to_numpy()).all()
        assert (
            table["busy_ns"].sum()
            == sum(ledger_rows(context.operations, 0, window(start, end)).values())
            - (ledger_rows(context.operations, 0, window(start, end))["idle_ns"])
        )
        assert table["busy_share"].between(0, 1).all()


def test_a_gpu_that_ran_something_only_before_the_window_does_not_starve_in_it() -> None:
    """Such a GPU is left out, and a note names it. A GPU that runs an operation later is in use until then.

    ::

        GPU 0       ####....####
        GPU 1  #
        GPU 2  #                  #
    """
    builder = ExportBuilder().kernel(20, 60, launched=(20, 21)).kernel(80, 100, launched=(80, 81))
    for device, start in ((1, 0), (2, 0), (2, 200)):
        builder.kernel(start + 5, start + 10, launched=(start, start + 1), device=device)
    section = run_section(ledger, find_context(trace_of(builder)), window(20, 100))
    assert section.tables["devices"]["device_id"].tolist() == [0, 2]
    assert section.notes == ("GPU 1 is left out: it ran operations only outside the window.",)
    before = run_section(
        ledger, find_context(trace_of(ExportBuilder().kernel(20, 60, launched=(20, 21)))), window(0, 10)
    )
    assert before.tables["devices"]["idle_ns"].tolist() == [10]
