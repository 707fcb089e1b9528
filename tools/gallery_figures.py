"""Figures of the committed reports for the text of docs/results.md, by case and measure.

The text names them as `str.format` does: `{mnist-1-worker:data}` is the time of a phase, and
`{bert-fp32 / bert-amp:step}` is the ratio of two steps. The text therefore always agrees with the reports.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gallery_results import Result

HUNDRED = 100
EPOCH = re.compile(r"([\d.]+) s, data")


def milliseconds(value_ns: float | None) -> str:
    """Return a time in milliseconds with three digits, without its unit; a dash if there is no value."""
    return "-" if value_ns is None else three(value_ns / 1e6)


def percent(share: float | None) -> str:
    """Return a share in percent; a dash if there is no value."""
    return "-" if share is None else f"{share:.1%}".replace("%", " %")


def three(value: float) -> str:
    """Return a number with three significant digits, or all digits before the point if there are more."""
    return f"{value:.0f}" if value >= HUNDRED else f"{value:.3g}"


def short(name: str) -> str:
    """Return the function of a kernel: its name without arguments and namespaces, 48 characters at most."""
    plain = re.split(r"[<(]", name.replace("<unnamed>", "").removeprefix("void ").replace("|", "/"), maxsplit=1)[0]
    return (plain.rpartition("::")[2] or name)[:48].rstrip("_")


def kernel_ns(result: Result) -> float | None:
    """Return the time in which a kernel runs in a mean step, ns; None without a ledger."""
    value = result.ledger.get("compute_ns")
    return None if value is None else value / result.steps


def phase_ns(result: Result, phase: str) -> float | None:
    """Return the mean host time of a phase, ns; None if the phase does not occur."""
    row = next((row for row in result.rows("phases", "phases") if row["phase"] == phase), None)
    return row["host_ns"] / max(row["count"], 1) if row else None


def _range_ns(result: Result, name: str) -> float:
    row = next(row for row in result.rows("ranges", "summary") if row["name"] == name)
    return float(row["mean_ns"])


def _optimizer(result: Result, column: str) -> float:
    row = next(row for row in result.rows("phases", "phases") if row["phase"] == "optimizer")
    return float(row[column]) / result.steps


def _idle(result: Result, cause: str = "") -> float:
    """Return the share of the window in which the GPU is idle: for one cause, or in all."""
    rows = result.rows("idle", "attribution")
    return float(sum(row["idle_ns"] for row in rows if cause in {"", row["cause"]}) / result.ledger["window_ns"])


def _epoch_ns(result: Result) -> float:
    """Return the time of an epoch by the program's own clock, ns."""
    return float(next(found for line in result.printed if (found := EPOCH.search(line)))[1]) * 1e9


def _ms(value: float) -> str:
    return f"{milliseconds(value)} ms"


def _us(value: float) -> str:
    return f"{three(value / 1e3)} us"


def _seconds(value: float) -> str:
    return f"{three(value / 1e9)} s"


def _count(value: float) -> str:
    return f"{value:.0f}"


MEASURES: Mapping[str, tuple[Callable[[Result], float], Callable[[float], str]]] = {
    "step": (lambda each: each.fact("step_breakdown", "mean_step_ns"), _ms),
    "kernels": (lambda each: kernel_ns(each) or 0, _ms),
    "data": (lambda each: phase_ns(each, "data") or 0, _ms),
    "decode": (lambda each: _range_ns(each, "decode"), _ms),
    "augment": (lambda each: _range_ns(each, "augment"), _ms),
    "epoch": (_epoch_ns, _seconds),
    "busy": (lambda each: each.fact("step_breakdown", "gpu_utilization_share"), percent),
    "idle": (_idle, percent),
    "idle_for_cpu": (lambda each: _idle(each, "cpu"), percent),
    "tensor": (lambda each: each.fact("tensor_cores", "share_low"), percent),
    "launch_interval": (lambda each: each.fact("launches", "median_launch_interval_ns"), _us),
    "operation": (lambda each: each.fact("launches", "median_operation_ns"), _us),
    "optimizer": (lambda each: _optimizer(each, "host_ns"), _ms),
    "optimizer_idle": (lambda each: _optimizer(each, "idle_ns"), _ms),
    "optimizer_kernels": (lambda each: _optimizer(each, "kernel_count"), _count),
}


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one case, or their ratio to those of another; `format` takes the name of a measure."""

    result: Result
    other: Result | None = None

    def __format__(self, measure: str) -> str:
        """Return a figure with its unit, or a ratio with one digit after the point.

        Raises:
            ValueError: There is no such measure.
        """
        if measure not in MEASURES:
            raise ValueError(f"{measure} is not a measure; the measures are: {', '.join(MEASURES)}")
        read, written = MEASURES[measure]
        if self.other is None:
            return written(read(self.result))
        return f"{read(self.result) / read(self.other):.1f}"


class AllFigures(dict[str, Figures]):
    """The figures of all cases by name, and the ratio of two cases by their names with a slash between."""

    def __init__(self, by_name: Mapping[str, Result]) -> None:
        super().__init__({name: Figures(result) for name, result in by_name.items()})

    def __missing__(self, names: str) -> Figures:
        """Return the figures of two cases.

        Raises:
            KeyError: There is no result of this name.
        """
        one, slash, other = names.partition(" / ")
        if not slash:
            raise KeyError(names)
        return Figures(self[one].result, self[other].result)
