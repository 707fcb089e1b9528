"""The step-time breakdown: each role in a trace that can be checked by eye, its laws, and real captures."""

from collections.abc import Callable

import pytest
from analysis_fixtures import run_section, window
from export_builder import HOST_TO_DEVICE, ExportBuilder, global_id, thread, trace_of
from hypothesis import given
from hypothesis import strategies as st
from real_captures import RealContext, of_captures

from nsyswrap.loop.context import find_context
from nsyswrap.model import Section
from nsyswrap.report import choose_window
from nsyswrap.sections import step_breakdown
from nsyswrap.sections.step_breakdown import ROLES
from nsyswrap.trace.tables import Trace

LOADER = thread(4712)
OTHER_PID = 99


def section_of(trace: Trace, start: int = 0, end: int = 1000) -> Section:
    return run_section(step_breakdown, find_context(trace), window(start, end))


def step(trace: Trace, row: int = 0) -> dict[str, int]:
    """Return the time of each role in one step, without roles that took no time."""
    found = section_of(trace).tables["steps"].iloc[row]
    return {role: int(found[f"{role}_ns"]) for role in ROLES if found[f"{role}_ns"]}


def one_step() -> ExportBuilder:
    """Return an export with a step from 0 to 1000 and nothing else."""
    return ExportBuilder().gpu().range("step 1", 0, 1000)


def test_each_role_takes_what_those_above_leave() -> None:
    """All roles start together, and each lasts 100 ns longer than the role above it: each gets 100 ns.

    ::

        kernel  |#
        memcpy  |##
        memset  |###
        nccl    |####
        runtime |#####
        data    |######
        cpu     |#######
        step    |########..
    """
    builder = one_step().kernel(0, 100).copy(0, 200, HOST_TO_DEVICE).fill(0, 300).kernel(0, 400, "ncclDevKernel")
    builder.call("cudaLaunchKernel", 0, 500).range("data", 0, 600).range("forward", 0, 700)
    assert step(trace_of(builder)) == {
        **dict.fromkeys(("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu_exec"), 100),
        "other": 300,
    }


@pytest.mark.parametrize(
    ("add", "roles"),
    [
        (lambda made: made.call("cudaEventQuery", 500, 600, thread=LOADER), {"runtime": 100}),
        # The data phase of a thread that prefetches is CPU work of the program.
        (
            lambda made: made.range("data", 200, 300).range("data", 400, 600, thread=LOADER),
            {"dataloader": 100, "cpu_exec": 200},
        ),
        (lambda made: made.range("data", 200, 500).range("decode", 300, 400), {"dataloader": 300}),
        # An epoch contains steps. A range that starts in a step and ends after it belongs to no step.
        (lambda made: made.range("epoch 0", -10, 2000).range("async", 500, 1500, thread=LOADER), {}),
        # In nested loops the range of one iteration does not show what the CPU does.
        (lambda made: made.range("batch", 100, 900).range("forward", 200, 300), {"cpu_exec": 100}),
        (lambda made: made.domain("NCCL", 7).range("ncclAllReduce", 200, 300, domain=7), {}),
    ],
)
def test_what_is_work_of_a_step(add: Callable[[ExportBuilder], ExportBuilder], roles: dict[str, int]) -> None:
    """A step of 1000 ns has a kernel of 100 ns and one thing more."""
    other = 900 - sum(roles.values())
    assert step(trace_of(add(one_step().kernel(0, 100)))) == {"kernel": 100, **roles, "other": other}


def test_a_graph_traced_as_a_whole_is_kernel_time() -> None:
    """A note says that the kernels inside it are not shown."""
    trace = trace_of(one_step().kernel(0, 100).graph(200, 500))
    assert step(trace) == {"kernel": 400, "other": 600}
    assert section_of(trace).notes == ("CUDA graphs were traced as a whole: all their time counts as kernels.",)


def test_another_process_has_no_part_in_the_step() -> None:
    """Kernels, calls and ranges of another process do not count."""
    other, main = global_id(OTHER_PID), global_id(OTHER_PID, OTHER_PID)
    builder = one_step().kernel(0, 100).kernel(300, 400, process=other, launched=(200, 300))
    builder.range("forward", 500, 600, thread=main)
    assert step(trace_of(builder)) == {"kernel": 100, "other": 900}


def test_each_process_has_its_own_steps_and_mean() -> None:
    other, main = global_id(OTHER_PID), global_id(OTHER_PID, OTHER_PID)
    builder = one_step().kernel(0, 100).range("step 1", 100, 500, thread=main).kernel(200, 300, process=other)
    tables = section_of(trace_of(builder)).tables
    assert tables["steps"][["process_id", "step_ns", "kernel_ns"]].to_numpy().tolist() == [
        [OTHER_PID, 400, 100],
        [4711, 1000, 100],
    ]
    kernel = tables["mean"][tables["mean"]["role"] == "kernel"]
    assert kernel[["process_id", "mean_ns", "share"]].to_numpy().tolist() == [[99, 100, 0.25], [4711, 100, 0.1]]


def test_only_whole_steps_of_the_window_count() -> None:
    builder = ExportBuilder().range("step 1", -100, 100).range("step 2", 100, 600).range("step 3", 600, 1001)
    found = section_of(trace_of(builder.kernel(200, 300))).tables["steps"]
    assert found["name"].tolist() == ["step 2"]


