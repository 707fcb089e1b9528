"""Statistics by name of operating system calls."""

from nsyswrap.base.intervals import Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Section
from nsyswrap.sections.spec import STATISTICS, PageGroup, SectionSpec
from nsyswrap.sections.summaries import summary
from nsyswrap.trace import tables


def run(context: TraceContext, window: Window) -> Section:
    """Return operating system calls of all threads by name; threads that sleep at the same time all count."""
    table = summary(context, tables.OS_CALLS, window, keep_version=True)
    return Section(SECTION.key, SECTION.title, window, (), {"summary": table})


SECTION = SectionSpec(
    key="os_calls",
    title="Operating system calls",
    run=run,
    needs=(tables.OS_CALLS,),
    place=240,
    group=PageGroup.PROGRAM,
    on_page_only=True,
    columns={"summary": f"name {STATISTICS}"},
    reads=(tables.OS_CALLS,),
)
