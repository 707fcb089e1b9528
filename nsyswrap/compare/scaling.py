"""Two runs on different numbers of GPUs: how each part of a step differs; the parts add up to the difference.

::

    step of 1 GPU     |######## compute ########|copies|..idle..|
    step of 2 GPUs    |#### compute ####|copies|~wait~|=transfer=|..idle..|
"""

from collections.abc import Mapping

from nsyswrap.compare.comparison import AmountChange, Basis, ChangeTable, Side
from nsyswrap.compare.step_times import LEDGER_ROWS

KEY, STEP = "scaling", "step_ns"
# The rows of the ledger in each part.
PARTS: Mapping[str, tuple[str, ...]] = {
    "compute_ns": ("compute_ns",),
    "copies_ns": ("copy_exposed_ns", "memset_exposed_ns"),
    "communication_wait_ns": ("communication_wait_ns",),
    "communication_transfer_ns": ("communication_transfer_ns",),
    "idle_ns": ("idle_ns",),
}


def scaling_table(base: Side, new: Side, basis: Basis) -> ChangeTable | None:
    """Return the parts of a step on both sides, mean over GPUs, and the step; None for equal numbers of GPUs.

    The parts add up to the step, and their differences to the difference of the steps, because the ledger of each GPU
    adds up to the window.

    Args:
        base: The side with one number of GPUs.
        new: The side with another.
        basis: Whether both windows are made of steps; otherwise there is no table.
    """
    counts = [gpu_count(side) for side in (base, new)]
    if basis != "step" or not all(counts) or counts[0] == counts[1]:
        return None
    before, now = (_parts(side) for side in (base, new))
    changes = tuple(AmountChange(name, before[name], now[name]) for name in (*PARTS, STEP))
    title = f"Scaling from {counts[0]} to {counts[1]} GPU{'s' if counts[1] > 1 else ''}"
    return ChangeTable(KEY, title, "a step, mean over GPUs; the parts add up to the step", "ns", changes)


def gpu_count(side: Side) -> int:
    """Return how many GPUs the ledger of a side has; 0 without GPU work."""
    devices = side.report.rows("ledger", "devices")
    return 0 if devices is None else len(devices)


def _parts(side: Side) -> dict[str, float]:
    devices = side.report.rows("ledger", "devices")
    count = gpu_count(side) * side.step_count
    sums = {row: int(devices[row].sum()) if devices is not None and row in devices else 0 for row in LEDGER_ROWS}
    parts = {name: sum(sums[row] for row in rows) / count for name, rows in PARTS.items()}
    return {**parts, STEP: sum(parts.values())}
