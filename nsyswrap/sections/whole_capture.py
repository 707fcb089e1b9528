"""The ledger of all of a capture, where the report is about a part of it."""

import pandas as pd

from nsyswrap.base.excerpt import Excerpt
from nsyswrap.base.intervals import Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Fact, Section
from nsyswrap.sections.spec import Kind, SectionSpec

ALL, OF_STEPS = "all operations", "all measured steps"
WORDS = "read"
"""The fact that says which part of the capture the report is about."""


def run(context: TraceContext) -> Section:
    """Return the ledger of each GPU over all operations, and over all measured steps where ranges name them.

    The context must be that of a part of a capture. Communication is one row, since collectives of all ranks are not
    matched over the whole capture.
    """
    excerpt = context.trace.excerpt
    if excerpt is None:
        raise ValueError("the trace holds all of the capture")
    every = next(each for each in excerpt.ledgers if not each.of_steps)
    return SECTION.made(
        Window(every.start_ns, every.end_ns, "all GPU operations, warm-up included", "operations"),
        facts=(
            Fact(WORDS, excerpt.words(context.steps.read), "text"),
            Fact("operations", excerpt.operation_count, "count"),
            Fact("operations_read", excerpt.read_count, "count"),
        ),
        tables={"gpus": _rows(excerpt)},
        notes=(f"All other sections are about the part that was read: {excerpt.reason}.",),
    )


def _rows(excerpt: Excerpt) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "device_id": each.device_id,
                "interval": OF_STEPS if each.of_steps else ALL,
                "window_ns": each.window_ns,
                "compute_ns": each.compute_ns,
                "communication_ns": each.communication_ns,
                "copy_exposed_ns": each.copy_exposed_ns,
                "memset_exposed_ns": each.memset_exposed_ns,
                "idle_ns": each.idle_ns,
                "operation_count": each.operation_count,
            }
            for each in excerpt.ledgers
        ]
    )


SECTION = SectionSpec(
    key="whole_capture",
    title="The whole capture",
    run=run,
    reads=(),
    of_operations=True,
    of_excerpt=True,
    place=15,
    on_page_only=False,
    columns={
        "gpus": (
            "device_id interval window_ns compute_ns communication_ns copy_exposed_ns memset_exposed_ns "
            "idle_ns operation_count"
        )
    },
    kinds={Kind.TEXT: "interval"},
    captions={"gpus": "Where the GPU's time went, over all of the capture"},
)
