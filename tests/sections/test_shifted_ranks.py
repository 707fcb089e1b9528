"""Each rank has its own part of the window: what is measured on its GPU does not depend on when other ranks start."""

from functools import cache
from typing import Any

import pandas as pd
import pytest
from export_builder import global_id, trace_of
from shifted_ranks import FIRST, FIRST_PID, GEMM, US, ShiftedRanks

from nsyswrap.model import Report
from nsyswrap.report import build_report

STEPS, STEP, PERIOD = 16, 1000 * US, 10 * US
COUNTER = "Tensor Active [Throughput %]"
LATER = 330


def sample(at: int) -> int:
    """Return a counter at a time since a rank began: higher in each later step, and low before the first."""
    number, inside = divmod(at, STEP)
    return (20 + 5 * number if inside < STEP // 2 else 3) if 0 <= number < STEPS else 90


@cache
def report_of(later_us: int) -> Report:
    """Return the report of two ranks, the second one so much later; each launches graphs, allocates and waits."""
    job = ShiftedRanks(((500,) * STEPS, (520,) * STEPS), (0, later_us))
    made, calls = job.built(), 10**6
    for rank in range(2):
        begin = FIRST + job.shifts_us[rank] * US
        times = range(begin - STEP, begin + (STEPS + 1) * STEP, PERIOD)
        made.metric(COUNTER, [(at, sample(at - begin)) for at in times], rank)
        process, thread = global_id(FIRST_PID + rank), global_id(FIRST_PID + rank, FIRST_PID + rank)
        # Both live as long as the capture.
        made.call("cudaEventQuery", FIRST + 2 * STEPS * STEP, FIRST + 2 * STEPS * STEP + US, thread=thread)
        for number in range(STEPS):
            at, calls = begin + number * STEP, calls + 1
            about: dict[str, Any] = {"process": process, "device": rank, "correlation": calls}
            made.call("cudaGraphLaunch", at + 700 * US, at + 705 * US, thread=thread, correlation=calls)
            made.kernel(at + 710 * US, at + (720 + number) * US, GEMM, graph_node=1, **about)
            made.os_call("poll", at + 800 * US, at + (810 + number) * US, thread=thread)
            made.os_call("read", at + 900 * US, at + (910 + number) * US, thread=thread)
            made.memory(at + 690 * US, (1 + number) << 20, process=process, device=rank)
    return build_report(trace_of(made))


@pytest.mark.parametrize(
    ("section", "table"),
    [
        ("counters", "window"),
        ("counters", "phases"),
        ("cuda_graphs", "launches"),
        ("cuda_graphs", "kernels"),
        ("device_memory", "devices"),
        ("host_waits", "threads"),
        ("host_waits", "waits"),
        ("machine", "host"),
        ("ranges", "summary"),
        ("ranges", "projection"),
    ],
)
def test_a_table_is_the_same_where_ranks_start_at_other_times(section: str, table: str) -> None:
    together, shifted = (report_of(later).section(section).tables[table] for later in (0, LATER))  # type: ignore[union-attr]
    assert len(together)
    pd.testing.assert_frame_equal(together, shifted)


def test_tensor_work_by_counter_is_the_same_where_ranks_start_at_other_times() -> None:
    facts = [report_of(later).section("tensor_cores").facts for later in (0, LATER)]  # type: ignore[union-attr]
    assert facts[0] == facts[1]


def test_a_gpu_has_counters_of_the_steps_of_its_own_processes() -> None:
    steps = report_of(LATER).section("counters").tables["steps"]  # type: ignore[union-attr]
    for rank, mine in steps.groupby("device_id"):
        begin = FIRST + (0, LATER)[int(str(rank))] * US
        assert ((mine["start_ns"] - begin) % STEP == 0).all()
        assert mine["name"].is_unique
