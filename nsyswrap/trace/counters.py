"""Samples of GPU counters: which are read, and the table of the trace that they become."""

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.trace import queries, schema, tables
from nsyswrap.trace.connection import Export

Arrays = dict[str, npt.NDArray[Any]]

# The counters that are shown. nsys writes "SM Active" for older GPUs and "SMs Active" for newer ones, and VRAM or DRAM.
# Source: the metric sets of nsys 2023.4 and 2025.3.
SHOWN = re.compile(r"(?:SMs? Active|Tensor Active|[DV]RAM (?:Read|Write)|PCIe [RT]X|NVLink [RT]X)\b")
_UNIT = re.compile(r"\s*\[([^\]]*)\]\s*$")
# The lowest byte of a type id is the number of the GPU. Source: the SQLite schema in the user guide of nsys.
GPU_MASK = 0xFF
# Rounding may lift a percentage above 100; a much larger value is damage.
MOST_PERCENT = 1000


def names(export: Export) -> dict[tuple[int, int], str]:
    """Return the name, without its unit, of each percentage counter that is shown, by type and metric."""
    wanted = ("typeId", "metricId", "metricName")
    if not export.has(schema.COUNTER_NAMES, *wanted):
        return {}
    found: dict[tuple[int, int], str] = {}
    for kind, metric, name in export.rows(queries.columns_of(schema.COUNTER_NAMES, wanted)):
        unit = _UNIT.search(str(name))
        if SHOWN.match(str(name)) and (unit is None or "%" in unit.group(1)):
            key = (
                export.whole(kind, schema.COUNTER_NAMES, "typeId"),
                export.whole(metric, schema.COUNTER_NAMES, "metricId"),
            )
            found[key] = _UNIT.sub("", str(name))
    return found


def conform(arrays: dict[str, Arrays], known: dict[tuple[int, int], str], dropped: dict[str, int]) -> tuple[str, ...]:
    """Add the GPU and the counter of each sample, in place, and return the name of each counter code.

    Args:
        arrays: Columns by table; those of the counters have type_id and metric_id.
        known: Names by type and metric; samples of other metrics are left out.
        dropped: Rows left out, by what they are; samples that are no percentage are added.
    """
    table = tables.COUNTERS.name
    if table not in arrays:
        return ()
    columns = arrays[table]
    codes = {name: code for code, name in enumerate(sorted(set(known.values())))}
    kind_codes, kinds = pd.factorize(columns.pop("type_id"))
    metric_codes, metrics = pd.factorize(columns.pop("metric_id"))
    by_pair = [[codes.get(known.get((int(kind), int(metric)), ""), -1) for metric in metrics] for kind in kinds]
    counter = np.array(by_pair, np.int32).reshape(len(kinds), len(metrics))
    columns["counter"] = counter[kind_codes, metric_codes]
    columns["device_id"] = (np.array(kinds, np.int64) & GPU_MASK).astype(np.int32)[kind_codes]
    shown = columns["counter"] >= 0
    possible = (columns["value"] >= 0) & (columns["value"] <= MOST_PERCENT)
    if left_out := int((shown & ~possible).sum()):
        dropped["counters without a percentage"] = left_out
    keep = shown & possible
    if not keep.all():
        arrays[table] = {name: values[keep] for name, values in columns.items()}
    return tuple(codes)
