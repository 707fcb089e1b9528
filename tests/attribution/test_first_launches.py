"""The first launch call of a kernel loads its code where it takes far longer than a launch call."""

import pytest
from export_builder import DEVICE_TO_HOST, PAGEABLE, ExportBuilder, global_id, thread, trace_of
from savings import saving_of

from nsyswrap.attribution.launch_pace import find_loading_launches
from nsyswrap.loop.context import find_context
from nsyswrap.report import build_report
from nsyswrap.trace.tables import CALLS, Trace, array

US = 1000
PEER = global_id(5000)


def launched(*calls: tuple[int, int, str], builder: ExportBuilder | None = None, **columns: int) -> ExportBuilder:
    """Return kernels of 1 us that begin 2 us after their launch calls: start in us, length in us, name."""
    made = builder or ExportBuilder()
    for start, length, name in calls:
        end = (start + length) * US
        made.kernel(end + 2 * US, end + 3 * US, name, launched=(start * US, end), **columns)
    return made


def loading(trace: Trace) -> list[int]:
    """Return when the calls that load a kernel begin, in us."""
    starts = array(trace[CALLS], "start")[find_loading_launches(find_context(trace))]
    return [int(start) // US for start in starts]


def test_a_long_first_launch_loads_the_kernel() -> None:
    """Later launches of the same kernel load nothing, however long they take."""
    trace = trace_of(launched((0, 140, "a"), (200, 6, "a"), (300, 140, "a"), (500, 6, "b"), (600, 90, "c")))
    assert loading(trace) == [0, 600]


@pytest.mark.parametrize(("length", "loads"), [(50, False), (51, True)])
def test_a_launch_call_of_usual_length_loads_nothing(length: int, *, loads: bool) -> None:
    """Launches take 2 to 20 us, and recording them up to 32 us."""
    assert bool(loading(trace_of(launched((0, length, "a"), (200, 6, "a"))))) == loads


def test_on_a_slow_machine_a_first_launch_is_compared_with_the_others() -> None:
    """Launch calls take 40 us, so one of 150 us is no proof, and one of 250 us is."""
    calls = [(1000 + 100 * number, 40, name) for number, name in enumerate("ababab")]
    assert loading(trace_of(launched((0, 150, "a"), (300, 250, "b"), *calls))) == [300]


def test_each_process_and_each_gpu_loads_a_kernel_of_its_own() -> None:
    built = launched((0, 100, "a"))
    launched((200, 100, "a"), builder=built, device=1)
    launched((400, 100, "a"), builder=built, device=2, process=PEER, thread=thread(5000, 5000))
    assert loading(trace_of(built)) == [0, 200, 400]


def test_the_first_memset_loads_the_drivers_kernel() -> None:
    built = ExportBuilder().fill(110 * US, 111 * US, launched=(0, 100 * US))
    built.fill(310 * US, 311 * US, launched=(200 * US, 300 * US))
    assert loading(trace_of(built)) == [0]


def test_the_launch_of_a_graph_loads_no_kernel() -> None:
    """What it launches was loaded when the graph was made."""
    built = ExportBuilder().call("cudaGraphLaunch", 0, 100 * US, correlation=7)
    assert loading(trace_of(built.kernel(102 * US, 103 * US, "a", correlation=7, graph_node=1))) == []


def one_kernel() -> ExportBuilder:
    """Return a program that copies in, launches one kernel for the first time, and copies out, as in a tutorial.

    ::

        host   |copy 50|  |-- launch 140 --| |copy 30|
        GPU       |15|                      |4|  |15|
    """
    built = ExportBuilder().gpu().row("PROCESSES", globalPid=global_id(4711), pid=4711, name="/home/u/vecadd")
    built.copy(30 * US, 45 * US, launched=(0, 50 * US), call="cudaMemcpy", srcKind=PAGEABLE, bytes=200_000)
    built.kernel(203 * US, 207 * US, "vecAdd(float*, float*, float*, int)", launched=(60 * US, 200 * US))
    return built.copy(
        210 * US, 225 * US, DEVICE_TO_HOST, launched=(201 * US, 230 * US), call="cudaMemcpy", dstKind=PAGEABLE
    )


def test_a_program_of_one_kernel_loads_it_and_is_not_launch_bound() -> None:
    """There is no other launch to leave out, so fewer launches are no advice.

    Of 185 us, from the first work of the GPU on, the launch of 140 is saved, less a fifth of the 45 that are left, and
    a twentieth of itself.
    """
    report = build_report(trace_of(one_kernel()))
    assert report.verdict_rule == "idle/module_load"
    assert "CUDA loads kernels at their first launch" in report.verdict
    advice = report.findings[0].advice
    assert "CUDA_MODULE_LOADING=EAGER" in advice
    assert not any(word in advice for word in ("CUDA graphs", "fused", "torch"))
    assert saving_of(report.findings[0]).in_order == pytest.approx((128_598, 140 * US, 140 * US), abs=10)


@pytest.mark.parametrize("source", [PAGEABLE, 1])
def test_where_copies_take_most_of_the_time_the_verdict_is_about_them(source: int) -> None:
    """The copies take nine tenths of the time. The one launch call takes 3 %, and all else can wait for it."""
    built = ExportBuilder().gpu()
    for number in range(2):
        at = 1_020 * number * US
        built.copy(
            at + 5 * US,
            at + 1_005 * US,
            launched=(at, at + 1_010 * US),
            call="cudaMemcpy",
            srcKind=source,
            bytes=6 << 20,
        )
    built.kernel(2_150 * US, 2_200 * US, "vecAdd", launched=(2_040 * US, 2_140 * US))
    report = build_report(trace_of(built))
    assert report.verdict_rule in {"copies/pageable", "copies/exposed"}
    assert report.findings[0].rule == report.verdict_rule
    assert "cop" in report.verdict