def test_without_a_whole_step_the_window_counts_as_a_step() -> None:
    section = section_of(trace_of(ExportBuilder().kernel(200, 300, launched=(0, 50))))
    row = section.tables["steps"].iloc[0]
    assert (row["name"], row["start_ns"], row["end_ns"]) == ("whole window", 0, 1000)
    assert (row["kernel_ns"], row["runtime_ns"], row["other_ns"]) == (100, 50, 850)
    assert section.notes == ("No step lies inside the window, so the whole window counts as one step.",)


def test_utilization_is_of_kernels_from_the_first_step_to_the_last() -> None:
    """Copies count as idle, collectives as kernels, and the time between two steps counts as well.

    ::

        step     |----|    |----|        100 to 900
        kernel  ###        ##            50 of it before the first step
        nccl             ##
        copy         ####
    """
    builder = ExportBuilder().range("step 1", 100, 300).range("step 2", 700, 900)
    builder.kernel(50, 150).copy(200, 400).kernel(600, 650, "ncclDevKernel").kernel(700, 800)
    section = section_of(trace_of(builder))
    device = section.tables["devices"].iloc[0]
    assert (device["window_ns"], device["kernel_ns"]) == (800, 200)
    assert section.fact("gpu_utilization_share").value == 0.25  # type: ignore[union-attr]


def test_utilization_is_the_mean_over_gpus() -> None:
    section = section_of(trace_of(one_step().kernel(0, 400).kernel(0, 200, device=1)))
    assert section.tables["devices"]["gpu_utilization_share"].tolist() == [0.4, 0.2]
    assert section.fact("gpu_utilization_share").value == pytest.approx(0.3)  # type: ignore[union-attr]


# Source: definitions, step breakdown of steps from the third on, ms a step.
REFERENCE = {
    "cnn_amp": (58, 3.251, (0.376, 0.007, 0.002, 0, 0.500, 0.076, 2.252, 0.038)),
    "bench_source": (8, 99.346, (93.257, 0.007, 0.146, 0, 2.244, 0, 3.660, 0.032)),
}


@pytest.mark.parametrize("name", REFERENCE)
def test_a_real_capture_has_the_reference_breakdown(name: str, real_context: RealContext) -> None:
    count, length, roles = REFERENCE[name]
    context = real_context(name)
    section = run_section(step_breakdown, context, choose_window(context))
    mean = section.tables["mean"]
    assert len(section.tables["steps"]) == count
    assert round(float(section.tables["steps"]["step_ns"].mean()) / 1e6, 3) == length
    assert tuple(round(float(ns) / 1e6, 3) for ns in mean["mean_ns"]) == roles


@of_captures(["cnn_amp", "alexnet_data_parallel_2gpu", "cuda_graph_graph_trace", "bench_source"])
@pytest.mark.parametrize("wanted", ["", "all"])
def test_the_roles_of_real_steps_add_up_to_their_length(name: str, wanted: str, real_context: RealContext) -> None:
    context = real_context(name)
    steps = run_section(step_breakdown, context, choose_window(context, wanted)).tables["steps"]
    parts = steps[[f"{role}_ns" for role in ROLES]]
    assert (parts.to_numpy() >= 0).all()
    assert parts.sum(axis="columns").tolist() == steps["step_ns"].tolist()
    assert (steps["end_ns"] - steps["start_ns"]).tolist() == steps["step_ns"].tolist()


SPAN = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(sorted).map(tuple)
EVENTS = st.lists(
    st.tuples(st.sampled_from(["kernel", "memcpy", "memset", "communication", "runtime", "data", "forward"]), SPAN),
    max_size=8,
)


@given(events=EVENTS, cut=st.integers(1, 39))
def test_it_equals_counting_nanoseconds(events: list[tuple[str, tuple[int, int]]], cut: int) -> None:
    """In each of two steps, each nanosecond belongs to the first role that is open in it."""
    builder = ExportBuilder().kernel(50, 60).range("step 1", 0, cut).range("step 2", cut, 40)
    add: dict[str, Callable[[int, int], object]] = {
        "kernel": builder.kernel,
        "memcpy": builder.copy,
        "memset": builder.fill,
        "communication": lambda start, end: builder.kernel(start, end, "ncclDevKernel"),
        "runtime": lambda start, end: builder.call("cudaLaunchKernel", start, end),
        "data": lambda start, end: builder.range("data", start, end),
        "forward": lambda start, end: builder.range("forward", start, end),
    }
    for kind, (start, end) in events:
        add[kind](start, end)
    found = section_of(trace_of(builder), 0, 40).tables["steps"]
    for row, (low, high) in enumerate(((0, cut), (cut, 40))):
        assert [int(found.iloc[row][f"{role}_ns"]) for role in ROLES] == counted(events, low, high)


def counted(events: list[tuple[str, tuple[int, int]]], low: int, high: int) -> list[int]:
    """Return the time of each role in one step, counted nanosecond by nanosecond."""
    inside = [
        (kind, span)
        for kind, span in events
        if kind != "forward" or (low <= span[0] and span[1] <= high and span[0] < span[1])
    ]
    order = ("kernel", "memcpy", "memset", "communication", "runtime", "data", "forward")
    time = [0] * len(ROLES)
    for at in range(low, high):
        # An event of length zero is open at no nanosecond. CUPTI writes 0 and 0 for an event that it could not time.
        kinds = {kind for kind, (start, end) in inside if start <= at < end}
        time[next((place for place, kind in enumerate(order) if kind in kinds), len(order))] += 1
    return time
