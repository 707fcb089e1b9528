"""The ledger of all operations of a large export, worked out in order of time with few of them in memory.

Parts are read by their first start. So no later part holds a start before that of the next part, and all time up to it
is settled::

    part 1    |--| |-----|  |--------|
    part 2                 |--|   |----|   ...
    settled   -------------|
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from nsyswrap.base.excerpt import WholeLedger
from nsyswrap.base.intervals import Times, Window, covered
from nsyswrap.events.operations import COMMUNICATION, COMPUTE, COPY, KINDS, MEMSET, SOURCES, exclusive_by_kind
from nsyswrap.hardware.kernel_names.collectives import is_collective
from nsyswrap.loop.own_windows import main_process
from nsyswrap.trace import tables
from nsyswrap.trace.connection import Export
from nsyswrap.trace.load import devices_of, use_physical_devices
from nsyswrap.trace.read_table import Arrays, texts_of
from nsyswrap.trace.row_choice import LIMITS, Progress, TableIndex, read_ahead
from nsyswrap.trace.valid_rows import EVERY, possible

_COLUMNS = frozenset({"start", "end", "device_id", "process", "name_id", "bytes"})
_NAMES = tuple(spec.name for spec in SOURCES)
_KIND = {tables.COPIES.name: COPY, tables.MEMSETS.name: MEMSET}
Interval = tuple[int, int]


class Swept(NamedTuple):
    """What is known of all operations.

    Attributes:
        ledgers: The ledgers of each GPU.
        before_ns: Start of the last operation of each GPU that begins before the interval to read, where there is one.
        after_ns: Start of the first one that begins after it.
    """

    ledgers: tuple[WholeLedger, ...]
    before_ns: tuple[int, ...]
    after_ns: tuple[int, ...]


class LedgerSweep:
    """Adds up ledgers of some intervals while operations come in order of time.

    Args:
        every: Start of the first operation of all GPUs and end of the last, in ns.
        own: The measured steps of each process that has any, by global id.
        to_read: Start and end of the interval to read.

    Attributes:
        pending: The operations in memory: their start, end, device and kind.
    """

    def __init__(self, every: Interval, own: Mapping[int, Window], to_read: Interval) -> None:
        self._own = own
        self._start, self._end = np.array([every, *((each.start_ns, each.end_ns) for each in own.values())], np.int64).T
        self._to_read = to_read
        self._before: dict[int, int] = {}
        self._after: dict[int, int] = {}
        self.pending: Arrays = {name: np.empty(0, np.int64) for name in ("start", "end", "device", "kind")}
        # Of each GPU: time by kind and interval, operations by interval, time by process.
        self._sums: dict[int, Times] = defaultdict(lambda: np.zeros((len(KINDS), len(self._start)), np.int64))
        self._counts: dict[int, Times] = defaultdict(lambda: np.zeros(len(self._start), np.int64))
        self._ran: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))

    def add(self, operations: Arrays) -> None:
        """Add operations: their start, end, device, process and kind. None starts before the time that is settled."""
        for device in tables.distinct(operations["device"]).tolist():
            mine = operations["device"] == device
            start, end, process = (operations[name][mine] for name in ("start", "end", "process"))
            # The operations that are nearest to the interval to read.
            earlier, later = start[start < self._to_read[0]], start[start >= self._to_read[1]]
            if len(earlier):
                self._before[device] = max(int(earlier.max()), self._before.get(device, LIMITS.min))
            if len(later):
                self._after[device] = min(int(later.min()), self._after.get(device, LIMITS.max))
            ended = np.searchsorted(np.sort(end), self._start, "right")
            self._counts[device] += np.searchsorted(np.sort(start), self._end) - ended
            for each in tables.distinct(process).tolist():
                self._ran[device][each] += int((end - start)[process == each].sum())
        self.pending = {name: np.concatenate([self.pending[name], operations[name]]) for name in self.pending}

    def settle(self, until_ns: int) -> None:
        """Count all time before ``until_ns``; operations that go on stay pending."""
        start, end = self.pending["start"], self.pending["end"]
        for device in tables.distinct(self.pending["device"]).tolist():
            mine = (self.pending["device"] == device) & (start < until_ns)
            cut = np.minimum(end[mine], until_ns)
            for kind, spans in enumerate(exclusive_by_kind(start[mine], cut, self.pending["kind"][mine])):
                self._sums[device][kind] += covered(spans, self._start, self._end)
        left = end > until_ns
        self.pending = {name: values[left] for name, values in self.pending.items()}
        self.pending["start"] = np.maximum(self.pending["start"], until_ns)

    def end(self) -> Swept:
        """Return what is known: the ledgers of all operations, then those of the measured steps."""
        self.settle(EVERY.high)
        devices = sorted(self._counts)
        found = [self._ledger(device, 0) for device in devices]
        if self._own:
            place = {process: at for at, process in enumerate(self._own, 1)}
            main = [main_process(dict(sorted(self._ran[device].items())), self._own) for device in devices]
            found += [self._ledger(device, place[process]) for device, process in zip(devices, main, strict=True)]
        return Swept(tuple(found), tuple(self._before.values()), tuple(self._after.values()))

    def _ledger(self, device: int, at: int) -> WholeLedger:
        compute, communication, copy, memset = self._sums[device][:, at].tolist()
        start, end, count = int(self._start[at]), int(self._end[at]), int(self._counts[device][at])
        return WholeLedger(device, bool(at), start, end, compute, communication, copy, memset, count)


def extent_of_operations(indexes: Mapping[str, TableIndex]) -> Interval | None:
    """Return the first start and the last end of all operations, in ns; None without any."""
    found = [indexes[name] for name in _NAMES if name in indexes]
    first = min((int(each.first_ns.min(initial=LIMITS.max)) for each in found), default=LIMITS.max)
    last = max((int(each.end_ns.max(initial=LIMITS.min)) for each in found), default=LIMITS.min)
    return (first, max(last, first + 1)) if first <= last else None


def whole_ledgers(export: Export, indexes: Mapping[str, TableIndex], sweep: LedgerSweep, progress: Progress) -> Swept:
    """Return the exact ledgers of each GPU.

    Raises:
        ExportError: A table is damaged.
    """
    texts, devices = texts_of(export), devices_of(export) or {}
    jobs = sorted(
        (int(first), name, at)
        for name in _NAMES
        if name in indexes
        for at, first in enumerate(indexes[name].first_ns.tolist())
    )
    readers = {name: indexes[name].reader.only(_COLUMNS) for _, name, _ in jobs}
    parts = read_ahead((readers[name], readers[name].parts[at]) for _, name, at in jobs)
    for (first, name, _), columns in zip(jobs, parts, strict=True):
        sweep.settle(min(first, int(EVERY.high)))
        use_physical_devices(columns, devices)
        sweep.add(_operations(name, columns, texts))
        progress(len(columns["start"]))
    return sweep.end()


def _operations(name: str, columns: Arrays, texts: Mapping[int, str]) -> Arrays:
    """Return start, end, process, device and kind of the possible operations of a part."""
    good = possible(columns, EVERY, is_operation=True)
    kind = np.full(len(good), _KIND.get(name, COMPUTE))
    if name == tables.KERNELS.name:
        ids, place = np.unique(columns["name_id"], return_inverse=True)
        communicates = np.array([is_collective(texts.get(each, "")) for each in ids.tolist()], bool)
        kind[communicates[place]] = COMMUNICATION
    found = {name: columns[name] for name in ("start", "end", "process")}
    found |= {"device": columns["device_id"], "kind": kind}
    return {key: values[good].astype(np.int64) for key, values in found.items()}
