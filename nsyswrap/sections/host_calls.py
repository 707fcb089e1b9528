"""Statistics by name of CUDA calls."""

from nsyswrap.base.intervals import Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Section
from nsyswrap.sections.spec import STATISTICS, PageGroup, SectionSpec
from nsyswrap.sections.summaries import summary
from nsyswrap.trace import tables


def run(context: TraceContext, window: Window) -> Section:
    """Return CUDA API calls of all threads by name; a driver call inside a runtime call counts in both."""
    table = summary(context, tables.CALLS, window, keep_version=False)
    return Section(SECTION.key, SECTION.title, window, (), {"summary": table})


SECTION = SectionSpec(
    key="host_calls",
    title="CUDA API calls",
    run=run,
    needs=(tables.CALLS,),
    place=220,
    group=PageGroup.PROGRAM,
    on_page_only=True,
    columns={"summary": f"name {STATISTICS}"},
    reads=(),
)
