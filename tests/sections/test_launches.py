"""Launches: latency on an idle device, queue time on a busy one, and the share of launches on an idle device."""

from analysis_fixtures import run_section, window
from export_builder import ExportBuilder, global_id, trace_of

from nsyswrap.loop.context import find_context
from nsyswrap.sections import launches
from nsyswrap.trace.tables import Trace


def rows_of(trace: Trace, start: int = 0, end: int = 1000) -> list[tuple[object, ...]]:
    """Return name, kind, count and time of the summary."""
    table = run_section(launches, find_context(trace), window(start, end)).tables["summary"]
    return list(zip(table["name"], table["kind"], table["count"], table["total_ns"], strict=True))


def facts_of(trace: Trace, start: int = 0, end: int = 1000) -> dict[str, object]:
    return {fact.label: fact.value for fact in run_section(launches, find_context(trace), window(start, end)).facts}


def test_on_an_idle_device_it_is_latency_from_the_start_of_the_call() -> None:
    """The call began while no operation ran.

    ::

        host   rrr
        GPU        ####
    """
    assert rows_of(trace_of(ExportBuilder().kernel(20, 40, launched=(10, 14)))) == [
        ("cudaLaunchKernel", "latency", 1, 10)
    ]


def test_on_a_busy_device_it_is_queue_time_from_the_return_of_the_call() -> None:
    """The second operation was launched while the first ran, or shortly before.

    ::

        host   r  r
        GPU       ####    ####
    """
    builder = ExportBuilder().kernel(20, 40, launched=(10, 14)).kernel(50, 60, launched=(25, 30))
    assert rows_of(trace_of(builder)) == [
        ("cudaLaunchKernel", "latency", 1, 10),
        ("cudaLaunchKernel", "queue", 1, 20),
    ]


def test_an_operation_that_seems_to_begin_before_its_call_had_no_latency() -> None:
    """The clocks of host and GPU differ by some nanoseconds."""
    assert rows_of(trace_of(ExportBuilder().kernel(20, 40, launched=(25, 27))))[0][3] == 0


def test_a_long_operation_before_counts_not_only_the_last() -> None:
    """The operation that started last has ended, but an earlier one has not.

    ::

        7      #################
        8        ##     EE
        host         r
    """
    builder = ExportBuilder().kernel(10, 100, launched=(0, 1)).kernel(20, 30, launched=(2, 3), stream=8)
    builder.kernel(60, 70, launched=(40, 45), stream=8)
    assert facts_of(trace_of(builder))["just_in_time_share"] == 1 / 3


def test_each_device_is_idle_for_itself() -> None:
    builder = ExportBuilder().kernel(10, 100, launched=(0, 1)).kernel(30, 40, launched=(20, 21), device=1)
    assert facts_of(trace_of(builder))["just_in_time_share"] == 1.0


def test_facts_are_about_operations_inside_the_window_with_a_known_call() -> None:
    builder = ExportBuilder().kernel(20, 40, launched=(10, 14)).kernel(50, 60).kernel(110, 130, launched=(100, 102))
    builder.kernel(2000, 2100, launched=(1990, 1991))
    assert facts_of(trace_of(builder)) == {
        "launches": 2,
        "just_in_time_share": 1.0,
        "median_launch_latency_ns": 10.0,
        "median_operation_ns": 20.0,
        "median_launch_interval_ns": 90.0,
    }


def test_the_operations_of_one_call_are_one_launch_in_the_interval() -> None:
    """The test launches a CUDA graph of three kernels twice."""
    builder = ExportBuilder()
    for number, start in ((1, 100), (2, 400)):
        builder.call("cudaGraphLaunch", start - 10, start - 5, correlation=number)
        for kernel in range(3):
            builder.kernel(start + 20 * kernel, start + 20 * kernel + 10, correlation=number)
    assert facts_of(trace_of(builder))["median_launch_interval_ns"] == 300.0


def test_a_window_without_launches_has_facts_without_values() -> None:
    found = facts_of(trace_of(ExportBuilder().kernel(20, 40, launched=(10, 14))), 500, 600)
    assert found == {
        "launches": 0,
        "just_in_time_share": None,
        "median_launch_latency_ns": None,
        "median_operation_ns": None,
        "median_launch_interval_ns": None,
    }


def test_calls_of_two_processes_with_one_id_launch_their_own() -> None:
    builder = ExportBuilder().kernel(20, 40, launched=(10, 14), correlation=5)
    builder.kernel(230, 240, launched=(200, 201), correlation=5, process=global_id(5000), device=1)
    assert rows_of(trace_of(builder)) == [("cudaLaunchKernel", "latency", 2, 10 + 30)]


def test_of_two_calls_with_one_id_the_later_one_launched() -> None:
    """The call of the runtime contains the call of the driver."""
    builder = (
        ExportBuilder().call("cudaLaunchKernel", 10, 19, correlation=7).call("cuLaunchKernel", 12, 18, correlation=7)
    )
    assert rows_of(trace_of(builder.kernel(20, 40, correlation=7))) == [("cuLaunchKernel", "latency", 1, 8)]


def test_ids_far_apart_are_found_too() -> None:
    """In a process that ran for days, an id may be far from its neighbours."""
    builder = ExportBuilder().kernel(20, 40, launched=(10, 14), correlation=3)
    builder.kernel(60, 70, launched=(50, 55), correlation=2**31 - 5).kernel(80, 90, correlation=2**31 - 4)
    assert facts_of(trace_of(builder))["launches"] == 2
