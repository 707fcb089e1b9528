"""Ranges that nsyswrap put into the program (``--annotate``): they have an NVTX domain of their own.

The program's own ranges come first: where it marks steps, ours are not steps, and a phase of ours inside the same phase
of its own does not count a second time.
"""

import re

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import covered, merge
from nsyswrap.events.host_record import injected
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array

STEP_TEXT = re.compile(r"(?:step|batch) \d+")

Flags = npt.NDArray[np.bool_]


# What nsys adds to the name of an operator: numbers that differ from call to call.
_NUMBERS = re.compile(r",? ?\b(?:op_id|seq|sizes|input_op_ids) = .*$", re.DOTALL)
_OPERATOR = re.compile(r"^(?:aten|autograd|torch|prim|c10d?|nccl|_c10d_functional)::")


def injected_steps(ranges: pd.DataFrame) -> Flags:
    """Return for each range whether it is a step that nsyswrap marked."""
    ours = injected(ranges)
    return ours & tables.rows_where(ranges["text"], STEP_TEXT.fullmatch) if ours.any() else ours


def one_of_ours(ranges: pd.DataFrame, steps: pd.DataFrame) -> bool:
    """Return whether each process has one step, and nsyswrap marked it."""
    marked = array(ranges, "start")[injected_steps(ranges)]
    is_ours: Flags = np.isin(array(steps, "start"), marked)
    return bool(len(steps) and is_ours.all() and steps["process"].is_unique)


def steps_before(ranges: pd.DataFrame) -> dict[int, int]:
    """Return how many steps each process had taken before the first one that nsyswrap marked in the capture.

    Our steps have the numbers that they have in their process, from 0.
    """
    rows = np.flatnonzero(injected_steps(ranges))
    process = tables.process_of(array(ranges, "thread")[rows])
    number = np.array([int(str(text).rpartition(" ")[2]) for text in ranges["text"].iloc[rows]], np.int64)
    return {one: int(number[process == one].min()) for one in tables.distinct(process).tolist()}


def notes(ranges: pd.DataFrame, rows: npt.NDArray[np.intp]) -> tuple[str, ...]:
    """Return a note that names the phases that nsyswrap marked; none where the program marked all of them."""
    texts = ranges["text"].iloc[rows[injected(ranges)[rows]]].astype(str).to_numpy()
    found = sorted({re.sub(r" \d+$", "", str(text)) for text in np.unique(texts)})
    return (f"Marked by nsyswrap (--annotate), not by the program: {', '.join(found)}.",) if found else ()


def without_doubtful_steps(ranges: pd.DataFrame, step: Flags) -> Flags:
    """Return which of the ranges that look like steps are steps.

    In a process that marks its steps itself, ours do not count. In any other process, those of ours with a backward
    pass count; where none has one, those with a forward pass. The rest may be an evaluation or the end of the program.
    """
    ours = step & injected_steps(ranges)
    if not ours.any():
        return step
    process = tables.process_of(array(ranges, "thread"))
    kept = step & ~ours
    for each in np.unique(process[ours]):
        mine = np.flatnonzero(ours & (process == each))
        if not (kept & (process == each)).any():
            kept[_with_passes(ranges, mine)] = True
    return kept


def _with_passes(ranges: pd.DataFrame, steps: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Return the steps of one process that hold a backward pass; if none does, a forward pass; if none does, all."""
    ours = injected(ranges)
    for phase in ("backward", "forward"):
        marked = np.flatnonzero(ours & (ranges["text"] == phase).to_numpy())
        has_pass = np.zeros(len(steps), bool)
        for thread in np.unique(array(ranges, "thread")[steps]):
            rows = array(ranges, "thread")[steps] == thread
            begins = np.sort(array(ranges, "start")[marked[array(ranges, "thread")[marked] == thread]])
            first = np.searchsorted(begins, array(ranges, "start")[steps[rows]])
            after = np.searchsorted(begins, array(ranges, "end")[steps[rows]])
            has_pass[rows] = after > first
        if has_pass.any():
            return steps[has_pass]
    return steps


def repeated(ranges: pd.DataFrame, phase: npt.NDArray[np.int32]) -> Flags:
    """Return which ranges of ours repeat one of the program: they begin inside its own range of the same phase."""
    ours = injected(ranges) & (phase >= 0)
    are_repeated = np.zeros(len(ranges), bool)
    if not ours.any():
        return are_repeated
    own = ~injected(ranges) & (phase >= 0)
    thread, start, end = (array(ranges, name) for name in ("thread", "start", "end"))
    for each, code in {(int(a), int(b)) for a, b in zip(thread[ours], phase[ours], strict=True)}:
        theirs = own & (thread == each) & (phase == code)
        if theirs.any():
            mine = np.flatnonzero(ours & (thread == each) & (phase == code))
            are_repeated[mine] = covered(merge(start[theirs], end[theirs]), start[mine], start[mine] + 1) > 0
    return are_repeated


def plain_names(ranges: pd.DataFrame) -> list[str]:
    """Return the text of each category of the column ``text`` without the numbers of a call."""
    return [_NUMBERS.sub("", str(text)) or str(text) for text in ranges["text"].cat.categories]


def of_operators(ranges: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return for each range whether it is a call of an operator of PyTorch."""
    return tables.rows_where(ranges["text"], lambda text: _OPERATOR.match(text) or _NUMBERS.search(text))
