"""Reports for tests of comparisons: a training loop with given step times, and whatever else a test changes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.compare import Comparison, ComparisonOptions, Side, compare_reports
from nsyswrap.compare.step_times import LEDGER_ROWS
from nsyswrap.intervals import Window
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
    """Step times that scatter about a median, ns; the same for the same seed."""
    noise = np.random.default_rng(seed).standard_normal(count)
    return np.round(median_ms * MS * np.exp(spread * noise)).astype(np.int64)


def report(  # noqa: PLR0913 - what a test changes, each with a name
    steps: Sequence[int] | npt.NDArray[np.int64],
    *,
    between: int = 0,
    gpus: int = 1,
    ranks: int = 1,
    name: str = "batch",
    source: Any = "steps",  # noqa: ANN401 - any source of a window
    busy: bool = False,
) -> Report:
    """Return the report of a loop of two warm-up steps and these, each 1 ms of compute and idle else.

    Args:
        steps: Length of each measured step, ns.
        between: Idle time after each step that lies in none, ns.
        gpus: How many GPUs do the same.
        ranks: How many processes take the same steps at the same time.
        name: What steps are called, less their number.
        source: What the window is said to be made of.
        busy: Whether the steps are all compute.
    """
    length = np.concatenate([[WARM_UP_NS, WARM_UP_NS], np.asarray(steps, np.int64)])
    start = np.concatenate([[0], np.cumsum(length + between)[:-1]])
    table = _steps(name, start, length, length if busy else np.full_like(length, COMPUTE_NS))
    window = Window(int(start[min(2, len(start) - 1)]), int(start[-1] + length[-1]), f"{len(steps)} steps", source)
    compute = int(table["compute_ns"][2:].sum())
    frame = pd.concat([table.assign(device_id=device) for device in range(gpus) for _ in range(ranks)])
    sections = (
        _section("ledger", window, devices=_devices(window, compute, gpus)),
        _section("idle", window, causes=_causes(window, compute, len(steps), gpus)),
        _section("steps", window, steps=frame.reset_index(drop=True)),
    )
    return Report(
        Capture("capture.sqlite", 1_000), SESSION, tuple(replace(GPU, device_id=each) for each in range(gpus)), window,
        "The GPU is idle.", sections, (),
    )  # fmt: skip


def with_section(whole: Report, key: str, facts: Mapping[str, Any] | None = None, **tables: pd.DataFrame) -> Report:
    """Return a report with one more section, or with another one of that key."""
    told = tuple(Fact(label, value, "share") for label, value in (facts or {}).items())
    added = Section(key, key.capitalize(), whole.window, told, tables)
    return replace(whole, sections=(*(one for one in whole.sections if one.key != key), added))


def with_findings(whole: Report, *findings: tuple[str, Severity, int]) -> Report:
    """Return a report with findings on GPU 0: rule, severity and cost in ns."""
    made = tuple(
        Finding(rule, severity, f"{rule} matters.", cost, 0, cost, "Change it.", (), 0, whole.window)
        for rule, severity, cost in findings
    )
    return replace(whole, findings=made)


def with_session(whole: Report, **fields: Any) -> Report:  # noqa: ANN401 - any field of the session
    """Return a report of a capture that was made otherwise."""
    return replace(whole, session=replace(whole.session, **fields))


def side(whole: Report, name: str = "base") -> Side:
    """Return a report as one side of a comparison."""
    return Side.of(name, [whole])


def compared(base: Report, new: Report, **settings: Any) -> Comparison:  # noqa: ANN401 - any setting
    """Return the comparison of two reports."""
    return compare_reports([base], [new], ("before", "after"), ComparisonOptions(**settings))


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
        }
    )
    parts = dict.fromkeys(LEDGER_ROWS, 0) | {"compute_ns": compute, "idle_ns": length - compute}
    return pd.concat([frame, pd.DataFrame(parts, index=frame.index)], axis="columns")


def _devices(window: Window, compute: int, gpus: int) -> pd.DataFrame:
    row = dict.fromkeys(LEDGER_ROWS, 0) | {"compute_ns": compute, "idle_ns": window.length_ns - compute}
    return pd.DataFrame([{"device_id": device, "window_ns": window.length_ns, **row} for device in range(gpus)])


def _causes(window: Window, compute: int, count: int, gpus: int) -> pd.DataFrame:
    idle = window.length_ns - compute
    rows = [("data_wait", "data", idle - idle // 4), ("cpu", "forward", idle // 4)]
    columns = ["device_id", "cause", "phase", "idle_ns", "gap_count"]
    return pd.DataFrame([(device, *row, count) for device in range(gpus) for row in rows], columns=columns)


def _section(key: str, window: Window, **tables: pd.DataFrame) -> Section:
    return Section(key, key.capitalize(), window, tables=tables)
