"""Which collectives the compute of a GPU waited for."""

import pytest
from export_builder import ExportBuilder, trace_of
from made_ranks import REDUCE

from nsyswrap.loop.context import find_context
from nsyswrap.ranks.collectives import find_collectives
from nsyswrap.ranks.in_step import gating

US = 1000


@pytest.mark.parametrize(
    ("launched", "begins", "returns", "waited"),
    [
        (88, 108, None, True),
        (92, 108, None, False),
        (88, 112, None, False),
        (118, 130, 140, True),
        (118, 130, 160, False),
    ],
)
def test_compute_waited_where_it_was_queued_or_the_host_returned_right_after(
    launched: int, begins: int, returns: int | None, *, waited: bool
) -> None:
    """A collective ends at 100 µs. Right after is within 10 µs for the GPU, and within 50 µs for a call of the host."""
    built = ExportBuilder().gpu().kernel(20 * US, 100 * US, REDUCE, launched=(0, 2 * US), stream=8)
    built.kernel(begins * US, (begins + 20) * US, launched=((launched - 2) * US, launched * US))
    if returns is not None:
        built.call("cudaStreamSynchronize", 10 * US, returns * US)
    context = find_context(trace_of(built))
    assert bool(len(gating(context, find_collectives(context), 0))) is waited
