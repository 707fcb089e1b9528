"""Which part of a large capture a trace holds, and what is known of all of it."""

from dataclasses import dataclass
from typing import NamedTuple

from nsyswrap.base import units

# Bytes in a gigabyte, as memory is stated.
GB = 10**9


class WholeLedger(NamedTuple):
    """The ledger of one GPU over all of a capture, or over all its measured steps; in ns.

    Where operations overlap, a nanosecond belongs to the first of compute, communication, copy, memset.

    Attributes:
        of_steps: Whether it is that of all measured steps of the process that ran most on the GPU; otherwise from the
            first operation of all GPUs to the last.
        compute_ns, communication_ns, copy_exposed_ns, memset_exposed_ns: Time of each kind in the interval.
    """

    device_id: int
    of_steps: bool
    start_ns: int
    end_ns: int
    compute_ns: int
    communication_ns: int
    copy_exposed_ns: int
    memset_exposed_ns: int
    operation_count: int

    @property
    def window_ns(self) -> int:
        """Return the length of the interval."""
        return self.end_ns - self.start_ns

    @property
    def idle_ns(self) -> int:
        """Return the time without any operation."""
        used = self.compute_ns + self.communication_ns + self.copy_exposed_ns + self.memset_exposed_ns
        return self.window_ns - used


class StepsRead(NamedTuple):
    """Which measured steps of a process were read: numbers from 1 in order of time, and the number of all."""

    first: int
    last: int
    total: int


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The part of a capture that was read.

    Attributes:
        start_ns, end_ns: The interval that can be reported on. What runs around it was read, too.
        extent: Start of the first event of the capture and end of the last; ranges do not count.
        is_wanted: Whether it is the whole window that the user asked for.
        needed_bytes: Memory that reading all would take, estimated.
    """

    start_ns: int
    end_ns: int
    extent: tuple[int, int]
    is_wanted: bool
    read_count: int
    operation_count: int
    needed_bytes: int
    memory_bytes: int
    ledgers: tuple[WholeLedger, ...]

    def words(self, steps: StepsRead | None) -> str:
        """Return what was read: "1,200 of 5,000 GPU operations, measured steps 10 to 60 of 240".

        Args:
            steps: Which measured steps; None where ranges name none.
        """
        found = f"{units.count(self.read_count)} of {units.counted(self.operation_count, 'GPU operation')}"
        if steps is None:
            return found
        first, last, total = steps
        which = f"steps {units.count(first)} to {units.count(last)}" if last > first else f"step {units.count(first)}"
        return f"{found}, measured {which} of {units.count(total)}"

    @property
    def reason(self) -> str:
        """Return why not all was read."""
        needed, memory = (f"{value / GB:.1f} GB" for value in (self.needed_bytes, self.memory_bytes))
        return f"reading all would take about {needed} of memory, and {memory} may be used (--memory)"
