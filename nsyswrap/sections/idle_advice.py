"""The headline and the advice of each rule of idle time, adapted to what the capture shows.

The capture has the names of calls and not their arguments. ``fsync`` and ``pwrite`` are about files; ``write`` may also
be about a terminal or a pipe, where it waits until somebody reads.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from nsyswrap.attribution.attribution import Attribution
from nsyswrap.attribution.copy_table import DOWNLOAD, UPLOAD
from nsyswrap.attribution.root_causes import ROOT_CAUSES
from nsyswrap.base import units
from nsyswrap.base.intervals import Window, covered, merge
from nsyswrap.base.rows import taken
from nsyswrap.events.api_calls import MODULE_LOAD, base_name, is_launch, library_of, os_call_kind, overhead_kind
from nsyswrap.events.operations import SOURCES
from nsyswrap.events.thread_states import ThreadStates
from nsyswrap.loop.context import TraceContext
from nsyswrap.ranks.identity import ranks_of_mpi
from nsyswrap.ranks.mpi_collectives import find_last_rank
from nsyswrap.rules import CAUSES, host, idle, rule_of, synchronization
from nsyswrap.rules.idle import READS, SYNCS, WRITES
from nsyswrap.rules.rule import Advice
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, coded

# Calls of the C library that work on files, pipes, terminals and sockets alike. Source: POSIX; `pread` and `pwrite`
# fail on what has no position, so they are about files.
_SUFFIX = r"(?:64)?(?:_unlocked)?"
_WRITES = re.compile(r"(?:writev?|f(?:write|puts|putc|printf|flush|close)|vfprintf|putc|putw)" + _SUFFIX)
_READS = re.compile(r"(?:readv?|f(?:read|gets|getc)|getc|getline|getdelim)" + _SUFFIX)
_SYNCS = re.compile(r"f(?:data)?sync|syncfs?|sync_file_range|msync")


OWN_RULES = (*(each.key for each in CAUSES.values()), *(each.rule.key for each in ROOT_CAUSES if not each.has_section))
"""The rules whose findings are part of the section on idle time."""
NO_CORE = (idle.OFF_CPU.key, host.CPU_QUOTA.key)
"""The rules of time without a core."""
WARM = " in steps that should be warm"
# How PyTorch's thread that pins batches gives up the memory of one. Source: torch/utils/data/_utils/pin_memory.py.
FREES = ("pt_data_pin", "munmap")
# Where the program's own threads use this share of its cores, they are too many for them; else other programs use the
# cores. Source: ours; two equally busy programs leave one half to each.
OWN_SHARE = 0.75


def file_advice(time_of_call: Mapping[str, int]) -> Advice | None:
    """Return advice that fits the call with most of the time; None where its name says nothing more."""
    # The first by name where several have most of the time.
    call = min(time_of_call, key=lambda call: (-time_of_call[call], call), default="")
    for pattern, case in ((_WRITES, WRITES), (_READS, READS), (_SYNCS, SYNCS)):
        if pattern.fullmatch(call):
            return replace(case, advice=case.advice.format(call=call))
    return None


def _of_last_rank(context: TraceContext, attribution: Attribution) -> Advice | None:
    """Return advice that names the rank that others wait for in collectives of MPI; None where none does, or is it."""
    found = find_last_rank(context.trace, attribution.window)
    if found is None or found.process in context.operations.processes_of(attribution.device_id):
        return None
    number = ranks_of_mpi(context.trace).get(found.process)
    name = f"Process {tables.pid(found.process)}" if number is None else f"Rank {number}"
    return Advice(
        advice=f"{name} is the last to begin in {found.last} of {units.counted(found.collectives, 'collective')}: the "
        "others wait for it. What its host does then, and what its GPU waits for, is to be fixed."
    )


def advice_for(context: TraceContext, states: ThreadStates, attribution: Attribution, rule: str) -> Advice:
    """Return the headline and the advice of a rule, adapted to what the capture shows."""
    usual, case = rule_of(rule), _case(context, states, attribution, rule)
    headline = (case and case.headline) or usual.headline
    if rule == idle.PEER_WAIT.key:
        whose = sorted({library_of(name) for name in _time_of_calls(states, attribution, rule)})
        headline = headline.replace("{library}", " and ".join(whose))
    headline = headline.replace("{warm}", WARM if context.steps.measured_count else "")
    return Advice(headline=headline, advice=(case and case.advice) or usual.advice)


def _case(context: TraceContext, states: ThreadStates, attribution: Attribution, rule: str) -> Advice | None:
    """Return what to say in the case of a rule that the capture shows; None where it is the rule itself."""
    found: Advice | None = None
    if rule == idle.CPU.key:
        length = attribution.pieces.length_of(attribution.of_rule(idle.CPU.key))
        usual = length <= attribution.usual_gap_ns
        found = idle.LAUNCH_LESS if bool(taken(length, usual).sum() > length.sum() / 2) else None
    elif rule == idle.LOCK.key:
        most = next(iter(calls_meanwhile(context, attribution).items()), None)
        is_most = most is not None and most[0] == FREES and 2 * most[1] > attribution.idle_of(idle.LOCK.key)
        found = idle.FREED_BATCHES if is_most else None
    elif rule == idle.OFF_CPU.key:
        found = no_core_advice(context, attribution.window)
    elif rule == idle.UNKNOWN.key:
        found = idle.STILL_UNKNOWN if len(context.trace[tables.OS_CALLS]) else None
    elif rule == synchronization.IN_STEP.key:
        chosen = attribution.of_rule(synchronization.IN_STEP.key)
        to_gpu, to_host = (_behind(context, attribution, direction) & chosen for direction in (UPLOAD, DOWNLOAD))
        gpu_ns, host_ns, every_ns = (attribution.pieces.length_of(each).sum() for each in (to_gpu, to_host, chosen))
        found = synchronization.SMALL_COPIES if bool(gpu_ns > max(host_ns, every_ns / 2)) else None
    elif rule == idle.FILE_IO.key:
        found = file_advice(_time_of_calls(states, attribution, rule))
    elif rule == idle.PEER_WAIT.key:
        found = _of_last_rank(context, attribution)
    elif rule == idle.MODULE_LOAD.key:
        found = _of_loading(_time_of_calls(states, attribution, rule))
    return found


def _of_loading(times: dict[str, int]) -> Advice | None:
    """Return advice that fits what loads code: libraries or first launches; None for neither."""
    if _is_most(times, lambda name: overhead_kind(name) == MODULE_LOAD):
        return idle.OF_LIBRARIES
    return idle.OF_FIRST_LAUNCHES if _is_most(times, is_launch) else None


def calls_meanwhile(context: TraceContext, attribution: Attribution) -> dict[tuple[str, str], int]:
    """Return what threads do while launching threads wait for a lock: ns by name of thread and call, most first.

    Calls of the operating system that only wait do not count: who waits holds no lock that others need.
    """
    pieces, trace = attribution.pieces.of(attribution.of_rule(idle.LOCK.key)), context.trace
    calls, names = trace[tables.OS_CALLS], trace[tables.THREADS]
    inside = covered(merge(pieces.start, pieces.end), array(calls, "start"), array(calls, "end"))
    rows = np.flatnonzero(inside)
    name_of = dict(zip(array(names, "thread").tolist(), names["name"].astype(str), strict=True))
    found: Counter[tuple[str, str]] = Counter()
    owners = {each & ~tables.THREAD_MASK for each in pieces.threads[tables.distinct(pieces.owner)].tolist()}
    columns = (coded(calls, "thread")[rows], coded(calls, "name_id")[rows], inside[rows])
    for thread, call, ns in zip(*(each.tolist() for each in columns), strict=True):
        name = base_name(trace.text(call))
        if thread & ~tables.THREAD_MASK in owners and os_call_kind(name) is None:
            found[name_of.get(thread) or f"thread {tables.tid(thread)}", name] += ns
    return dict(found.most_common())


def _time_of_calls(states: ThreadStates, attribution: Attribution, rule: str) -> dict[str, int]:
    """Return the idle time of a rule by the call that explains it, in ns."""
    pieces = attribution.pieces.of(attribution.of_rule(rule))
    named = pieces.name < len(states.names)
    spent = np.zeros(len(states.names), np.int64)
    np.add.at(spent, pieces.name[named], pieces.length_of(named))
    return {states.names[each]: int(spent[each]) for each in np.flatnonzero(spent).tolist()}


def _is_most(times: dict[str, int], wanted: Callable[[str], bool]) -> bool:
    """Return whether calls with the wanted names take more than half of the time."""
    return 2 * sum(ns for name, ns in times.items() if wanted(name)) > sum(times.values())


def _behind(
    context: TraceContext, attribution: Attribution, direction: str
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return the pieces whose gap follows a copy of this direction on the device."""
    operations, trace, pieces = context.operations, context.trace, attribution.pieces
    mine = operations.on(attribution.device_id)
    ends = np.sort(taken(operations.end, mine))
    order = np.argsort(taken(operations.end, mine), kind="stable")
    first = np.append(True, pieces.gap[1:] != pieces.gap[:-1])[: len(pieces.gap)]
    before = np.searchsorted(ends, pieces.start[first], side="right") - 1
    last = mine[order[np.maximum(before, 0)]]
    kinds = [kind for kind, label in trace.copy_kinds.items() if label == direction]
    is_copy = (before >= 0) & (operations.table[last] == SOURCES.index(tables.COPIES))
    found = np.zeros(len(last), bool)
    copy_kind = array(trace[tables.COPIES], "copy_kind")
    found[is_copy] = np.isin(copy_kind[operations.row[last[is_copy]]], kinds)
    return np.repeat(found, np.diff(np.append(np.flatnonzero(first), len(pieces.gap))))


