"""A slow and simple reference implementation, which counts each nanosecond."""

from collections.abc import Iterator
from dataclasses import dataclass

from nsyswrap.loop.context import find_context
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace

KINDS = ("compute", "communication", "copy", "memset", "idle")
# The kind that each row of a ledger counts; a wait for other ranks is not counted.
KIND_OF_ROW = {
    "compute_ns": "compute",
    "communication_transfer_ns": "communication",
    "copy_exposed_ns": "copy",
    "memset_exposed_ns": "memset",
    "idle_ns": "idle",
}

# The names of calls in random_traces by kind, in order of precedence.
MEANING = {
    "profiler": {"CUPTI Buffer flush"},
    "module_load": {"cuModuleLoadData", "dlopen(libx.so)"},
    "allocation": {"cudaMalloc"},
    "blocking_copy": {"cudaMemcpy"},
    "synchronization": {"cudaStreamSynchronize"},
    "lock": {"pthread_mutex_lock"},
    "wait": {"poll"},
    "peer": {"pthread_cond_wait"},
    "file_io": {"read"},
}
WAITS = {"lock", "wait", "peer", "file_io", "untraced"}
CAUSE = {"wait": "cpu", "peer": "unknown", "untraced": "off_cpu", "running": "cpu"}


@dataclass(frozen=True)
class Row:
    """One row of any table, with the name it refers to."""

    start: int
    end: int
    thread: int
    name: str
    correlation: int = 0

    def open_at(self, when: int) -> bool:
        """Return whether the row covers the nanosecond."""
        return self.start <= when < self.end


@dataclass(frozen=True)
class Work:
    """One operation."""

    start: int
    end: int
    device: int
    kind: str
    process: int
    correlation: int
    pageable: bool
    table: str


def rows_of(trace: Trace, spec: tables.TableSpec) -> list[Row]:
    """Return the rows of a table of host events, by start."""
    found = []
    for row in trace[spec].to_dict("records"):
        name = str(row["text"]) if "text" in row else trace.text(int(row["name_id"]))
        found.append(Row(row["start"], row["end"], row["thread"], name, row.get("correlation_id", 0)))
    return found


def work_of(trace: Trace) -> list[Work]:
    """Return all operations by start."""
    found = []
    for spec, table, kind in (
        (tables.KERNELS, "kernel", ""),
        (tables.COPIES, "copy", "copy"),
        (tables.MEMSETS, "memset", "memset"),
        (tables.GRAPHS, "graph", "compute"),
    ):
        for row in trace[spec].to_dict("records"):
            collective = "nccl" in trace.text(int(row.get("name_id", -1)))
            of_kind = kind or ("communication" if collective else "compute")
            pageable = row.get("source_kind") == 0 or row.get("target_kind") == 0
            ids = row["device_id"], of_kind, row["process"], row["correlation_id"]
            found.append(Work(row["start"], row["end"], *ids, pageable, table))
    order = {kind: number for number, kind in enumerate(("kernel", "copy", "memset", "graph"))}
    return sorted(found, key=lambda w: (w.start, w.end, order[w.table], w.device, w.process, w.correlation))


def kind_at(work: list[Work], device: int, when: int) -> str:
    """Return the kind of work, or "idle", that a nanosecond belongs to."""
    running = {each.kind for each in work if each.device == device and each.start <= when < each.end}
    return next((kind for kind in KINDS if kind in running), "idle")


def holes(work: list[Work], device: int, start: int, end: int) -> list[tuple[int, int]]:
    """Return the maximal idle spans of an interval."""
    found: list[tuple[int, int]] = []
    for when in range(start, end):
        if kind_at(work, device, when) == "idle":
            if found and found[-1][1] == when:
                found[-1] = (found[-1][0], when + 1)
            else:
                found.append((when, when + 1))
    return found


