"""NVTX ranges: their host time, and the operations and kernels launched inside them."""

import numpy as np
import pandas as pd

from nsyswrap import tables
from nsyswrap.events.duration_stats import by_name, summarize
from nsyswrap.intervals import Indices, Times, Window, covered, merge
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import of_library
from nsyswrap.loop.range_nesting import enclosing
from nsyswrap.loop.range_projection import Pairs, projection
from nsyswrap.model import Section
from nsyswrap.sections.range_paths import modules, operators
from nsyswrap.sections.spec import SectionSpec
from nsyswrap.sections.summaries import clipped
from nsyswrap.tables import array, coded


def run(context: TraceContext, window: Window) -> Section:
    """Return ranges by name: host time, projection on the GPU, and kernels.

    The projection of a range consists of the operations launched by calls inside it on its own thread: ``envelope_ns``
    is the time from the first start to the last end, ``busy_ns`` the length of the union. ``kernels`` counts a kernel
    in every range around its launch. Both follow nsys's own reports. Ranges that touch the window count in full. The
    columns ``..._any_thread`` also count operations that other threads of the process launched during the range.
    """
    ranges = context.trace[tables.RANGES]
    rows, duration = clipped(ranges, window)
    names = _names(ranges)
    codes, unique = pd.factorize(names[rows])
    own = _own_pairs(context, window)
    kernels, of_operators = _kernels(context, names, own), operators(context, own)
    handed = _handed_pairs(context, window)
    return Section(
        key="ranges",
        title="NVTX ranges",
        window=window,
        tables={
            "summary": by_name([str(name) for name in unique], codes, duration),
            "projection": projection(context, names, own, handed),
            "kernels": kernels,
            "operators": of_operators,
            "modules": modules(context, handed, own),
        },
    )


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


def _own_pairs(context: TraceContext, window: Window) -> Pairs:
    """Return each operation paired with each range around its launch on the launching thread."""
    launched = np.flatnonzero(context.operations.call >= 0)
    thread = coded(context.trace[tables.CALLS], "thread")[context.operations.call[launched]]
    return _pairs(context, launched, thread, window)


def _handed_pairs(context: TraceContext, window: Window) -> Pairs:
    """Return operations launched by other threads, paired with the main thread's ranges around the launch.

    Such a thread, typically autograd's, has no open range of the program when it launches. Source: definitions of
    projections, "what any thread launches".
    """
    operations, trace = context.operations, context.trace
    launched = np.flatnonzero(operations.call >= 0)
    call = operations.call[launched]
    calls, ranges = trace[tables.CALLS], trace[tables.RANGES]
    thread, start = coded(calls, "thread")[call], array(calls, "start")[call]
    program = np.flatnonzero(~of_library(ranges))
    range_thread = array(ranges, "thread")[program]
    main = np.zeros(len(launched), np.int64)
    for each in pd.unique(thread):
        process = int(each) & ~tables.THREAD_MASK
        target = context.phases.main_thread.get(process, process | tables.pid(process))
        rows = program[range_thread == each]
        own = merge(array(ranges, "start")[rows], array(ranges, "end")[rows])
        mine = np.flatnonzero(thread == each) if target != each else np.empty(0, np.intp)
        main[mine[covered(own, start[mine], start[mine] + 1) == 0]] = target
    handed = np.flatnonzero(main)
    found = _pairs(context, launched[handed], main[handed], window)
    kept = ~of_library(ranges)[found.range]
    return Pairs(found.operation[kept], found.range[kept])


def _pairs(context: TraceContext, launched: Indices, thread: Times, window: Window) -> Pairs:
    """Return the operations paired with the ranges around their launch on a thread that touch the window."""
    trace = context.trace
    calls, ranges = trace[tables.CALLS], trace[tables.RANGES]
    call = context.operations.call[launched]
    found_operations, found_ranges = [np.empty(0, np.intp)], [np.empty(0, np.intp)]
    for which, rows in enclosing(trace, thread, array(calls, "start")[call], array(calls, "end")[call]):
        touching = (array(ranges, "start")[rows] < window.end_ns) & (array(ranges, "end")[rows] > window.start_ns)
        found_operations.append(launched[which[touching]])
        found_ranges.append(rows[touching])
    return Pairs(np.concatenate(found_operations), np.concatenate(found_ranges))


def _kernels(context: TraceContext, names: pd.Index, pairs: Pairs) -> pd.DataFrame:
    """Return the statistics of kernels by enclosing range and kernel name."""
    operations, trace = context.operations, context.trace
    is_kernel = operations.table[pairs.operation] == 0
    which = pairs.operation[is_kernel]
    range_codes, range_names = pd.factorize(names)
    kernel_codes, kernel_ids = pd.factorize(coded(trace[tables.KERNELS], "name_id")[operations.row[which]])
    width = max(len(kernel_ids), 1)
    key = range_codes[pairs.range[is_kernel]]
    key *= width
    key += kernel_codes
    del kernel_codes
    codes, unique = pd.factorize(key)
    del key
    found = summarize(codes, operations.end[which] - operations.start[which], len(unique))
    found.insert(0, "range", range_names.take(unique // width).astype(str))
    found.insert(1, "name", [trace.text(int(kernel_ids[each])) for each in unique % width])
    return found.sort_values(["total_ns", "range", "name"], ascending=[False, True, True], ignore_index=True)


SECTION = SectionSpec("ranges", "NVTX ranges", (tables.RANGES,), run)
