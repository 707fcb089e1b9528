"""The reports of several ranks as one trace: one clock, distinct processes and GPUs, one set of names."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.types import union_categoricals

from nsyswrap import tables
from nsyswrap.errors import CannotTellError, UsageError
from nsyswrap.events.operations import find_operations
from nsyswrap.model import Capture, Gpu
from nsyswrap.ranks.clocks import Clock, find_clocks, find_ends
from nsyswrap.tables import SPECS, TableSpec, Trace, array

# The bits above those of the process tell reports apart; 10 bits stay below the sign. Source: nsys writes 1 there.
REPORT_BITS = 52
MOST_REPORTS = 1 << 10
_TIMES, _IDS = ("start", "end"), ("process", "thread", "end_thread")


@dataclass(frozen=True)
class RankReport:
    """The report of one rank.

    Attributes:
        name: Its file, for messages.
        trace: Its tables.
        rank: Its number, as its launcher, its folder or its file says; None if unknown.
        world_size: The number of ranks, as its launcher says; None if unknown.
    """

    name: str
    trace: Trace
    rank: int | None = None
    world_size: int | None = None


@dataclass(frozen=True)
class Joined:
    """The reports of several ranks as one.

    Attributes:
        trace: All tables, in the clock of the first report.
        clocks: The clock of each report.
        launched_as: Rank of each process, by global id.
        notes: What the reader must know: missing ranks, and how exact the clock is.
    """

    trace: Trace
    clocks: tuple[Clock, ...]
    launched_as: Mapping[int, int]
    notes: tuple[str, ...]


def join(reports: Sequence[RankReport], name: str) -> Joined:
    """Return the reports of several ranks of one job as one trace.

    Args:
        reports: At least one report.
        name: Name of the whole.

    Raises:
        UsageError: The reports are not of one job, or a rank is there twice.
        CannotTellError: Nothing tells how the clocks of the reports differ.
    """
    reports = sorted(reports, key=lambda each: (each.rank is None, each.rank or 0, each.name))
    _check(reports)
    traces = [each.trace for each in reports]
    operations = [find_operations(trace) for trace in traces]
    ends = [find_ends(trace, its) for trace, its in zip(traces, operations, strict=True)]
    clocks = find_clocks([trace.epoch_ns for trace in traces], ends)
    for report, clock in zip(reports, clocks, strict=True):
        if clock.method == "unknown":
            raise CannotTellError(
                f"{report.name}: neither its start in UTC nor its collectives tell how its clock differs",
                hint="export the reports with a newer nsys, and give reports of one run",
            )
    devices, gpus = _devices(reports)
    whole = _Whole(traces, tuple(clock.offset_ns for clock in clocks), devices)
    launched = {
        int(process) + (number << REPORT_BITS): report.rank
        for number, (report, its) in enumerate(zip(reports, operations, strict=True))
        for process in np.unique(its.process).tolist()
        if report.rank is not None
    }
    _check_together(reports, whole)
    return Joined(whole.joined(name, gpus), clocks, launched, _notes(reports, clocks))


def _check(reports: Sequence[RankReport]) -> None:
    """Check that the reports can be of one job.

    Raises:
        UsageError: They cannot.
    """
    if not 0 < len(reports) <= MOST_REPORTS:
        raise UsageError(f"{len(reports)} reports", hint=f"give 1 to {MOST_REPORTS} reports, one of each rank")
    known = [each for each in reports if each.rank is not None]
    for one, other in pairwise(known):
        if one.rank == other.rank:
            raise UsageError(f"{one.name} and {other.name} are both of rank {one.rank}", hint="leave one out")
    sizes = {each.world_size: each.name for each in reports if each.world_size is not None}
    if len(sizes) > 1:
        (size, name), (another, second) = list(sizes.items())[:2]
        raise UsageError(
            f"{name} is of a job with {size} ranks, {second} of one with {another}", hint="give reports of one run"
        )
    communicators = [set(each.trace[tables.NCCL_CALLS]["communicator"].tolist()) - {-1} for each in reports]
    if all(communicators) and len(reports) > 1:
        for report, its in zip(reports, communicators, strict=True):
            others = set().union(*(each for each in communicators if each is not its))
            if not its & others:
                raise UsageError(
                    f"{report.name} shares no communicator with the other reports", hint="give reports of one run"
                )


def _check_together(reports: Sequence[RankReport], whole: "_Whole") -> None:
    """Check that the reports are of the same time.

    Raises:
        UsageError: One of them ended before another began.
    """
    spans = [whole.extent(number) for number in range(len(reports))]
    last = max(range(len(spans)), key=lambda number: spans[number][0])
    first = min(range(len(spans)), key=lambda number: spans[number][1])
    if spans[last][0] >= spans[first][1]:
        raise UsageError(
            f"{reports[first].name} ended before {reports[last].name} began", hint="give reports of one run"
        )


def _notes(reports: Sequence[RankReport], clocks: Sequence[Clock]) -> tuple[str, ...]:
    found = []
    size = next((each.world_size for each in reports if each.world_size is not None), None)
    if size is not None and len(reports) < size:
        found.append(
            f"{len(reports)} of {size} ranks are here. What each of them did is complete; a wait for a rank that is "
            "not here counts as transfer, or as a wait for the last rank that is."
        )
    errors = [clock.error_ns for clock in clocks[1:]]
    methods = sorted({clock.method for clock in clocks[1:]})
    if errors and None not in errors:
        most = max(each for each in errors if each is not None)
        found.append(
            f"The clocks of the reports were joined by {' and '.join(methods)}; they agree within {most / 1e3:.0f} µs."
        )
    elif errors:
        found.append(f"The clocks of the reports were joined by {' and '.join(methods)}; how exactly is not known.")
    return tuple(found)


def _devices(reports: Sequence[RankReport]) -> tuple[list[dict[int, int]], tuple[Gpu, ...]]:
    """Return the number of each report's GPUs among all, and the GPUs; one GPU has one UUID, whatever its number."""
    numbers: list[dict[int, int]] = []
    gpus: dict[int, Gpu] = {}
    by_uuid: dict[str, int] = {}
    for report in reports:
        known = {gpu.device_id: gpu for gpu in report.trace.gpus}
        used = sorted({int(each) for spec in _of_devices() for each in pd.unique(report.trace[spec]["device_id"])})
        mine: dict[int, int] = {}
        for device in used:
            gpu = known.get(device, Gpu(device, ""))
            uuid = report.trace.gpu_uuids.get(device, "")
            number = by_uuid.get(uuid) if uuid else None
            if number is None:
                number = device if device not in gpus else max(gpus) + 1
                gpus[number] = replace(gpu, device_id=number)
                if uuid:
                    by_uuid[uuid] = number
            mine[device] = number
        numbers.append(mine)
    return numbers, tuple(gpus[number] for number in sorted(gpus))


