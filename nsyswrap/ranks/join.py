"""The reports of several ranks as one trace: one clock, distinct processes and GPUs, one set of names."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.types import union_categoricals

from nsyswrap.base.errors import CannotTellError, UsageError
from nsyswrap.events.operations import Operations, find_operations
from nsyswrap.hardware.steps_alone import steps_of_job
from nsyswrap.model import Capture, Gpu
from nsyswrap.ranks.clocks import FARTHEST_NS, Clock, find_clocks, find_ends
from nsyswrap.ranks.heads import Head
from nsyswrap.ranks.host_records import cost_of_job, host_of_job
from nsyswrap.ranks.identity import communicators_in, devices_in
from nsyswrap.ranks.rank_report import Joined, RankReport
from nsyswrap.trace import tables
from nsyswrap.trace.tables import SPECS, TableSpec, Trace, array

# The bits above those of the process tell reports apart; 10 bits stay below the sign. Source: nsys writes 1 there.
REPORT_BITS = 52
MOST_REPORTS = 1 << 10
# Stands for an error that is not known: hosts keep their clocks to less. It is larger than any wait to be explained.
UNKNOWN_NS = FARTHEST_NS
GpuNumbers = Sequence[Mapping[int, int]]
_TIMES, _IDS = ("start", "end"), ("process", "thread", "end_thread")


def join(
    reports: Sequence[RankReport], name: str, clocks: Sequence[Clock] = (), gpu_numbers: GpuNumbers = ()
) -> Joined:
    """Return the reports of several ranks of one job as one trace.

    Args:
        reports: At least one report.
        name: Name of the whole.
        clocks: The clock of each report, where they are known from more ranks; the reports are then in order.
        gpu_numbers: The number of each GPU of each report, where they are known from more ranks.

    Raises:
        UsageError: The reports are not of one job, or a rank is there twice.
        CannotTellError: Nothing tells how the clocks of the reports differ.
    """
    reports = list(reports) if clocks else sorted(reports, key=order_of)
    check_one_job([
        ReportIdentity(each.name, each.rank, each.world_size, communicators_in(each.trace)) for each in reports
    ])  # fmt: skip
    traces = [each.trace for each in reports]
    operations = [find_operations(trace) for trace in traces]
    check_distinct(
        (each.name, each.trace.epoch_ns, frozenset(its.process.tolist()))
        for each, its in zip(reports, operations, strict=True)
    )
    ends = [find_ends(trace, its) for trace, its in zip(traces, operations, strict=True)]
    clocks = clocks or find_clocks([trace.epoch_ns for trace in traces], ends)
    check_clocks([each.name for each in reports], clocks)
    known = [({gpu.device_id: gpu for gpu in trace.gpus}, trace.gpu_uuids, devices_in(trace)) for trace in traces]
    devices, gpus = number_gpus(known, gpu_numbers)
    whole = _Whole(traces, clocks, devices)
    launched, errors = _by_process(reports, operations, clocks)
    check_together([each.name for each in reports], [whole.extent(number) for number in range(len(reports))])
    size = next((each.world_size for each in reports if each.world_size is not None), None)
    uuids = [frozenset(trace.gpu_uuids.values()) for trace in traces]
    return Joined(
        *(whole.joined(name, gpus), tuple(clocks), launched, errors, job_notes(len(reports), size, clocks)),
        host=host_of_job([each.host for each in reports], clocks, uuids),
        profiler_cost=cost_of_job([each.profiler_cost for each in reports]),
        steps_alone=steps_of_job([(each.rank, each.steps_alone) for each in reports]),
        xray=tuple(each.xray for each in reports),
    )


def _by_process(
    reports: Sequence[RankReport], operations: Sequence[Operations], clocks: Sequence[Clock]
) -> tuple[dict[int, int], dict[int, int]]:
    """Return the rank that the launcher gave each process, and how wrong its clock can be in ns, by global id.

    The processes are those that ran something on a GPU, and those that marked ranges.
    """
    launched: dict[int, int] = {}
    errors: dict[int, int] = {}
    for number, (report, its, clock) in enumerate(zip(reports, operations, clocks, strict=True)):
        marking = tables.process_of(tables.distinct(array(report.trace[tables.RANGES], "thread")))
        for process in np.union1d(its.process, marking).tolist():
            among_all = int(process) + (number << REPORT_BITS)
            if report.rank is not None:
                launched[among_all] = report.rank
            if number:
                errors[among_all] = UNKNOWN_NS if clock.error_ns is None else clock.error_ns
    return launched, errors


def check_clocks(names: Sequence[str], clocks: Sequence[Clock]) -> None:
    """Check that the clock of each report is known.

    Raises:
        CannotTellError: Nothing tells how one of them differs.
    """
    for name, clock in zip(names, clocks, strict=True):
        if clock.method == "unknown":
            raise CannotTellError(
                f"{name}: neither its start in UTC nor its collectives tell how its clock differs",
                hint="export the reports with a newer nsys, and give reports of one run",
            )


class ReportIdentity(NamedTuple):
    """What identifies a report: its name, its rank and the number of ranks if known, and ids of its communicators."""

    name: str
    rank: int | None
    world_size: int | None
    communicators: frozenset[int]


def order_of(report: RankReport | Head) -> tuple[bool, int, str]:
    """Return the sort key of a report: by rank, those without one last."""
    return (report.rank is None, report.rank or 0, report.name)


def check_one_job(reports: Sequence[ReportIdentity]) -> None:
    """Check that the reports can be of one job. They are in order of rank.

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
    if len(reports) > 1 and all(each.communicators for each in reports):
        held = Counter(each for report in reports for each in report.communicators)
        for report in reports:
            if all(held[each] == 1 for each in report.communicators):
                raise UsageError(
                    f"{report.name} shares no communicator with the other reports", hint="give reports of one run"
                )


