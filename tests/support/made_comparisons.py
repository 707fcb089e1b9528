"""Comparisons for tests of their forms: full, hostile, empty, and of two reports that are not comparable.

Each is made once, and the tests share it. ``inspect.unwrap`` gives the function that makes another.
"""

from dataclasses import replace
from functools import cache

import hand_made
import paired_reports as pairs
import pandas as pd
from paired_reports import MS
from timeline_fixtures import timeline_data

from nsyswrap.compare.comparison import Comparison
from nsyswrap.compare.reports import compare_reports
from nsyswrap.model import Report, Severity


def side_report(median_ms: float, seed: int, workers: int) -> Report:
    """Return the report of a loop with kernels, copies, phases, a tensor share and findings."""
    whole = pairs.report(pairs.lengths(median_ms, seed=seed))
    wait = max(int((median_ms - 1.5) * MS * 60), 0)
    kernels = {hand_made.GEMM: 20 * MS, hand_made.ELEMENTWISE: 30 * MS, f"only_with_{workers}": 5 * MS}
    whole = pairs.with_section(whole, "kernels", summary=pairs.kernels(**kernels))
    phases = pd.DataFrame(
        {"phase": ["data", "forward"], "count": 60, "host_ns": [wait, 50 * MS], "gpu_ns": [0, 40 * MS]}
    )
    whole = pairs.with_section(whole, "phases", phases=phases)
    names = pd.DataFrame(
        {"verdict": ["tensor", "not_eligible"], "precision": ["bf16", ""], "library": ["cutlass", "pytorch"],
         "op": ["gemm", "elementwise"], "total_ns": [20 * MS, 30 * MS], "count": 60}
    )  # fmt: skip
    whole = pairs.with_section(whole, "tensor_cores", {"share_low": 0.4, "share_high": 0.45}, kernels=names)
    rule = ("idle/data_wait", Severity.PROBLEM, wait) if wait > 60 * MS else ("idle/lock", Severity.NOTE, 6 * MS)
    whole = pairs.with_findings(whole, rule, ("idle/cpu", Severity.WARNING, 30 * MS))
    command = ("python", "train.py", "--workers", str(workers))
    return pairs.with_session(whole, command=command, started_utc=f"2026-11-21T04:1{workers}:0{seed}")


@cache
def full() -> Comparison:
    """Return a comparison of three runs of each side with content in every part."""
    base, new = [side_report(5.7, at, 1) for at in (1, 3, 5)], [side_report(2.5, at, 8) for at in (2, 4, 6)]
    return compare_reports(base, new, ("one-worker", "eight-workers"))


@cache
def hostile() -> Comparison:
    """Return a comparison of two reports in which every text is hostile."""
    base, new = hand_made.hostile_report(), hand_made.full_report()
    return compare_reports([base], [replace(new, findings=base.findings)], (hand_made.HOSTILE, "b"))


@cache
def bare() -> Comparison:
    """Return a comparison of two empty reports."""
    return compare_reports([hand_made.empty_report()], [hand_made.empty_report()], ("a", "b"))


@cache
def unlike() -> Comparison:
    """Return a comparison of reports that are not comparable; one has no steps."""
    return compare_reports([hand_made.two_gpu_report()], [hand_made.no_gpu_report()], ("two", "none"))


def faster_steps(*, with_new: bool = True) -> Comparison:
    """Return a comparison of a loop with one whose steps take half as long, each from the same start.

    Args:
        with_new: Whether the new side has a timeline.
    """
    whole = timeline_data()
    steps = next(row for row in whole.rows if row.kind == "steps")
    half = replace(steps.items, end=steps.items.start + (steps.items.end - steps.items.start) // 2)
    halved = replace(whole, rows=tuple(replace(row, items=half) if row is steps else row for row in whole.rows))
    base, new = (pairs.report(pairs.lengths(one)) for one in (1.0, 0.5))
    sides = replace(base, timeline=whole), replace(new, timeline=halved if with_new else None)
    return compare_reports([sides[0]], [sides[1]], ("before", "after"))


ALL = {"full": full, "hostile": hostile, "bare": bare, "unlike": unlike}
