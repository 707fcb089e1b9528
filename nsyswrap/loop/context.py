"""The context of a trace: its events and its training loop, which all later stages read."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Times, Window
from nsyswrap.events.alternatives import NO_ALTERNATIVES, MeasuredAlternatives
from nsyswrap.events.gpu_counters import CounterSamples, find_counter_samples
from nsyswrap.events.host_record import NO_RECORD, GpuSamples, HostRecord
from nsyswrap.events.kernel_names import KernelNames, find_kernel_names
from nsyswrap.events.lost_events import SilentThread, UnrecordedLaunches, find_unrecorded_launches, silent_threads
from nsyswrap.events.operations import Operations, find_operations
from nsyswrap.events.python_stacks import SourceLines, find_lines
from nsyswrap.events.recorded_calls import NOT_MEASURED, RecordedCalls, find_recorded_calls
from nsyswrap.events.thread_states import ThreadStates, find_thread_states
from nsyswrap.events.xray_record import XrayRecord
from nsyswrap.hardware.kernel_names.user_rules import NameRule
from nsyswrap.hardware.link_rates import NO_LINK_RATES, CopyRate, LinkRates
from nsyswrap.hardware.peak_rates import NO_PRODUCT_RATES, MeasuredRates
from nsyswrap.hardware.profiler_cost import ProfilerCost
from nsyswrap.hardware.steps_alone import NO_STEPS_ALONE, StepsAlone
from nsyswrap.loop.extent import is_about_gpus
from nsyswrap.loop.framework import find_program_kind
from nsyswrap.loop.helper_threads import find_helped
from nsyswrap.loop.injected_ranges import one_of_ours
from nsyswrap.loop.pattern_steps import find_marked_steps, find_pattern_steps
from nsyswrap.loop.phase_detection import PhaseRule, Phases, find_phases
from nsyswrap.loop.step_detection import PATTERN, Steps, find_steps
from nsyswrap.loop.work_sequence import WorkSequence, work_sequences
from nsyswrap.loop.xray_step import without_xray
from nsyswrap.rules.program_kind import ProgramKind
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace

# The bus, device and function of a PCI place; tools write the domain with four digits or eight.
_PLACE = len("1B:00.0")


@dataclass(frozen=True, slots=True)
class Settings:
    """The user's settings for reading a trace.

    Attributes:
        step_pattern: Regular expression of the ranges that are steps; empty for the usual spellings.
        step_kernel: Regular expression of the kernels that begin a step; empty for ranges, or else the pattern of the
            work.
        phase_rules: Rules that are tried before the usual spellings of the phases.
        kernel_rules: Rules for kernel names that are tried before our own.
        copy_rates: Rates of pinned copies, measured on the machine of the capture, by direction.
        host: What was sampled of the host and the GPUs while the program ran.
        profiler_cost: What nsys adds to each call, measured on that machine; None where it is unknown.
        launched_as: Rank of each process as its launcher numbered it, by global id of the process.
        clock_errors: How wrong the times of a process can be against those of others, in ns, by its global id.
        steps_alone: The steps that were timed without recording.
        xray: What PyTorch said of the X-ray step of each process.
        product_rates: What products of matrices reach on the GPU of that machine.
        alternatives: What was measured of alternatives of its operators.
        link_rates: How long collectives take between the GPUs of that machine.
    """

    step_pattern: str = ""
    phase_rules: tuple[PhaseRule, ...] = ()
    kernel_rules: tuple[NameRule, ...] = ()
    copy_rates: Mapping[str, CopyRate] = field(default_factory=dict)
    step_kernel: str = ""
    host: HostRecord = NO_RECORD
    profiler_cost: ProfilerCost | None = None
    launched_as: Mapping[int, int] = field(default_factory=dict)
    clock_errors: Mapping[int, int] = field(default_factory=dict)
    steps_alone: StepsAlone = NO_STEPS_ALONE
    xray: XrayRecord = ()
    product_rates: MeasuredRates = NO_PRODUCT_RATES
    alternatives: MeasuredAlternatives = NO_ALTERNATIVES
    link_rates: LinkRates = NO_LINK_RATES


NO_SETTINGS = Settings()


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class TraceContext:
    """A trace, its events and its loop. It is immutable, so threads may share it.

    Attributes:
        trace: The tables of one export.
        settings: The user's settings for steps, phases and kernel names.
        operations: All that ran on the GPUs, joined to the calls that launched it.
        kernel_names: What the names of the kernels say.
        program_kind: What kind of program it is.
        silences: Main threads whose calls were lost.
        unrecorded_launches: Launch calls without a record of the GPU.
        is_about_gpus: Whether a report on it is one about GPUs, and not about the host's time.
        counter_samples: The samples of each GPU counter; empty where none were taken.
        lines: The line of Python of each sampled stack.
        steps: The steps of the training loop.
        phases: The phase open on each thread at each time.
        phase_of_operations: Code of the phase in which each operation was launched, shape (operations,); -1 for none or
            an unknown launch.
        xray: The X-ray steps, which the trace does not hold; None where there are none.
    """

    trace: Trace
    settings: Settings
    operations: Operations
    kernel_names: KernelNames
    program_kind: ProgramKind
    silences: tuple[SilentThread, ...]
    unrecorded_launches: UnrecordedLaunches
    is_about_gpus: bool
    counter_samples: tuple[CounterSamples, ...]
    lines: SourceLines
    steps: Steps
    phases: Phases
    phase_of_operations: npt.NDArray[np.int32]
    xray: Trace | None = None


def find_context(
    trace: Trace,
    settings: Settings = NO_SETTINGS,
    known: Steps | None = None,
    inferred: pd.DataFrame | None = None,
) -> TraceContext:
    """Return the events and the loop of a trace.

    Args:
        trace: The tables of one export.
        settings: The user's settings for steps, phases and kernel names.
        known: Its steps; None to find them.
        inferred: Its inferred phases, as ``find_phases`` takes them.

    Raises:
        UsageError: The pattern of steps is no regular expression.
    """
    apart, (trace, xray) = trace.xray, without_xray(trace)
    if trace.excerpt is not None:  # it holds the range around that step alone
        xray = apart
    operations = find_operations(trace)
    with ThreadPoolExecutor(1) as pool:  # beside the steps
        kernel_names = pool.submit(find_kernel_names, trace, operations, settings.kernel_rules)
        unrecorded = pool.submit(find_unrecorded_launches, trace, operations)
        sequences = cache(lambda: tuple(work_sequences(trace, operations)))
        steps = _steps(trace, settings, operations, sequences) if known is None else known
        if trace.excerpt is not None:
            are_named = steps.source != PATTERN and not settings.step_kernel
            steps = steps.inside(trace.excerpt, are_all_known=are_named)
        phases = find_phases(trace, steps, settings.phase_rules, sequences, inferred)
        silences, phase_of_operations = silent_threads(trace, operations), phases.of_operations(trace, operations)
        named, missing = kernel_names.result(), unrecorded.result()
        return TraceContext(
            trace=trace,
            settings=settings,
            operations=operations,
            silences=tuple(silences),
            unrecorded_launches=missing,
            is_about_gpus=is_about_gpus(trace, operations, missing),
            counter_samples=find_counter_samples(trace),
            lines=find_lines(trace),
            steps=steps,
            phases=phases,
            phase_of_operations=phase_of_operations,
            kernel_names=named,
            program_kind=find_program_kind(trace, operations, named),
            xray=xray,
        )


def _steps(
    trace: Trace, settings: Settings, operations: Operations, sequences: Callable[[], tuple[WorkSequence, ...]]
) -> Steps:
    """Return the steps that ranges name; where none does, those that the pattern of the work shows.

    A kernel that the user names comes before both. Where nsyswrap itself marked one step only, no optimizer ended it:
    then the pattern shows how often the program updates its weights by hand.
    """
    if settings.step_kernel:
        return find_marked_steps(trace, operations, sequences(), settings.step_kernel)
    steps = find_steps(trace, settings.step_pattern)
    never_ends = one_of_ours(trace[tables.RANGES], steps.frame)
    if settings.step_pattern or (len(steps.frame) and not never_ends):
        return steps
    found = find_pattern_steps(trace, sequences())
    return found if len(found.frame) else steps


def find_states(context: TraceContext, window: Window) -> ThreadStates:
    """Return what the launching threads and the main threads do inside a window."""
    # Where the launch of an operation is unknown, the process id is used as the thread id.
    processes, launching = tables.distinct(context.operations.process), context.operations.launching_threads
    threads = {*launching.tolist(), *processes.tolist(), *context.phases.main_thread.values()}
    return states_of(context, window, threads)


def states_of(context: TraceContext, window: Window, threads: Iterable[int]) -> ThreadStates:
    """Return what some threads, by their global ids, do inside a window."""
    helped = find_helped(context.trace, context.phases)
    return find_thread_states(context.trace, context.operations, window, threads, context.settings.host, helped)


def find_calls(context: TraceContext, window: Window, states: ThreadStates) -> RecordedCalls:
    """Return the recorded calls of the launching and main threads inside a window, with what recording each cost."""
    cost = context.settings.profiler_cost
    if cost is None:
        return NOT_MEASURED
    trace, operations, names = context.trace, context.operations, context.kernel_names
    return RecordedCalls(cost, find_recorded_calls(trace, operations, names, window, states, cost))


def sampled_device(context: TraceContext, gpu: GpuSamples) -> int | None:
    """Return the device of the capture at this GPU's place on the bus, or the only device of a machine with one GPU."""
    devices = context.operations.devices
    if len(devices) == 1 and len(context.settings.host.gpus) == 1:
        return int(devices[0])
    places = {each.bus[-_PLACE:].upper(): each.device_id for each in context.trace.gpus if each.bus}
    found = places.get(gpu.bus[-_PLACE:].upper())
    return found if found in devices else None


def clock_at(context: TraceContext, device_id: int, times: Times) -> Times:
    """Return the clock of the multiprocessors of a GPU at some times, in Hz; 0 where it was not sampled.

    A sample holds until the next one that differs, and to the end of the samples.
    """
    sampled = context.settings.host.times
    for gpu in context.settings.host.gpus:
        if sampled_device(context, gpu) == device_id and len(gpu.samples.at):
            row = np.searchsorted(gpu.samples.at, times, side="right") - 1
            known = (row >= 0) & (times <= sampled[-1])
            return np.where(known, gpu.samples.values["sm_mhz"][row] * 1_000_000, 0)  # noqa: PD011 - a mapping
    return np.zeros(len(times), np.int64)