def check_distinct(recordings: Iterable[tuple[str, int | None, frozenset[int]]]) -> None:
    """Check that no two reports are the same recording: begun in the same nanosecond, with the same processes.

    Args:
        recordings: Name of each report, its start in ns since 1970 if known, and its processes.

    Raises:
        UsageError: Two of them are.
    """
    seen: dict[tuple[int, frozenset[int]], str] = {}
    for name, epoch_ns, processes in recordings:
        if epoch_ns is None:
            continue
        if (first := seen.setdefault((epoch_ns, processes), name)) != name:
            raise UsageError(f"{first} and {name} are the same recording", hint="leave one out")


def check_together(names: Sequence[str], spans: Sequence[tuple[int, int]]) -> None:
    """Check that the reports overlap in time.

    Args:
        names: Name of each report.
        spans: Start of the first kernel of each report and end of the last, in ns of one clock.

    Raises:
        UsageError: One of them ended before another began.
    """
    last = max(range(len(spans)), key=lambda number: spans[number][0])
    first = min(range(len(spans)), key=lambda number: spans[number][1])
    if spans[last][0] >= spans[first][1]:
        raise UsageError(f"{names[first]} ended before {names[last]} began", hint="give reports of one run")


def job_notes(seen: int, size: int | None, clocks: Sequence[Clock]) -> tuple[str, ...]:
    """Return what the reader must know: missing ranks with what still holds, and how exact the clock is.

    Args:
        seen: Number of reports.
        size: Number of ranks of the job; None if unknown.
        clocks: The clock of each report.
    """
    notes = []
    if size is not None and seen < size:
        notes.append(
            f"{seen} of {size} ranks are here. What each of them did is complete; a wait for a rank that is "
            "not here counts as transfer, or as a wait for the last rank that is. Predicted savings hold if the other "
            "ranks are as fast."
        )
    return (*notes, *clock_notes(clocks))


def clock_notes(clocks: Sequence[Clock]) -> tuple[str, ...]:
    """Return how the clocks of the reports were joined, and how exactly; nothing for one report."""
    errors = [clock.error_ns for clock in clocks[1:]]
    methods = " and ".join(sorted({clock.method for clock in clocks[1:]}))
    drift = max((abs(clock.drift) for clock in clocks), default=0.0)
    drifting = (
        f" Clocks of different hosts drift by up to {drift * 1e6:.1f} µs a second; this is corrected." if drift else ""
    )
    if not errors:
        return ()
    known = [each for each in errors if each is not None]
    exact = "how exactly is not known, so no rank is named as late where that matters."
    if len(known) == len(errors):
        exact = f"they agree within {max(known) / 1e3:.0f} µs. A rank is named as late only where it is late by more."
    return (f"The clocks of the reports were joined by {methods}; {exact}{drifting}",)