class Counter:
    """Finds the cause of each idle nanosecond by the table of causes, from all rows each time."""

    def __init__(self, trace: Trace, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.context = find_context(trace)
        self.trace = trace
        self.work = work_of(trace)
        self.calls = rows_of(trace, tables.CALLS)
        self.os_calls = rows_of(trace, tables.OS_CALLS)
        self.overheads = rows_of(trace, tables.OVERHEADS)
        self.ranges = rows_of(trace, tables.RANGES)
        self.switches = trace[tables.SCHEDULING][["thread", "start", "running"]].to_numpy().tolist()
        self.launch = {(self._process(c.thread), c.correlation): c for c in self.calls if c.correlation}
        self.staged = {(w.process, w.correlation) for w in self.work if w.pageable}
        self.launchers = {c.thread for w in self.work if (c := self.call_of(w)) is not None}

    @staticmethod
    def _process(thread: int) -> int:
        return thread & ~0xFFFFFF

    def call_of(self, work: Work) -> Row | None:
        """Return the call that launched an operation."""
        return self.launch.get((work.process, work.correlation))

    def causes(self, device: int) -> Iterator[tuple[int, str, str]]:
        """Yield (nanosecond, cause, phase) for each idle nanosecond of a device."""
        for start, end in holes(self.work, device, self.start, self.end):
            mine = [work for work in self.work if work.device == device]
            ender = next((work for work in mine if work.start >= end and work.end > work.start), None)
            source = ender or mine[-1]
            launch = self.call_of(source)
            not_traced_from = start if launch is None else self._not_traced_from(mine, source.process, start, end)
            begun, returned = (launch.start, launch.end) if ender and launch else (end, end)
            launcher = launch.thread if launch else source.process
            thread = self._explaining_thread(launcher, range(start, min(max(begun, start), end)))
            for when in range(start, end):
                if when >= not_traced_from:
                    yield when, "not_traced", self.phase(launcher, when)
                elif when >= max(returned, begun):
                    yield when, "queued", self.phase(launcher, when)
                elif when >= begun:
                    yield when, "launch", self.phase(launcher, when)
                else:
                    yield when, *self._before(thread, ender, when)

    def _before(self, thread: int, ender: Work | None, when: int) -> tuple[str, str]:
        """Return cause and phase of a nanosecond before the launch call."""
        state = self.state(thread, when)
        main = self.context.phases.main_thread.get(self._process(thread), thread)
        if state in {"peer", "untraced"} and main != thread:
            thread, state = main, self.state(main, when)
        phase = self.phase(thread, when)
        process = self._process(thread)
        if any(row.name == "data" and self._process(row.thread) == process for row in self.ranges):
            if phase == "data" and state in WAITS and (state != "untraced" or self._loads(process)):
                return "data_wait", phase
            if phase == "data" and state == "running":
                is_shown = tables.OS_CALLS.name not in self.trace.absent or any(
                    row[0] == thread for row in self.switches
                )
                return "data_work" if is_shown else "unknown", phase
        elif ender and ender.kind == "copy" and state in WAITS and self._loads(process):
            return "data_wait" if phase in {"none", "batch", "copy"} else CAUSE.get(state, state), phase
        return CAUSE.get(state, state), phase

    def _loads(self, process: int) -> bool:
        threads = self.trace[tables.THREADS]
        return any(self._process(int(thread)) == process for thread in threads["thread"])

    def _not_traced_from(self, mine: list[Work], process: int, start: int, end: int) -> int:
        shown = {(work.process, work.correlation) for work in self.work}
        before = [work for work in mine if work.start < start]
        since = -(10**9)
        if before:
            call = self.call_of(before[-1])
            since = call.start if call else start
        opaque = [
            call.start
            for call in self.calls
            if call.name == "cudaGraphLaunch" and self._process(call.thread) == process and call.start > since
            if (process, call.correlation) not in shown
        ]
        return min(max(min(opaque, default=end), start), end)

    def _explaining_thread(self, launcher: int, interval: range) -> int:
        """Return the thread whose activity explains an interval: the launcher, or a busier one if it only waited."""
        least = len(interval) / 2
        if self._waited(launcher, interval) <= least or not interval:
            return launcher
        process = self._process(launcher)
        main = self.context.phases.main_thread.get(process)
        others = [each for each in self.launchers if self._process(each) == process and each != launcher]
        chosen = launcher
        for other in sorted(others, key=lambda each: (each != main, each)):
            seen = [row for row in (*self.calls, *self.os_calls) if row.thread == other]
            born, died = min(row.start for row in seen), max(row.end for row in seen)
            waited = self._waited(other, interval)
            if waited < least and born <= interval.start and died >= interval.stop:
                chosen, least = other, waited
        return chosen

    def _waited(self, thread: int, interval: range) -> int:
        return sum(self.state(thread, t) in WAITS and not self._inside(self.calls, thread, t) for t in interval)

    @staticmethod
    def _inside(rows: list[Row], thread: int, when: int) -> bool:
        return any(row.thread == thread and row.open_at(when) for row in rows)

    def state(self, thread: int, when: int) -> str:
        rows = [*self.calls, *self.os_calls, *self.overheads]
        here = [row for row in rows if row.thread == thread and row.open_at(when)]
        names = {row.name for row in here}
        staged = any(
            row.name == "cudaMemcpyAsync" and (self._process(thread), row.correlation) in self.staged for row in here
        )
        for state, meant in MEANING.items():
            if names & meant or (state == "blocking_copy" and staged):
                return state
        if names - set(self._overhead_names()) or not self._off(thread, when):
            return "running"
        return "untraced" if tables.OS_CALLS.name in self.trace.absent else "off_cpu"

    def _overhead_names(self) -> set[str]:
        return {row.name for row in self.overheads}

    def _off(self, thread: int, when: int) -> bool:
        before = [running for each, start, running in self.switches if each == thread and start <= when]
        return bool(before) and not before[-1]

    def phase(self, thread: int, when: int) -> str:
        """Return the innermost phase open on a thread, else on the main thread of its process."""
        main = self.context.phases.main_thread.get(self._process(thread), thread)
        for each in (thread, main):
            here = [
                (row.start, -row.end, number, row.name)
                for number, row in enumerate(self.ranges)
                if row.thread == each and row.open_at(when) and row.name != "of my own"
            ]
            if here:
                name = max(here)[-1]
                return "batch" if name.startswith("batch") else name
        return "none"
