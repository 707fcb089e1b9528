"""The words of the report: names of ledger parts, rules, causes and columns. The glossary explains the terms.

Page, terminal and Markdown take their words from here, so each thing has one name everywhere. The names of rules and
causes come from ``nsyswrap.rules``, which lower layers use, too.
"""

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from nsyswrap.rules import cause_name, rule_name
from nsyswrap.rules.work_names import LEDGER_NAMES, TENSOR_REASONS, TENSOR_USES, operation_name

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["cause_name", "rule_name"]


class LedgerPart(NamedTuple):
    """One row of the ledger.

    Attributes:
        column: Its column in the table ``devices``.
        key: Short name, which selects its colour in the style sheet.
        colour: Fill on a white page; its contrast with white is at least 3:1.
    """

    column: str
    key: str
    label: str
    colour: str


LEDGER_PARTS = (
    LedgerPart("compute_ns", "compute", LEDGER_NAMES["compute_ns"], "#0054A9"),
    LedgerPart("communication_wait_ns", "rank_wait", LEDGER_NAMES["communication_wait_ns"], "#B5638F"),
    LedgerPart("communication_transfer_ns", "communication", LEDGER_NAMES["communication_transfer_ns"], "#873267"),
    LedgerPart("copy_exposed_ns", "copy", LEDGER_NAMES["copy_exposed_ns"], "#604900"),
    LedgerPart("memset_exposed_ns", "memset", LEDGER_NAMES["memset_exposed_ns"], "#808080"),
    LedgerPart("idle_ns", "idle", LEDGER_NAMES["idle_ns"], "#55616F"),
)


def fill(part: LedgerPart) -> str:
    """Return the fill of a part; idle is hatched, so that it differs from other parts without colour."""
    return "url(#idle)" if part.key == "idle" else part.colour


WINDOW_SOURCES = MappingProxyType(
    {
        "steps": "the measured steps; warm-up is left out",
        "pattern": "steps found by the repeating pattern of the GPU work",
        "operations": "first to last GPU operation of the capture",
        "session": "the whole capture",
        "user": "given on the command line",
    }
)

COLUMNS = MappingProxyType(
    {
        **{column: name for column, name in LEDGER_NAMES.items() if column != "idle_ns"},
        "device_id": "GPU",
        "start_ns": "start",
        "end_ns": "end",
        "total_ns": "total",
        "mean_ns": "mean",
        "median_ns": "median",
        "min_ns": "min",
        "max_ns": "max",
        "stddev_ns": "std\u00a0dev",
        "host_ns": "CPU time",
        "gpu_ns": "GPU busy",
        "kernel_ns": "kernel time",
        "rule": "why",
        "idle_of_window_share": "of the window",
        "op": "operation",
        "length_ns": "length",
        "busy_ns": "GPU busy",
        "operation_count": "operations",
        "process_id": "process",
        "thread_id": "thread number",
        "what": "call or mark",
    }
)

WEIGHTS = ("total_ns", "idle_ns", "kernel_ns", "gpu_ns", "host_ns", "window_ns")
"""Columns that measure how much time a row stands for; the first one that a table has is used."""

ADDS_UP = "Each row adds up to its window to the nanosecond; rounded shares may differ from 100 % by a tenth."
NO_GPU = "No GPU work was recorded, so there is no breakdown of GPU time."


def column_label(name: str) -> str:
    """Return the heading of a column: ``idle_ns`` reads ``idle``."""
    if name in COLUMNS:
        return COLUMNS[name]
    from nsyswrap.render.section_heads import HEADINGS  # noqa: PLC0415 - loads all sections

    if name in HEADINGS:
        return HEADINGS[name]
    for suffix in ("_ns", "_bytes", "_share", "_hz", "_count"):
        name = name.removesuffix(suffix)
    return name.replace("_", " ")


def fact_label(label: str) -> str:
    """Return the text for a fact's label."""
    from nsyswrap.render.section_heads import FACTS  # noqa: PLC0415 - loads all sections

    return FACTS.get(label) or (column_label(label) if "_" in label else label)


def named(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return a table with names in place of keys: rules, causes, uses of tensor cores, operations, parts of steps."""
    names = {
        "rule": rule_name,
        "cause": cause_name,
        "verdict": lambda key: TENSOR_USES.get(key, key),
        "reason": lambda key: TENSOR_REASONS.get(key, key),
        "op": lambda key: operation_name(key) if key else "",
        "part": column_label,
        "role": lambda key: column_label(f"{key}_ns"),
    }
    return table.assign(
        **{column: table[column].astype(str).map(name) for column, name in names.items() if column in table}
    )
