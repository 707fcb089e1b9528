"""Statistics by name of operating system calls."""

from nsyswrap.sections.summaries import summary_section
from nsyswrap.trace import tables

SECTION = summary_section(tables.OS_CALLS, key="os_calls", title="Operating system calls", place=240)
