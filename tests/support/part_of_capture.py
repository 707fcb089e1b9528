"""A hand-made report about a part of a capture."""

from dataclasses import replace
from functools import cache

import hand_made
import pandas as pd

from nsyswrap.base.intervals import Window
from nsyswrap.model import Fact, Report, Section

MS = 1_000_000


@cache
def part_report() -> Report:
    """Return the full report as that of a part of a capture, with the section on all of it."""
    columns = ("device_id", "interval", "window_ns", "compute_ns", "communication_ns", "copy_exposed_ns")
    rows = [(0, "all operations", 40_000 * MS, 30_000 * MS, 0, 1_000 * MS, 0, 9_000 * MS, 90_000)]
    rows += [(0, "all measured steps", 20_000 * MS, 16_000 * MS, 0, 500 * MS, 0, 3_500 * MS, 50_000)]
    table = pd.DataFrame(rows, columns=[*columns, "memset_exposed_ns", "idle_ns", "operation_count"])
    window = Window(0, 40_000 * MS, "all GPU operations, warm-up included", "operations")
    facts = (Fact("read", "4,000 of 90,000 GPU operations, measured steps 100 to 117 of 220", "text"),)
    whole = Section("whole_capture", "The whole capture", window, facts=facts, tables={"gpus": table})
    first, *others = hand_made.full_report().sections
    return replace(hand_made.full_report(), sections=(first, whole, *others))
