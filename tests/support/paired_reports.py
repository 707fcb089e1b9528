"""Reports for tests of comparisons: a training loop with given step times and options."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from whole_tables import whole_section

from nsyswrap.base.interval import between
from nsyswrap.base.intervals import Window
from nsyswrap.compare.comparison import Comparison, ComparisonOptions, Side
from nsyswrap.compare.reports import compare_reports
from nsyswrap.compare.step_times import LEDGER_ROWS
from nsyswrap.model import Capture, Fact, Finding, Gpu, Report, Section, Session, Severity

MS = 1_000_000
COMPUTE_NS = 1 * MS
WARM_UP_NS = 50 * MS
SESSION = Session(
    nsys_version="2025.3.2.0",
    schema_version="3.20.3",
    started_utc="2026-11-21T04:10:31Z",
    duration_ns=41_200 * MS,
    command=("python", "train.py", "--workers", "1"),
    traces=("Cuda", "NvtxEvents", "OSRuntime"),
    graph_trace="Graph",
    driver_version="580.159.04",
    cuda_version="13.0",
)
GPU = Gpu(0, "NVIDIA H200", (9, 0), 132, 150_754_820_096)


def lengths(median_ms: float, count: int = 60, seed: int = 1, spread: float = 0.03) -> npt.NDArray[np.int64]:
    """Return step times that scatter around a median, ns; the same for the same seed."""
    noise = np.random.default_rng(seed).standard_normal(count)
    return np.round(median_ms * MS * np.exp(spread * noise)).astype(np.int64)


def report(  # noqa: PLR0913 - one argument for each thing that a test changes
    steps: Sequence[int] | npt.NDArray[np.int64],
    *,
    between: int = 0,
    gpus: int = 1,
    ranks: int = 1,
    name: str = "batch",
    source: Any = "steps",  # noqa: ANN401 - any source of a window
    busy: bool = False,
) -> Report:
    """Return the report of a loop: two warm-up steps, then the given ones, each with 1 ms of compute and the rest idle.

    Args:
        steps: Length of each measured step, ns.
        between: Idle time between steps, ns.
        gpus: Number of GPUs, which all do the same.
        ranks: Number of processes that run the same steps at the same time.
        name: Name of the steps, without their number.
        source: Source of the window.
        busy: Whether the steps are compute only.
    """
    length = np.concatenate([[WARM_UP_NS, WARM_UP_NS], np.asarray(steps, np.int64)])
    start = np.concatenate([[0], np.cumsum(length + between)[:-1]])
    table = _steps(name, start, length, length if busy else np.full_like(length, COMPUTE_NS))
    window = Window(int(start[min(2, len(start) - 1)]), int(start[-1] + length[-1]), f"{len(steps)} steps", source)
    compute = int(table["compute_ns"][2:].sum())
    each = [{"process": rank, "device_id": device} for device in range(gpus) for rank in range(ranks)]
    frame = pd.concat([table.assign(**its) for its in each])
    sections = (
        _section("ledger", window, devices=_devices(window, compute, gpus)),
        _section("idle", window, attribution=attribution(window, compute, len(steps), gpus)),
        _section("steps", window, steps=frame.reset_index(drop=True)),
    )
    return Report(
        Capture("capture.sqlite", 1_000), SESSION, tuple(replace(GPU, device_id=each) for each in range(gpus)), window,
        "The GPU is idle.", sections, (),
    )  # fmt: skip


def with_section(whole: Report, key: str, facts: Mapping[str, Any] | None = None, **tables: pd.DataFrame) -> Report:
    """Return a report with one section added or replaced."""
    values = tuple(Fact(label, value, "share") for label, value in (facts or {}).items())
    added = whole_section(Section(key, key.capitalize(), whole.window, values, tables))
    return replace(whole, sections=(*(one for one in whole.sections if one.key != key), added))


def with_findings(whole: Report, *findings: tuple[str, Severity, int]) -> Report:
    """Return a report with findings on GPU 0: rule, severity and time lost in ns."""
    made = tuple(
        Finding(rule, severity, f"{rule} takes time.", lost, between(0, lost), "Change it.", (), 0, whole.window)
        for rule, severity, lost in findings
    )
    return replace(whole, findings=made)


def with_session(whole: Report, **fields: Any) -> Report:  # noqa: ANN401 - any field of the session
    return replace(whole, session=replace(whole.session, **fields))


def side(whole: Report, name: str = "base") -> Side:
    return Side.of(name, [whole])


def compared(base: Report, new: Report, **options: Any) -> Comparison:  # noqa: ANN401 - any option
    return compare_reports([base], [new], ("before", "after"), ComparisonOptions(**options))


def kernels(**totals: int) -> pd.DataFrame:
    """Return the table of kernels, 60 times each, with their total time in ns."""
    return pd.DataFrame({"name": list(totals), "count": 60, "total_ns": list(totals.values())})


def _steps(
    name: str, start: npt.NDArray[np.int64], length: npt.NDArray[np.int64], compute: npt.NDArray[np.int64]
) -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "name": [f"{name} {number}" for number in range(len(start))],
            "start_ns": start,
            "end_ns": start + length,
            "warm_up": np.arange(len(start)) < 2,
            "number": np.maximum(np.arange(len(start)) - 2, -1),
        }
    )
    parts = dict.fromkeys(LEDGER_ROWS, 0) | {"compute_ns": compute, "idle_ns": length - compute}
    return pd.concat([frame, pd.DataFrame(parts, index=frame.index)], axis="columns")


def _devices(window: Window, compute: int, gpus: int) -> pd.DataFrame:
    row = dict.fromkeys(LEDGER_ROWS, 0) | {"compute_ns": compute, "idle_ns": window.length_ns - compute}
    return pd.DataFrame([{"device_id": device, "window_ns": window.length_ns, **row} for device in range(gpus)])


def attribution(window: Window, compute: int, count: int, gpus: int) -> pd.DataFrame:
    """Return the idle time of each GPU: three quarters wait for data, the rest is CPU time in the forward phase."""
    idle = window.length_ns - compute
    rows = [
        ("data_wait", "idle/data_wait", "data", idle - idle // 4),
        ("cpu", "launches/launch_bound", "forward", idle // 4),
    ]
    columns = ["device_id", "cause", "rule", "phase", "idle_ns", "gap_count"]
    return pd.DataFrame([(device, *row, count) for device in range(gpus) for row in rows], columns=columns)


def with_attribution(whole: Report, *rows: tuple[str, str, str, int]) -> Report:
    """Return a report in which GPU 0 is idle for these reasons: cause, rule, phase and ns."""
    table = pd.DataFrame(
        [(0, *row, 1) for row in rows], columns=["device_id", "cause", "rule", "phase", "idle_ns", "gap_count"]
    )
    return with_section(whole, "idle", attribution=table)


def _section(key: str, window: Window, **tables: pd.DataFrame) -> Section:
    return whole_section(Section(key, key.capitalize(), window, tables=tables))
