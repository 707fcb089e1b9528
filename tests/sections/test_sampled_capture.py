"""A real capture with GPU counters, Python samples and allocations: its sections agree with SQL and the program."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from real_captures import RealReport, RealTrace

from nsyswrap.model import Report, Section
from nsyswrap.trace.load import load_export
from nsyswrap.trace.redact import redact

Captures = Callable[[str], Path]

NAME = "mnist_counters_python"
# A sample with time t is the mean of [t, t + 100 us). An interval that cuts a sample has its part of it.
MEAN = """
select 1.0 * sum(value * (min(timestamp + 100000, :end) - max(timestamp, :start)))
     / sum(min(timestamp + 100000, :end) - max(timestamp, :start))
from GPU_METRICS join TARGET_INFO_GPU_METRICS using (typeId, metricId)
where metricName like :name and timestamp < :end and timestamp + 100000 > :start
"""


@pytest.fixture
def report(real_report: RealReport) -> Report:
    return real_report(NAME)


def section(report: Report, key: str) -> Section:
    found = report.section(key)
    assert found is not None
    return found


def test_means_are_those_of_sqlite(report: Report, captures: Captures) -> None:
    """They agree within a ten-thousandth, because times of samples vary by a nanosecond."""
    table = section(report, "counters").tables["window"]
    assert len(table) == 6
    with closing(sqlite3.connect(captures(NAME))) as database:
        for name, mean in table[["name", "mean_share"]].to_numpy().tolist():
            bounds = {"start": report.window.start_ns, "end": report.window.end_ns, "name": f"{name}%"}
            (expected,) = database.execute(MEAN, bounds).fetchone()
            assert mean == pytest.approx(expected / 100, rel=1e-4), name


def test_backward_and_forward_work_and_data_does_not(report: Report) -> None:
    table = section(report, "counters").tables["phases"].set_index("phase")["sm_active_share"]
    assert min(table["backward"], table["forward"]) > 0.05
    assert table["data"] < 0.001


def test_every_measured_step_has_its_means(report: Report) -> None:
    table = section(report, "counters").tables["steps"]
    assert table["name"].tolist() == [f"batch {number}" for number in range(38, 60)]
    assert table["sm_active_share"].between(0.04, 0.12).all()


def test_the_lines_of_the_step_are_named(report: Report) -> None:
    """Line 191 of the program is its forward pass, 193 backward, 195 the optimizer, 177 the wait for a batch."""
    table = section(report, "python_lines").tables["lines"]
    by_phase = table.groupby("phase")["line"].first()
    assert {phase: by_phase[phase] for phase in ("forward", "backward", "optimizer", "data")} == {
        "forward": 191,
        "backward": 193,
        "optimizer": 195,
        "data": 177,
    }
    assert set(table["file"]) == {"mnist.py"}
    assert table["innermost"][0] == "torch/nn/modules/conv.py:548 in _conv_forward"


def test_the_finding_on_cpu_time_names_its_line(report: Report) -> None:
    (finding,) = [each for each in report.findings if each.rule == "idle/cpu"]
    assert any(text.startswith("most samples: mnist.py:19") for text in finding.evidence)


def test_estimates_stay_below_the_idle_time(report: Report) -> None:
    """Autograd's own thread runs no Python, so only a part of backward has lines."""
    lines, account = section(report, "python_lines").tables["lines"], section(report, "idle").tables["attribution"]
    estimated = lines.groupby(["cause", "phase"])["idle_estimate_ns"].sum()
    idle = account.groupby(["cause", "phase"])["idle_ns"].sum()
    assert ((estimated - idle.reindex(estimated.index)) <= len(lines)).all()
    assert 0 < estimated.sum() < idle.sum()


def test_memory_is_held_and_no_measured_step_allocates(report: Report, captures: Captures) -> None:
    found = section(report, "device_memory")
    (row,) = found.tables["devices"].to_dict("records")
    held = "select sum(bytes) from CUDA_GPU_MEMORY_USAGE_EVENTS where memKind in (2, 3, 4, 5, 6) and start < ?"
    with closing(sqlite3.connect(captures(NAME))) as database:
        assert database.execute(held, (report.window.end_ns,)).fetchone() == (row["peak_bytes"],)
    assert (row["allocation_count"], row["release_count"]) == (0, 0)
    assert found.findings == ()


def test_redacting_leaves_the_stacks(real_trace: RealTrace, captures: Captures, tmp_path: Path) -> None:
    """The advice needs functions, lines and files."""
    redact(captures(NAME), tmp_path / "shared.sqlite")
    assert load_export(tmp_path / "shared.sqlite").stacks == real_trace(NAME).stacks
