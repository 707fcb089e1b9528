"""The lines of Python that ran while a GPU was idle, from the samples of the thread that explains the idle time."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.attribution.pieces import Pieces
from nsyswrap.base.intervals import Indices, Spans, containing
from nsyswrap.base.row_sums import typed_table
from nsyswrap.events.python_stacks import SourceLines
from nsyswrap.loop.context import TraceContext
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Frame, array

COLUMNS = {
    "device_id": np.int64,
    "cause": str,
    "rule": str,
    "phase": str,
    "function": str,
    "file": str,
    "line": np.int64,
    "innermost": str,
    "sample_count": np.int64,
    "share": np.float64,
    "idle_estimate_ns": np.int64,
}
ORDER = ["idle_estimate_ns", "sample_count", "cause", "rule", "phase", "file", "line"]


def find_sampled_lines(
    context: TraceContext, pieces: Pieces, rule: npt.NDArray[np.int8], names: tuple[tuple[str, ...], tuple[str, ...]]
) -> pd.DataFrame:
    """Return the sampled lines of one GPU's idle time by cause, rule and phase, the most idle time first.

    A sample counts for the piece of idle time that contains it, if it is of the thread that explains the piece.
    ``share`` is the share of the samples of that cause, rule and phase; ``idle_estimate_ns`` is that share of their
    idle time. The table has no column ``device_id``; the caller adds it.
    """
    types = {name: kind for name, kind in COLUMNS.items() if name != "device_id"}
    sample, piece = samples_inside(context, pieces)
    if not len(sample):
        return typed_table([], types)
    causes, rules = names
    width = len(context.phases.names) + 1
    key = (pieces.cause.astype(np.int64) * len(rules) + rule) * width + pieces.phase + 1
    idle = idle_by_key(context, pieces, key)
    stack = array(context.trace[tables.SAMPLES], "stack")[sample]
    rows: list[tuple[object, ...]] = []
    for each in np.unique(key[piece]).tolist():
        stacks = stack[key[piece] == each]
        code, phase = divmod(each, width)
        place = (causes[code // len(rules)], rules[code % len(rules)], context.phases.name(phase - 1))
        for own, inner, count in _counted(context.lines, stacks):
            share = count / len(stacks)
            line = (own.function, own.file, own.line, spelled(inner))
            rows.append((*place, *line, count, share, round(share * idle[each])))
    order = [False, False, *([True] * 5)]
    return typed_table(rows, types).sort_values(ORDER, ascending=order, ignore_index=True)


def spelled(frame: Frame) -> str:
    """Return a frame in words: ``train.py:42 in transform``."""
    return f"{frame.file}:{frame.line} in {frame.function}"


def samples_inside(context: TraceContext, pieces: Pieces) -> tuple[Indices, Indices]:
    """Return each sample inside a piece of its own thread, and that piece: two arrays of indices."""
    frame = context.trace[tables.SAMPLES]
    thread, start = array(frame, "thread"), array(frame, "start")
    samples, found = [np.empty(0, np.intp)], [np.empty(0, np.intp)]
    for each in np.intersect1d(pieces.threads, thread).tolist():
        mine, of_thread = np.flatnonzero(thread == each), np.flatnonzero(pieces.is_thread(each))
        where = containing(Spans(pieces.start[of_thread], pieces.end[of_thread]), start[mine])
        samples.append(mine[where >= 0])
        found.append(of_thread[where[where >= 0]])
    return np.concatenate(samples), np.concatenate(found)


def idle_by_key(
    context: TraceContext, pieces: Pieces, key: "np.ndarray[tuple[int], np.dtype[np.int64]]"
) -> dict[int, int]:
    """Return the idle time of each key, in ns; only threads with samples count."""
    sampled = np.isin(pieces.threads, array(context.trace[tables.SAMPLES], "thread"))[pieces.owner]
    codes, unique = pd.factorize(key[sampled])
    total = np.zeros(len(unique), np.int64)
    np.add.at(total, codes, (pieces.end - pieces.start)[sampled])
    return dict(zip(unique.tolist(), total.tolist(), strict=True))


def _counted(
    lines: SourceLines, stacks: "np.ndarray[tuple[int], np.dtype[np.int32]]"
) -> list[tuple[Frame, Frame, int]]:
    """Return each line of the program with its most frequent innermost frame and its number of samples."""
    codes, counts = np.unique(stacks, return_counts=True)
    by_line: dict[Frame, dict[Frame, int]] = {}
    for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
        inner = by_line.setdefault(lines.own[code], {})
        inner[lines.innermost[code]] = inner.get(lines.innermost[code], 0) + count
    return [
        (own, max(inner, key=lambda frame: (inner[frame], frame)), sum(inner.values()))
        for own, inner in by_line.items()
    ]
