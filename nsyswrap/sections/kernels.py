"""Statistics by name of kernels."""

from nsyswrap.base.intervals import Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Section
from nsyswrap.sections.spec import STATISTICS, PageGroup, SectionSpec
from nsyswrap.sections.summaries import summary
from nsyswrap.trace import tables


def run(context: TraceContext, window: Window) -> Section:
    """Return kernels by demangled name; overlapping kernels all count in full, so a total is not elapsed time."""
    table = summary(context, tables.KERNELS, window, keep_version=True)
    return Section(SECTION.key, SECTION.title, window, (), {"summary": table})


SECTION = SectionSpec(
    key="kernels",
    title="Kernels",
    run=run,
    needs=(tables.KERNELS,),
    place=70,
    group=PageGroup.GPU,
    on_page_only=True,
    columns={"summary": f"name {STATISTICS}"},
    reads=(),
)
