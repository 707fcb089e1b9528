"""A rank is named as late for what its program does, and not for a host that is slower at everything."""

import pytest
from export_builder import ExportBuilder, global_id, thread, trace_of

from nsyswrap.loop.context import find_context
from nsyswrap.report import report_of

US, STEPS, LAUNCHES = 1_000, 12, 40
KERNEL, CALL, GAP = 20 * US, 10 * US, 90 * US
SUM = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def late(slower: float, works: int) -> list[str]:
    """Return the headlines on late ranks of a job of two ranks, which sum once a step.

    Args:
        slower: How many times as long the host of rank 1 takes for all that it does.
        works: How much longer it works before one of its launches, in ns.
    """
    builder, begin = ExportBuilder().gpu().gpu(1), 0
    for number in range(STEPS):
        arrived = []
        for rank in range(2):
            at, factor = begin, slower if rank else 1.0
            about = {"globalPid": global_id(4711 + rank), "thread": thread(4711 + rank, 4711 + rank), "deviceId": rank}
            for launch in range(LAUNCHES):
                # Every fourth gap is longer than usual.
                gap = (GAP if launch % 4 else 3 * GAP) + (works if rank and launch == LAUNCHES // 2 else 0)
                at += round(factor * gap)
                call = round(factor * CALL)
                builder.kernel(at + call, at + call + KERNEL, "k", launched=(at, at + call), **about)
                at += call
            arrived.append((at, call, about))
        end = max(at for at, *_ in arrived) + 100 * US
        for rank, (at, call, about) in enumerate(arrived):
            builder.kernel(at + KERNEL + call, end, SUM, launched=(at + 1, at + 1 + call), streamId=8, **about)
            main = thread(4711 + rank, 4711 + rank)
            builder.call("cudaDeviceSynchronize", at + 2 + call, end + 5 * US, thread=main)
            builder.range(f"step {number}", begin, end + 10 * US, thread=main)
        begin = end + 11 * US
    report = report_of(find_context(trace_of(builder)), keys=("communication",))
    return [each.headline for each in report.findings if each.rule == "ranks/late"]


@pytest.mark.parametrize(("slower", "works", "is_named"), [(1.3, 0, False), (1.0, 1_500 * US, True)])
def test_a_slower_host_is_no_late_rank(slower: float, works: int, *, is_named: bool) -> None:
    """Both take 1.5 to 1.8 ms longer: all calls and gaps by 30 %, or one gap alone."""
    headlines = late(slower, works)
    assert len(headlines) == is_named
    assert all("Rank 1 is late" in each for each in headlines)
