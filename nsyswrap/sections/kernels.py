"""Statistics by name of kernels."""

from nsyswrap.sections.spec import PageGroup
from nsyswrap.sections.summaries import summary_section
from nsyswrap.trace import tables

SECTION = summary_section(tables.KERNELS, key="kernels", title="Kernels", place=70, group=PageGroup.GPU)
