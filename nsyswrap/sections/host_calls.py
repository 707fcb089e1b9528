"""Statistics by name of CUDA calls."""

from nsyswrap.sections.summaries import summary_section
from nsyswrap.trace import tables

SECTION = summary_section(tables.CALLS, key="host_calls", title="CUDA API calls", place=220)