def _of_devices() -> list[TableSpec]:
    return [spec for spec in SPECS if "device_id" in spec.columns]


@dataclass(frozen=True)
class _Whole:
    """The traces to join, with the offset of each one's clock in ns and the numbers of its GPUs."""

    traces: Sequence[Trace]
    offsets: tuple[int, ...]
    devices: Sequence[Mapping[int, int]]

    def extent(self, number: int) -> tuple[int, int]:
        """Return the start of the first kernel of a report and the end of the last, in ns of the first clock.

        Where no kernel ran, as with gloo on the CPU, it is the time that was recorded.
        """
        frame = self.traces[number][tables.KERNELS]
        offset = self.offsets[number]
        if not len(frame):
            return offset, offset + max(self.traces[number].session.duration_ns, 1)
        return int(frame["start"].min()) + offset, int(frame["end"].max()) + offset

    def joined(self, name: str, gpus: tuple[Gpu, ...]) -> Trace:
        """Return the traces as one."""
        first = self.traces[0]
        texts = _Texts(self.traces)
        ends = [offset + trace.session.duration_ns for offset, trace in zip(self.offsets, self.traces, strict=True)]
        stacks = np.cumsum([0, *(len(trace.stacks) for trace in self.traces)])
        counters = tuple(dict.fromkeys(each for trace in self.traces for each in trace.counter_names))
        frames = {spec.name: self._frame(spec, texts, stacks, counters) for spec in SPECS}
        return Trace(
            capture=Capture(name, sum(trace.capture.bytes for trace in self.traces)),
            session=replace(first.session, duration_ns=max(ends)),
            gpus=gpus,
            frames=frames,
            strings=texts.strings,
            copy_kinds=first.copy_kinds,
            memory_kinds=first.memory_kinds,
            absent=frozenset().union(*(trace.absent for trace in self.traces)),
            event_counts=_sums(trace.event_counts for trace in self.traces),
            dropped=_sums(trace.dropped for trace in self.traces),
            counter_names=counters,
            stacks=tuple(stack for trace in self.traces for stack in trace.stacks),
        )

    def _frame(
        self, spec: TableSpec, texts: "_Texts", stacks: npt.NDArray[Any], counters: tuple[str, ...]
    ) -> pd.DataFrame:
        """Return one table of all reports, by start."""
        parts = []
        for number, trace in enumerate(self.traces):
            frame = trace[spec]
            columns = {column: self._column(number, column, array(frame, column)) for column in _plain(spec)}
            if "name_id" in columns:
                columns["name_id"] = texts.renumbered(number, columns["name_id"])
            if "stack" in columns:
                columns["stack"] = columns["stack"] + np.int32(stacks[number])
            if "counter" in columns:
                place = np.array([counters.index(each) for each in trace.counter_names] or [0], np.int32)
                columns["counter"] = place[columns["counter"]] if len(frame) else columns["counter"]
            parts.append(columns)
        whole: dict[str, Any] = {column: np.concatenate([part[column] for part in parts]) for column in _plain(spec)}
        for column in set(spec.columns) - set(_plain(spec)):
            whole[column] = union_categoricals([trace[spec][column] for trace in self.traces])
        found = pd.DataFrame({column: whole[column] for column in spec.columns})
        if "start" not in found:
            return found
        order = np.argsort(array(found, "start"), kind="stable")
        return found.iloc[order].reset_index(drop=True)

    def _column(self, number: int, column: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the values of a column as they are in the whole."""
        if column in _TIMES:
            return values + np.int64(self.offsets[number])
        if column in _IDS:
            return np.where(values > 0, values + (np.int64(number) << REPORT_BITS), values)
        if column == "device_id" and len(values):
            known, codes = np.unique(values, return_inverse=True)
            mapped = np.array([self.devices[number].get(int(each), int(each)) for each in known], values.dtype)
            return mapped[codes]
        return values


class _Texts:
    """The texts of all reports: one number for each text."""

    def __init__(self, traces: Sequence[Trace]) -> None:
        numbers: dict[str, int] = {}
        self._by_report: list[dict[int, int]] = []
        for trace in traces:
            mine = {key: numbers.setdefault(text, len(numbers)) for key, text in trace.strings.items()}
            self._by_report.append(mine)
        self.strings = {number: text for text, number in numbers.items()}
        self._next = len(numbers)

    def renumbered(self, report: int, ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the numbers of some texts of one report; ids without a text stay without one."""
        known, codes = np.unique(ids, return_inverse=True)
        numbers = np.array([self._by_report[report].get(int(each), self._next) for each in known], np.int64)
        return numbers[codes] if len(codes) else ids


def _plain(spec: TableSpec) -> list[str]:
    """Return the columns of a table that hold numbers."""
    return [column for column, kind in spec.columns.items() if kind != "category"]


def _sums(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in counts:
        for key, count in each.items():
            found[key] = found.get(key, 0) + count
    return found
