"""The ledger of all operations: the same in any parts and any order of parts as counted nanosecond by nanosecond."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.base.excerpt import WholeLedger
from nsyswrap.base.intervals import Window
from nsyswrap.loop.whole_ledger import LedgerSweep
from nsyswrap.trace.read_table import Arrays

END = 60
Operation = tuple[int, int, int, int, int]
OPERATIONS = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 10), st.integers(0, 1), st.integers(0, 3), st.integers(7, 9)),
    max_size=30,
)


def columns_of(operations: list[Operation]) -> Arrays:
    """Return columns of operations that are given as start, length, device, kind and process."""
    start, length, device, kind, process = np.array(operations, np.int64).reshape(-1, 5).T
    return {"start": start, "end": start + length, "device": device, "kind": kind, "process": process}


def swept(parts: list[list[Operation]], own: dict[int, Window]) -> tuple[WholeLedger, ...]:
    """Return the ledgers of parts, added one by one after all time before is settled."""
    sweep = LedgerSweep((0, END), own, (20, 30))
    for part in sorted(filter(None, parts), key=lambda each: min(each)[0]):
        sweep.settle(min(part)[0])
        sweep.add(columns_of(part))
    return sweep.end().ledgers


def counted(operations: list[Operation], device: int, first: int, last: int) -> list[int]:
    """Return the nanoseconds of each kind in an interval, and the operations that run in it, one by one."""
    mine = [(start, start + length, kind) for start, length, its, kind, _ in operations if its == device]
    found = [0, 0, 0, 0]
    for now in range(first, last):
        kinds = [kind for start, end, kind in mine if start <= now < end]
        if kinds:
            found[min(kinds)] += 1
    return [*found, sum(start < last and end > first for start, end, _ in mine)]


@given(OPERATIONS, st.integers(1, 7), st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), max_size=2))
def test_each_nanosecond_belongs_to_the_first_kind_that_runs(
    operations: list[Operation], size: int, steps: list[tuple[int, int]]
) -> None:
    """Rows are dealt into parts in turns, so parts overlap in time as those of several tables do.

    Each GPU has the steps of the process that ran most on it, among those with steps.
    """
    parts = [operations[at::size] for at in range(size)]
    own = {7 + at: Window(first, first + length, "own", "steps") for at, (first, length) in enumerate(steps)}
    found = swept(parts, own)
    for each in found:
        ran = {
            process: sum(one[1] for one in operations if (one[2], one[4]) == (each.device_id, process))
            for process in own
            if any((one[2], one[4]) == (each.device_id, process) for one in operations)
        }
        of_steps = own[max(ran, key=ran.__getitem__, default=7)] if each.of_steps else None
        start, end = (of_steps.start_ns, of_steps.end_ns) if of_steps else (0, END)
        expected = counted(operations, each.device_id, start, end)
        times = [each.compute_ns, each.communication_ns, each.copy_exposed_ns, each.memset_exposed_ns]
        assert [*times, each.operation_count] == expected
        assert each.idle_ns == end - start - sum(times)
    devices = {one[2] for one in operations}
    assert [(each.of_steps, each.device_id) for each in found] == [
        (of_steps, device) for of_steps in ([False, True] if own else [False]) for device in sorted(devices)
    ]


def test_few_operations_stay_in_memory() -> None:
    """Of a thousand parts in order of time, no more than those that have not ended are pending."""
    sweep, most = LedgerSweep((0, 10**6), {}, (5_003, 6_001)), 0
    for at in range(0, 10**6, 1_000):
        sweep.settle(at)
        sweep.add(columns_of([(at + each, 5, 0, 0, 7) for each in range(0, 1_000, 10)]))
        most = max(most, len(sweep.pending["start"]))
    swept = sweep.end()
    (found,) = swept.ledgers
    assert (found.compute_ns, found.operation_count, most) == (500_000, 100_000, 100)
    assert (swept.before_ns, swept.after_ns) == ((5_000,), (6_010,))
