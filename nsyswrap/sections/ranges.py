"""NVTX ranges: their host time, and the operations and kernels launched inside them."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from nsyswrap.attribution.idle_accounts import numbered
from nsyswrap.base import units
from nsyswrap.base.intervals import Indices, Spans, Window, covered, merge
from nsyswrap.base.row_sums import largest_first, text_column
from nsyswrap.base.rows import taken
from nsyswrap.events.duration_stats import by_name, statistics
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.injected_ranges import of_operators, plain_names
from nsyswrap.loop.own_windows import find_own_windows
from nsyswrap.loop.phase_detection import of_library
from nsyswrap.loop.range_nesting import MOST_LEVELS, Pairs, RangeNesting, projection
from nsyswrap.model import Section
from nsyswrap.sections.spec import STATISTICS, Kind, SectionSpec
from nsyswrap.sections.summaries import clipped
from nsyswrap.trace import tables
from nsyswrap.trace.tables import CodedIds, array, coded

# Between the parts of a path, as in a path of files.
SEPARATOR = " / "
_MODULES = {"module": "object", "count": "int64", "total_ns": "int64", "self_ns": "int64"}


def modules(context: TraceContext, *parts: Pairs) -> pd.DataFrame:
    """Return the kernels inside each path of the program's ranges that are neither steps nor phases nor operators.

    Where modules are marked, such as by a range around each ``forward``, a path is that of a module. ``total_ns`` has
    the kernels of all below it, ``self_ns`` only those that no range below it holds. ``parts`` have the ranges around
    the launch of each operation, from the outermost to the innermost.
    """
    ranges = context.trace[tables.RANGES]
    own = ~of_operators(ranges) & ~of_library(ranges)
    own[context.phases.marked.index.to_numpy()] = False
    own &= ~np.isin(array(ranges, "start"), array(context.steps.frame, "start"))
    codes = context.trace[tables.RANGES]["text"].cat.codes.to_numpy()
    kept = [(taken(context.operations.table, each.operation) == 0) & taken(own, each.range) for each in parts]
    chosen = [
        Pairs(taken(each.operation, some), taken(each.range, some)) for each, some in zip(parts, kept, strict=True)
    ]
    operation, rows = (np.concatenate(column) for column in zip(*chosen, strict=True))
    frame = pd.DataFrame({"operation": operation, "text": codes[rows]}, copy=False)
    found = frame.sort_values("operation", kind="stable", ignore_index=True)
    if found.empty:
        return pd.DataFrame({name: np.empty(0, kind) for name, kind in _MODULES.items()})
    at = found["operation"].to_numpy()
    length: Indices = context.operations.end[at] - context.operations.start[at]
    paths = _by_path(found, length, plain_names(ranges)).astype(_MODULES)
    return paths.sort_values(["total_ns", "module"], ascending=[False, True], ignore_index=True)


def _by_path(found: pd.DataFrame, length: Indices, names: Sequence[str]) -> pd.DataFrame:
    """Return each path of names with its kernels: the columns of ``_MODULES``.

    Paths form a tree, level by level, so that a node comes after the one above it::

        a             0
        a / b         1  above: 0
        c             2
        a / b / d     3  above: 1

    Args:
        found: Operation and code of the text of each range around its launch, sorted by operation, the outermost first.
        length: Time of the operation of each row in ns.
        names: Name of each text.
    """
    operation = found["operation"].to_numpy()
    name_codes, words = pd.factorize(np.array(names, object))
    name = name_codes[found["text"].to_numpy()]
    first = np.flatnonzero(np.diff(operation, prepend=-1))
    sizes = np.diff(np.append(first, len(operation)))
    depth = np.arange(len(operation)) - np.repeat(first, sizes)
    place = np.repeat(np.arange(len(first)), sizes)
    by_depth = np.argsort(depth, kind="stable")
    node = np.full(len(first), -1, np.int64)
    paths: list[str] = []
    above: list[int] = []
    for here in np.split(by_depth, np.flatnonzero(np.diff(depth[by_depth])) + 1):
        new, unique = pd.factorize((node[place[here]] + 1) << 32 | name[here])
        node[place[here]] = new + len(paths)
        above += ((unique >> 32) - 1).tolist()
        for up, word in zip(((unique >> 32) - 1).tolist(), (unique & 0xFFFFFFFF).tolist(), strict=True):
            paths.append(f"{paths[up]}{SEPARATOR}{words[word]}" if up >= 0 else words[word])
    count = np.bincount(node, minlength=len(paths))
    own = np.zeros(len(paths), np.int64)
    np.add.at(own, node, length[first])
    total = own.copy()
    for low in range(len(paths) - 1, -1, -1):
        if above[low] >= 0:
            count[above[low]] += count[low]
            total[above[low]] += total[low]
    return pd.DataFrame({"module": paths, "count": count, "total_ns": total, "self_ns": own})


def run(context: TraceContext, window: Window) -> Section:
    """Return ranges by name: host time, projection on the GPU, and kernels.

    The projection of a range consists of the operations launched by calls inside it on its own thread: ``envelope_ns``
    is the time from the first start to the last end, ``busy_ns`` the length of the union. ``kernels`` counts a kernel
    in every range around its launch. Both follow nsys's own reports. Ranges that touch the part of the window of
    their process count in full. The columns ``..._any_thread`` also count operations that other threads of the process
    launched during the range.
    """
    ranges = context.trace[tables.RANGES]
    rows, duration = clipped(context, ranges, window)
    names = _names(ranges)
    codes, unique = pd.factorize(names[rows])
    nesting = RangeNesting(ranges)
    launched = _launched(context)
    thread = coded(context.trace[tables.CALLS], "thread").only(taken(context.operations.call, launched))
    own = _pairs(context, nesting, launched, thread, window)
    kernels = _kernels(context, names, own)
    handed = _handed_pairs(context, nesting, window)
    return SECTION.made(
        window,
        tables={
            "summary": by_name([str(name) for name in unique], codes, duration),
            "projection": projection(context, names, own, handed),
            "kernels": kernels,
            "modules": modules(context, handed, own),
        },
        notes=_notes(nesting),
    )


def _notes(nesting: RangeNesting) -> tuple[str, ...]:
    if not nesting.left_out:
        return ()
    levels = f"Work is joined with the {MOST_LEVELS} outermost levels of a thread's ranges."
    return (f"{levels} Deeper ones, {units.counted(nesting.left_out, 'range')}, have only their host time.",)


def _names(ranges: pd.DataFrame) -> pd.Index:
    """Return the name of each range: "domain:text", or the text alone in the default domain."""
    codes = ranges["text"].cat.codes.to_numpy().astype(np.int64)
    domains = ranges["domain"].cat.codes.to_numpy().astype(np.int64)
    pairs, unique = pd.factorize(domains * (1 << 32) + codes)
    text, domain = (list(map(str, ranges[name].cat.categories)) for name in ("text", "domain"))
    labels = []
    for pair in unique.tolist():
        of_domain, own = domain[pair >> 32], text[pair & 0xFFFFFFFF]
        labels.append(f"{of_domain}:{own}" if of_domain else own)
    return pd.Index(np.array(labels, dtype=object)[pairs] if len(pairs) else [], dtype=object)


def _handed_pairs(context: TraceContext, nesting: RangeNesting, window: Window) -> Pairs:
    """Return operations launched by other threads, paired with the main thread's ranges around the launch.

    Such a thread, typically autograd's, has no open range of the program when it launches. Source: definitions of
    projections, "what any thread launches".
    """
    calls, ranges = context.trace[tables.CALLS], context.trace[tables.RANGES]
    launched = _launched(context)
    thread, start = coded(calls, "thread"), array(calls, "start")
    program = np.flatnonzero(~of_library(ranges))
    range_thread = array(ranges, "thread")[program]
    handed, main, targets = [np.empty(0, np.int32)], [np.empty(0, np.int32)], [-1]
    for each in context.operations.launching_threads.tolist():
        process = each & ~tables.THREAD_MASK
        target = context.phases.main_thread.get(process, process | tables.pid(process))
        if target == each:
            continue
        mine = launched[thread.equal(each, taken(context.operations.call, launched))]
        rows = program[range_thread == each]
        began = start[taken(context.operations.call, mine)]
        own = merge(array(ranges, "start")[rows], array(ranges, "end")[rows])
        handed.append(mine[covered(own, began, began + 1) == 0])
        main.append(np.full(len(handed[-1]), len(targets), np.int32))
        targets.append(target)
    which = np.concatenate(handed)
    order = np.argsort(which, kind="stable")
    thread_of = CodedIds(np.concatenate(main)[order], np.array(targets))
    found = _pairs(context, nesting, which[order], thread_of, window)
    kept = ~of_library(ranges)[found.range]
    return Pairs(found.operation[kept], found.range[kept])


def _launched(context: TraceContext) -> Indices:
    """Return the operations whose launch is known, int32."""
    return np.flatnonzero(context.operations.call >= 0).astype(np.int32)


def _pairs(context: TraceContext, nesting: RangeNesting, launched: Indices, thread: CodedIds, window: Window) -> Pairs:
    """Return the operations paired with the ranges around their launch on a thread, of those ``run`` counts."""
    trace = context.trace
    calls, ranges = trace[tables.CALLS], trace[tables.RANGES]
    call = taken(context.operations.call, launched)
    found_operations, found_ranges = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    low, high = find_own_windows(context, window).by_process(ranges)
    inside = (array(ranges, "start") < high) & (array(ranges, "end") > low)
    sides = array(calls, "start"), array(calls, "end")
    for which, rows in nesting.enclosing(
        thread, lambda some: Spans(*(taken(each, taken(call, some)) for each in sides))
    ):
        touching = taken(inside, rows)
        found_operations.append(taken(launched, taken(which, touching)))
        found_ranges.append(taken(rows, touching).astype(np.int32))
    return Pairs(np.concatenate(found_operations), np.concatenate(found_ranges))


def _kernels(context: TraceContext, names: pd.Index, pairs: Pairs) -> pd.DataFrame:
    """Return the statistics of kernels by enclosing range and kernel name."""
    operations, trace = context.operations, context.trace
    is_kernel = taken(operations.table, pairs.operation) == 0
    which = taken(pairs.operation, is_kernel)
    ranges = taken(pairs.range, is_kernel)
    range_codes, range_names = pd.factorize(names)
    kernels = coded(trace[tables.KERNELS], "name_id")
    width = max(len(kernels.ids), 1)
    codes, unique = numbered(
        lambda some: (
            taken(range_codes, ranges[some]) * width + taken(kernels.codes, taken(operations.row, which[some]))
        ),
        len(which),
        max(len(range_names), 1) * width,
    )
    length = taken(operations.end, which)
    length -= taken(operations.start, which)
    found = statistics(codes, length, len(unique))
    texts = [(str(range_names[each // width]), trace.text(int(kernels.ids[each % width]))) for each in unique.tolist()]
    order = largest_first(found["total_ns"], texts)
    columns = zip(*(texts[each] for each in order.tolist()), strict=True) if texts else ((), ())
    names_of = {name: text_column(list(column)) for name, column in zip(("range", "name"), columns, strict=True)}
    return pd.DataFrame({**names_of, **{name: values[order] for name, values in found.items()}})


SECTION = SectionSpec(
    key="ranges",
    title="NVTX ranges",
    run=run,
    needs=(tables.RANGES,),
    reads=(),
    place=180,
    columns={
        "kernels": f"range name {STATISTICS}",
        "modules": "module count total_ns self_ns",
        "projection": (
            "name count range_ns envelope_ns busy_ns operation_count envelope_any_thread_ns "
            "busy_any_thread_ns operation_count_any_thread"
        ),
        "summary": f"name {STATISTICS}",
    },
    kinds={Kind.TEXT: "module range"},
    units={"operation_count_any_thread": "count"},
    captions={"summary": "On the CPU", "projection": "On the GPU", "kernels": "Kernels by range"},
    headings={
        "envelope_ns": "first to last operation",
        "envelope_any_thread_ns": "first to last operation, of any thread",
        "busy_any_thread_ns": "GPU busy, of any thread",
        "operation_count_any_thread": "operations of any thread",
    },
)
