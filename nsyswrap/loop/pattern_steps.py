"""The steps of programs that mark none: from the pattern of their work, or from a kernel that the user names."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base import units
from nsyswrap.base.patterns import compiled, time_limit
from nsyswrap.base.row_sums import typed_table
from nsyswrap.events.operations import SOURCES, Operations
from nsyswrap.loop.step_bounds import StepParts
from nsyswrap.loop.step_detection import PATTERN, Steps, at_one_time, gpu_time, warm_up
from nsyswrap.loop.update_turns import FoundSteps, find_step_parts
from nsyswrap.loop.work_pattern import LEAST_REPETITIONS
from nsyswrap.loop.work_sequence import KERNEL, WorkSequence
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace

# Said where only waits show what a repetition is: the layers of a network may wait too.
UNSURE = "They copy no batch and update no weights, so each may be only a part of a step. "


def find_pattern_steps(trace: Trace, sequences: Sequence[WorkSequence]) -> Steps:
    """Return the steps that repeat in the work of each process; none where nothing clearly repeats."""
    parts, evidence = {}, []
    for sequence in sequences:
        found = find_step_parts(sequence)
        if found is None or len(found.parts.start) < LEAST_REPETITIONS:
            continue
        parts[sequence.process] = (sequence.thread, found.parts)
        evidence.append(found)
    return _steps(trace, parts, _how(evidence))


def find_marked_steps(trace: Trace, operations: Operations, sequences: Sequence[WorkSequence], pattern: str) -> Steps:
    """Return the steps that begin with a kernel whose name the user gives; kernels in a row are one mark.

    Raises:
        UsageError: The pattern is not a regular expression.
    """
    matcher = kernel_matcher(pattern)
    parts = {}
    for sequence in sequences:
        launches = np.flatnonzero(sequence.own & (sequence.kind == KERNEL))
        rows = sequence.operation[launches]
        with time_limit("--step-kernel", matcher.pattern):
            matches = tables.rows_named(trace, tables.KERNELS, matcher.search)
        wanted = np.zeros(len(rows), bool)
        kernels = operations.table[rows] == SOURCES.index(tables.KERNELS)
        wanted[kernels] = matches[operations.row[rows[kernels]]]
        marks = launches[wanted & ~np.append(False, wanted[:-1])[: len(wanted)]]
        if len(marks) > 1:
            start = sequence.start[marks]
            alike = np.ones(len(marks) - 1, bool)
            parts[sequence.process] = sequence.thread, StepParts(start[:-1], start[1:], marks[:-1], marks[1:], alike)
    note = f"Steps begin where a kernel of --step-kernel {pattern} is launched, and last until the next one."
    return _steps(trace, parts, (note,))


def kernel_matcher(pattern: str) -> re.Pattern[str]:
    """Return the pattern of the names of kernels that begin a step.

    Raises:
        UsageError: The pattern is not a regular expression.
    """
    return compiled("--step-kernel", pattern, "adam")


def _how(evidence: Sequence[FoundSteps]) -> tuple[str, ...]:
    """Return a note on how the steps of each process were found."""
    if not evidence:
        return ()
    steps = np.array([len(each.parts.start) for each in evidence])
    items = np.concatenate([each.usual_items for each in evidence])
    alike = np.mean([each.parts.alike.mean() for each in evidence])
    where = f" of {units.counted(len(steps), 'process')}" if len(steps) > 1 else ""
    found = f"No range names a step. {_span(steps)} steps{where} were found by"
    if any(each.by_turns for each in evidence):
        pattern = (
            "the updates of the weights, each after a backward pass; their kernels differ. They have "
            f"{_span(items)} operations and waits each. "
        )
    else:
        pattern = (
            f"a pattern that the GPU's work repeats, {_span(items)} operations and waits each; {alike:.0%} of the "
            "steps hold the same ones, except a few. "
        )
    unsure = "" if all(each.pattern.is_whole for each in evidence) else UNSURE
    hint = "If these are not the steps, --step-kernel names the kernel that begins a step."
    return (f"{found} {pattern}{unsure}{hint}",)


def _span(numbers: npt.NDArray[np.int64]) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return str(low) if low == high else f"{low} to {high}"


def _warm_up(parts: StepParts) -> npt.NDArray[np.bool_]:
    """Return which steps of one process are warm-up; a step that had begun before the first one is one of them."""
    length = parts.end - parts.start
    return warm_up(np.append(length[0], length))[1:] if parts.begun else warm_up(length)


def _steps(trace: Trace, parts: Mapping[int, tuple[int, StepParts]], notes: tuple[str, ...]) -> Steps:
    """Return the steps of all processes, with warm-up marked, from the thread and the steps of each."""
    frames = [
        pd.DataFrame(
            {
                "process": process,
                "thread": thread,
                "name": [f"step {number}" for number in range(1, len(its_steps.start) + 1)],
                "start": its_steps.start,
                "end": its_steps.end,
                "warm_up": _warm_up(its_steps),
                "alike": its_steps.alike,
            }
        )
        for process, (thread, its_steps) in sorted(parts.items())
    ]
    if not frames:
        return Steps(typed_table([], _TYPES), source=PATTERN)
    frame = pd.concat(frames, ignore_index=True)
    used = gpu_time(trace) if len(frames) > 1 else {}
    processes, others = at_one_time(frame, used)
    return Steps(frame, processes, (*notes, *others), PATTERN)


_TYPES = {
    "process": np.int64,
    "thread": np.int64,
    "name": str,
    "start": np.int64,
    "end": np.int64,
    "warm_up": bool,
    "alike": bool,
}
