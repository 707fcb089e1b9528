"""The machine: what kept the host from its work, the cores and disks of the program, and the clocks of the GPUs."""

from collections.abc import Iterator
from dataclasses import asdict

import pandas as pd

from nsyswrap.base import units
from nsyswrap.base.intervals import Window
from nsyswrap.events.host_record import HostRecord
from nsyswrap.events.thread_states import ThreadStates
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.own_windows import find_own_windows
from nsyswrap.model import Fact, Finding, Section
from nsyswrap.rules import idle, rule_of
from nsyswrap.rules.host import PAGE_FAULTS
from nsyswrap.sections import gpu_clocks
from nsyswrap.sections.gpu_clocks import energy_words, find_clocks, find_step_energy, slowed_finding
from nsyswrap.sections.host_time import find_host_time
from nsyswrap.sections.idle_advice import NO_CORE, core_use, file_advice, no_core_advice, page_use
from nsyswrap.sections.places import LISTED
from nsyswrap.sections.severity import make_finding, ordered, worth_printing
from nsyswrap.sections.spec import Kind, SectionSpec
from nsyswrap.trace import tables
from nsyswrap.what_if.saving import estimated

NOT_SAMPLED = (
    "Waits for a core, page faults, the CPU quota and GPU clocks were not sampled. 'nsyswrap profile' samples them "
    "into host.json beside the capture."
)
LOOP, MAIN_THREAD = "The training loop", "The main thread"


def run(context: TraceContext, window: Window, states: ThreadStates) -> Section:
    """Return what kept the threads of the training loop from work, the use of cores and disks, and the GPUs' clocks.

    Where the capture has GPU work, the section on idle time has the findings on the host: there they count the time
    that a GPU lost. Without any, they are here, and count the time of the training loop.
    """
    record, host = context.settings.host, find_host_time(context, states, window)
    clocks, own = find_clocks(context, window), find_own_windows(context, window)
    parts = (window if each.device_id is None else own.on(each.device_id) for each in clocks)
    has_own = not context.is_about_gpus and len(context.steps.frame)
    of_host = _host_findings(context, host, window) if has_own else ()
    energy = find_step_energy(context, window)
    rows = [{name: value for name, value in asdict(each).items() if name in gpu_clocks.COLUMNS} for each in clocks]
    return SECTION.made(
        window,
        facts=(
            *_facts(record, window),
            *(() if energy is None else (Fact("step_energy", energy_words(energy), "text"),)),
        ),
        tables={"host": host, "gpus": pd.DataFrame(rows, columns=list(gpu_clocks.COLUMNS))},
        findings=ordered((*map(slowed_finding, clocks, parts), *of_host)),
        notes=() if len(record.times) else (NOT_SAMPLED,),
    )


def _facts(record: HostRecord, window: Window) -> Iterator[Fact]:
    """Yield the cores and their use, the quota, page faults, and bytes from and to the disk."""
    if not len(record.times):
        return
    between = (window.start_ns, window.end_ns)
    yield Fact("allowed_cores", record.cores.get("allowed"), "count")
    yield Fact("machine_cores", record.cores.get("machine"), "count")
    yield Fact("cpu_time_ns", sum(each.growth("on_cpu_ns", *between) for each in record.threads.values()), "ns")
    yield Fact("without_core_ns", sum(each.growth("delay_ns", *between) for each in record.threads.values()), "ns")
    if record.quota_cores is not None:
        yield Fact("quota_cores", f"{record.quota_cores:.3g}", "text")
        yield Fact("throttled_ns", record.throttled.growth("ns", *between), "ns")
    faults, read, written = (
        sum(each.growth(name, *between) for each in record.processes.values())
        for name in ("major_faults", "read_bytes", "written_bytes")
    )
    yield Fact("major_page_faults", faults, "count")
    yield Fact("disk_read_bytes", read, "bytes")
    yield Fact("disk_written_bytes", written, "bytes")
    if nodes := record.cores.get("allowed_numa_nodes"):
        yield Fact("numa_nodes", f"{nodes} of {record.cores.get('numa_nodes')}", "text")
    limit, highest = record.cores.get("clock_limit_khz"), record.cores.get("clock_maximum_khz")
    if limit and highest and limit < highest:
        yield Fact("cpu_clock_limit", f"{limit // 1000} of {highest // 1000} MHz", "text")
    whole = int(record.times[-1] - record.times[0])
    yield Fact("sampling_share", record.spent_ns / whole if whole else None, "share")


