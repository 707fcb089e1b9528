"""A change is one of the program: it is made on all ranks, also where a rank hides its slow host behind another one."""

import pytest
from export_builder import ExportBuilder, global_id, thread, trace_of
from savings import saving_of

from nsyswrap.model import Report
from nsyswrap.report import build_report

US, MS = 1_000, 1_000_000
SUM = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
ROUNDS, STEPS, KERNEL, TRANSFER, LEAD = 5, 12, 20 * US, 30 * US, 1_000 * US


def job(work_ns: int, launches: int = 1) -> ExportBuilder:
    """Return steps of two ranks, of five rounds each: the host works, launches a kernel and works on, and then a sum.

    Rank 1 begins each step 1 ms after rank 0, so rank 0 waits for it in each sum. Its host works on meanwhile.

    Args:
        work_ns: How long the host of each rank works before each launch of a kernel.
        launches: How many kernels it launches in a round.
    """
    builder, begin = ExportBuilder().gpu().gpu(1), 0
    for number in range(STEPS):
        host, free = [begin, begin + LEAD], [begin, begin]
        for _ in range(ROUNDS):
            for _ in range(launches):
                for rank in range(2):
                    host[rank] += work_ns
                    free[rank] = kernel(builder, rank, host[rank], max(free[rank], host[rank] + 8 * US), KERNEL)
                    host[rank] += 5 * US
            started = [max(free[rank], host[rank] + 8 * US) for rank in range(2)]
            for rank in range(2):
                ends = max(started) + TRANSFER
                free[rank] = kernel(builder, rank, host[rank], started[rank], ends - started[rank], SUM)
                host[rank] += 5 * US
        ended = max(*host, *free) + 10 * US
        for rank in range(2):
            main = thread(4711 + rank, 4711 + rank)
            builder.call("cudaDeviceSynchronize", host[rank], ended, thread=main)
            builder.range(f"step {number}", begin, ended + 5 * US, thread=main)
        begin = ended + 6 * US
    return builder


def kernel(builder: ExportBuilder, rank: int, at: int, start: int, length: int, name: str = "k") -> int:  # noqa: PLR0913, PLR0917
    """Add a kernel of a rank with its launch; return its end."""
    process = {"globalPid": global_id(4711 + rank), "thread": thread(4711 + rank, 4711 + rank), "deviceId": rank}
    builder.kernel(start, start + length, name, launched=(at, at + 4 * US), gridX=200, blockX=256, **process)
    return start + length


def savings(report: Report, rule: str) -> list[float]:
    """Return what each finding of a rule saves of a step, in µs."""
    return [saving_of(each).point / (report.step.count or 1) / US for each in report.findings if each.rule == rule]


@pytest.mark.parametrize(
    ("work_ns", "launches", "rule"), [(1_000 * US, 1, "idle/cpu"), (50 * US, 20, "launches/launch_bound")]
)
def test_both_hosts_are_fixed_where_one_hides_behind_the_other(work_ns: int, launches: int, rule: str) -> None:
    """Each host works for 5 ms a step, and rank 0 hides 4 of them behind the waits for rank 1.

    Without the work of rank 1 alone, only the 1 ms by which it begins later would be saved.
    """
    report = build_report(trace_of(job(work_ns, launches)))
    found = savings(report, rule)
    assert found
    assert report.verdict_rule == rule
    assert set(found) == {max(found)}
    assert max(found) > 3_000
    assert report.plan.changes[0].rule == rule
