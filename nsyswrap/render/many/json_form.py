"""The totals of many captures as JSON, schema ``nsyswrap.many/1``: all numbers unrounded; a row is a line."""

from collections.abc import Mapping

from nsyswrap.many.totals import GroupRow, ManyCaptures
from nsyswrap.render.json_report import Tree, format_document

SCHEMA = "nsyswrap.many/1"


def render(many: ManyCaptures) -> str:
    """Return the totals as JSON text that ends in a line break."""
    return format_document(tree(many))


def tree(many: ManyCaptures) -> Tree:
    """Return the totals as nested dictionaries and lists of plain Python values."""
    return {
        "schema": SCHEMA,
        "capture_count": len(many.captures),
        "failed_count": len(many.failed),
        "gpu_ns": many.gpu_ns,
        "ledger": dict(many.ledger),
        "idle": [{"rule": rule, "idle_ns": idle} for rule, idle in many.idle.items()],
        "findings": [each._asdict() for each in many.findings],
        "kernel_ns": many.kernel_ns,
        "kernels": [each._asdict() for each in many.kernels],
        "other_kernels": many.other_kernels._asdict(),
        "outliers": [each._asdict() for each in many.outliers],
        "without_steps_count": many.without_steps,
        "groups": {grouping: [_group(each) for each in rows] for grouping, rows in many.groups.items()},
        "captures": [each._asdict() for each in many.captures],
        "failed": [each._asdict() for each in many.failed],
        "repeated": [{"name": name, "same_as": other} for name, other in many.repeated],
    }


def _group(row: GroupRow) -> Mapping[str, object]:
    """Return a group with a column for each row of the ledger."""
    found = row._asdict()
    found.pop("ledger")
    return {**found, **row.ledger}