def _host_findings(context: TraceContext, host: pd.DataFrame, window: Window) -> Iterator[Finding]:
    """Yield a finding for each rule that takes enough of the time of a thread."""
    mains: dict[object, str] = {
        tables.tid(each): _loop(context, process) for process, each in context.phases.main_thread.items()
    }
    mine = host[host["thread_id"].isin(mains)]
    for (rule, _, thread), rows in mine.groupby(["rule", "process_id", "thread_id"], sort=True):
        lost = int(rows["total_ns"].sum())
        if rule_of(str(rule)).without_gpu and worth_printing(lost, window):
            yield _host_finding(context, str(rule), rows, lost, window, mains[thread])


def _loop(context: TraceContext, process: int) -> str:
    """Return what the loop of a process is called: where there are several, by its rank, or else its process."""
    loop = LOOP if context.program_kind.is_pytorch else MAIN_THREAD
    if len(context.phases.main_thread) < 2:  # noqa: PLR2004 - one loop needs no name
        return loop
    rank = context.settings.launched_as.get(process)
    return f"{loop} of process {tables.pid(process)}" if rank is None else f"{loop} of rank {rank}"


def _host_finding(  # noqa: PLR0913, PLR0917 - what the finding is about
    context: TraceContext, rule: str, rows: pd.DataFrame, lost: int, window: Window, loop: str
) -> Finding:
    longest = rows[rows["what"] != ""].head(LISTED)
    what = zip(longest["what"], longest["total_ns"], longest["count"], strict=True)
    steps = context.steps.measured_count if window.is_of_steps else 0
    found = None
    if rule == idle.FILE_IO.key:
        found = file_advice({str(call): int(ns) for call, ns in rows.groupby("what")["total_ns"].sum().items()})
    elif rule == idle.OFF_CPU.key:
        found = no_core_advice(context, window)
    return make_finding(
        rule=rule_of(rule),
        headline=rule_of(rule).without_gpu.format(share=units.share(lost / window.length_ns)).replace(LOOP, loop, 1),
        lost_ns=lost,
        saving=estimated(lost, window.length_ns, "all of this time is saved"),
        advice=found.advice if found else rule_of(rule).advice,
        evidence=(
            *((f"{units.duration(lost // steps)} a step, in {window.label}",) if steps else ()),
            *(f"{units.duration(int(ns))} in {name}, {units.counted(count, 'time')}" for name, ns, count in what),
            *(core_use(context, window) if rule in NO_CORE else ()),
            *(page_use(context, window) if rule == PAGE_FAULTS.key else ()),
        ),
        window=window,
    )


SECTION = SectionSpec(
    key="machine",
    title="The machine: CPU cores, files and GPU clocks",
    run=run,
    reads=(tables.LIBRARY_CALLS, tables.OS_CALLS, tables.OVERHEADS, tables.SCHEDULING, tables.THREADS),
    place=200,
    columns={
        "gpus": ("device_id gpu slowed_share why median_mhz max_mhz mean_watt limit_watt max_celsius process_count"),
        "host": "process_id thread_id rule what total_ns count share",
    },
    kinds={Kind.TEXT: "gpu why", Kind.NUMBER: "limit_watt max_celsius max_mhz mean_watt median_mhz"},
    captions={"host": "What kept the threads of the training loop from launching", "gpus": "GPU clocks"},
    headings={
        "gpu": "on the machine",
        "slowed_share": "clock lowered",
        "median_mhz": "median clock, MHz",
        "max_mhz": "highest clock, MHz",
        "mean_watt": "mean power, W",
        "limit_watt": "power limit, W",
        "max_celsius": "highest temperature, °C",
        "process_count": "most processes at once",
    },
    facts={
        "allowed_cores": "cores of the program",
        "machine_cores": "cores of the machine",
        "cpu_time_ns": "CPU time of its threads",
        "without_core_ns": "its threads ready without a core",
        "quota_cores": "CPU quota in cores",
        "throttled_ns": "stopped for the quota",
        "major_page_faults": "page faults that read from disk",
        "disk_read_bytes": "read from disk",
        "disk_written_bytes": "written to disk",
        "numa_nodes": "NUMA nodes of the program",
        "cpu_clock_limit": "CPU clock limit",
        "sampling_share": "sampling of the host, share of one core",
        "step_energy": "energy of a recorded step on all GPUs",
    },
)