def core_use(context: TraceContext, window: Window) -> tuple[str, ...]:
    """Return a line of evidence on the cores that the program had and used; empty where that was not sampled."""
    used, had = _cores(context, window)
    if not had:
        return ()
    quota = context.settings.host.quota_cores
    limit = f" (quota {quota:.3g})" if quota else ""
    cores = context.settings.host.cores.get("allowed")
    return (f"the program's threads used {used:.2f} cores on average, of {cores} that they may use{limit}",)


def page_use(context: TraceContext, window: Window) -> tuple[str, ...]:
    """Return a line of evidence on the page faults of the program and on what it read from disk."""
    faults, read = (
        sum(each.growth(name, window.start_ns, window.end_ns) for each in context.settings.host.processes.values())
        for name in ("major_faults", "read_bytes")
    )
    return (f"{units.counted(faults, 'page fault')} read from disk; the program read {units.size(read)} from there",)


def no_core_advice(context: TraceContext, window: Window) -> Advice | None:
    """Return advice on waits for a core by who uses the cores: the program's own threads or others; None if unknown."""
    used, had = _cores(context, window)
    if not had:
        return None
    return idle.OWN_THREADS if used >= OWN_SHARE * had else idle.OTHER_PROGRAMS


def _cores(context: TraceContext, window: Window) -> tuple[float, float]:
    """Return how many cores the program's threads used on average, and how many it may use; 0 where unknown."""
    record = context.settings.host
    ran = sum(each.growth("on_cpu_ns", window.start_ns, window.end_ns) for each in record.threads.values())
    had = min(float(record.cores.get("allowed", 0)), record.quota_cores or float("inf"))
    return ran / window.length_ns, had
