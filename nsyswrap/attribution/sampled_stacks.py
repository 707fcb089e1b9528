"""The stacks of Python that ran while a GPU was idle, by root cause: what a flame graph is drawn from."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.attribution.pieces import Pieces
from nsyswrap.attribution.sampled_lines import idle_by_key, samples_inside, spelled
from nsyswrap.base.row_sums import typed_table
from nsyswrap.loop.context import TraceContext
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array

COLUMNS = {
    "device_id": np.int64,
    "rule": str,
    "stack": str,
    "sample_count": np.int64,
    "idle_estimate_ns": np.int64,
}
ORDER = ["idle_estimate_ns", "sample_count", "rule", "stack"]
# Between the frames of a stack, as programs that draw flame graphs expect it.
SEPARATOR = ";"
# Stacks of one GPU; the rest of each rule is one row without frames. Ours: a stack has about a kilobyte.
MOST_STACKS = 300


def find_sampled_stacks(
    context: TraceContext, pieces: Pieces, rule: npt.NDArray[np.int8], rules: tuple[str, ...]
) -> pd.DataFrame:
    """Return the sampled stacks of one GPU's idle time by rule, the most idle time first.

    Samples count as in ``find_sampled_lines``, and the estimates of a rule have the same sum: each sample stands for
    an equal part of the idle time of its cause, rule and phase. ``stack`` has the outermost frame first; it is empty
    for all stacks beyond ``MOST_STACKS`` of them. The table has no column ``device_id``; the caller adds it.
    """
    types = {name: kind for name, kind in COLUMNS.items() if name != "device_id"}
    sample, piece = samples_inside(context, pieces)
    if not len(sample):
        return typed_table([], types)
    width = len(context.phases.names) + 1
    key = (pieces.cause.astype(np.int64) * len(rules) + rule) * width + pieces.phase + 1
    idle = idle_by_key(context, pieces, key)
    keys, of_key, counts = np.unique(key[piece], return_inverse=True, return_counts=True)
    part = np.array([idle[each] for each in keys.tolist()]) / counts
    stack = array(context.trace[tables.SAMPLES], "stack")[sample]
    found = pd.DataFrame({"rule": rule[piece], "stack": stack, "ns": part[of_key]})
    grouped = found.groupby(["rule", "stack"], as_index=False).agg(sample_count=("ns", "size"), ns=("ns", "sum"))
    # A file may have the separator in its name.
    spelt = [
        SEPARATOR.join(spelled(frame).replace(SEPARATOR, ",") for frame in reversed(each))
        for each in context.lines.stacks
    ]
    rows = [
        (rules[rule_code], spelt[stack_code], count, round(ns))
        for rule_code, stack_code, count, ns in grouped.itertuples(index=False)
    ]
    table = _ordered(typed_table(rows, types).groupby(["rule", "stack"], as_index=False).sum())
    rest = table[MOST_STACKS:].assign(stack="").groupby(["rule", "stack"], as_index=False).sum()
    return table if rest.empty else _ordered(pd.concat([table[:MOST_STACKS], rest], ignore_index=True))


def _ordered(table: pd.DataFrame) -> pd.DataFrame:
    return table.sort_values(ORDER, ascending=[False, False, True, True], ignore_index=True)