def number_gpus(
    known: Sequence[tuple[Mapping[int, Gpu], Mapping[int, str], Sequence[int]]], given: GpuNumbers = ()
) -> tuple[list[dict[int, int]], tuple[Gpu, ...]]:
    """Return the number of each report's GPUs among all, and the GPUs; one GPU has one UUID, whatever its number.

    Args:
        known: GPUs of each report by device id, their UUIDs, and those in use.
        given: Numbers that are known already.
    """
    numbers: list[dict[int, int]] = []
    gpus: dict[int, Gpu] = {}
    by_uuid: dict[str, int] = {}
    following = 0
    for place, (its, uuids, used) in enumerate(known):
        mine: dict[int, int] = {}
        for device in used:
            gpu, uuid = its.get(device, Gpu(device, "")), uuids.get(device, "")
            number = given[place].get(device) if given else by_uuid.get(uuid) if uuid else None
            if number is None:
                number = device if device not in gpus else following
            gpus.setdefault(number, replace(gpu, device_id=number))
            following = max(following, number + 1)
            if uuid:
                by_uuid[uuid] = number
            mine[device] = number
        numbers.append(mine)
    return numbers, tuple(gpus[number] for number in sorted(gpus))


@dataclass(frozen=True)
class _Whole:
    """The traces to join, with the clock of each one and the numbers of its GPUs."""

    traces: Sequence[Trace]
    clocks: Sequence[Clock]
    devices: Sequence[Mapping[int, int]]

    def extent(self, number: int) -> tuple[int, int]:
        """Return the start of the first kernel of a report and the end of the last, in ns of the first clock.

        Where no kernel ran, as with gloo on the CPU, it is the time that was recorded.
        """
        frame = self.traces[number][tables.KERNELS]
        if not len(frame):
            bounds = (0, max(self.traces[number].session.duration_ns, 1))
        else:
            bounds = (int(frame["start"].min()), int(frame["end"].max()))
        first, last = self.clocks[number].to_first(np.array(bounds, np.int64)).tolist()
        return first, last

    def joined(self, name: str, gpus: tuple[Gpu, ...]) -> Trace:
        """Return the traces as one."""
        first = self.traces[0]
        texts = _Texts(self.traces)
        ends = [
            int(clock.to_first(np.array([trace.session.duration_ns], np.int64))[0])
            for clock, trace in zip(self.clocks, self.traces, strict=True)
        ]
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
            columns = {column: self._column(number, column, array(frame, column)) for column in _numbers(spec)}
            if "name_id" in columns:
                columns["name_id"] = texts.renumbered(number, columns["name_id"])
            if "stack" in columns:
                columns["stack"] = columns["stack"] + np.int32(stacks[number])
            if "counter" in columns:
                place = np.array([counters.index(each) for each in trace.counter_names] or [0], np.int32)
                columns["counter"] = place[columns["counter"]] if len(frame) else columns["counter"]
            parts.append(columns)
        whole: dict[str, Any] = {column: np.concatenate([part[column] for part in parts]) for column in _numbers(spec)}
        for column in spec.coded:
            whole[column] = pd.Categorical(whole[column])
        for column in set(spec.columns) - set(_numbers(spec)):
            whole[column] = union_categoricals([trace[spec][column] for trace in self.traces])
        frame_of_all = pd.DataFrame({column: whole[column] for column in spec.columns})
        if "start" not in frame_of_all:
            return frame_of_all
        order = np.argsort(array(frame_of_all, "start"), kind="stable")
        return frame_of_all.iloc[order].reset_index(drop=True)

    def _column(self, number: int, column: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a column of a report by the clock of the first one, with ids and GPU numbers of the joined trace."""
        if column in _TIMES:
            return self.clocks[number].to_first(values)
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
        """Return the ids of texts of one report as ids of the joined trace; ids without a text stay without one."""
        known, codes = np.unique(ids, return_inverse=True)
        numbers = np.array([self._by_report[report].get(int(each), self._next) for each in known], np.int64)
        return numbers[codes] if len(codes) else ids


def _numbers(spec: TableSpec) -> list[str]:
    """Return the columns of a table that hold numbers."""
    return [column for column, kind in spec.columns.items() if kind != "category" or column in spec.coded]


def _sums(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for each in counts:
        sums.update(each)
    return sums
