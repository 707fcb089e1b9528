"""The view `breakdown`: the mean step by role, GPU utilization, and every step."""

import re
from dataclasses import replace

import hand_made
import pytest
from export_builder import ExportBuilder, global_id, trace_of

from nsyswrap.model import Fact, Report, Section
from nsyswrap.render import breakdown_view
from nsyswrap.report import build_report

MS = 1_000_000


def report_of() -> Report:
    """Return the report of two steps of 4 and 6 ms, in which kernels take 1 and 3 ms."""
    builder = ExportBuilder().gpu().range("step 0", 0, 4 * MS).range("step 1", 4 * MS, 10 * MS)
    builder.kernel(0, MS).kernel(5 * MS, 8 * MS)
    return build_report(trace_of(builder), "0:0.01")


def test_the_mean_step_is_shown_by_role() -> None:
    lines = breakdown_view.render(report_of()).splitlines()
    assert "Step-time breakdown, mean of 2 steps (process 4711)" in lines
    (kernel,) = (line for line in lines if line.startswith("  Kernel"))
    assert kernel.split() == ["Kernel", "2.000", "40.0", "%", "############"]
    (whole,) = (line for line in lines if line.startswith("  step  ") and "%" in line)
    assert whole.split() == ["step", "5.000", "100.0", "%"]


def test_the_roles_have_the_names_and_the_order_of_the_page() -> None:
    text = breakdown_view.render(report_of())
    places = [text.index(f"\n  {label}") for label in breakdown_view.LABELS.values()]
    assert places == sorted(places)


def test_every_step_is_a_line() -> None:
    lines = [line.split() for line in breakdown_view.render(report_of()).splitlines()]
    assert ["step", "0", "4.000", "1.000", *["0.000"] * 6, "3.000"] in lines
    assert ["step", "1", "6.000", "3.000", *["0.000"] * 6, "3.000"] in lines


def test_estimates_are_shown_where_the_report_has_them() -> None:
    report = report_of()
    facts = (Fact("sm_efficiency_estimate_share", 0.25, "share"), Fact("achieved_estimate_share", None, "share"))
    others = tuple(one for one in report.sections if one.key != "occupancy")
    section = Section("occupancy", "Occupancy", report.window, facts)
    text = breakdown_view.render(replace(report, sections=(*others, section)))
    assert re.search(r"Est\. SM Efficiency +25\.0 %", text)
    assert re.search(r"Est\. Achieved Occupancy +not measured", text)
    assert "Est." not in breakdown_view.render(replace(report, sections=others))


def test_each_process_has_its_own_mean() -> None:
    other, main = global_id(99), global_id(99, 99)
    builder = ExportBuilder().range("step 0", 0, MS).kernel(0, MS // 2)
    builder.range("step 0", 0, MS, thread=main).kernel(0, MS // 4, process=other)
    text = breakdown_view.render(build_report(trace_of(builder), "0:0.001"))
    assert [found[1] for found in re.finditer(r"mean of 1 step \(process (\d+)\)", text)] == ["99", "4711"]


def test_without_kernels_it_says_so() -> None:
    assert breakdown_view.render(hand_made.no_gpu_report()).endswith(f"\n\n{breakdown_view.NOTHING}\n")


@pytest.mark.parametrize("width", [60, 100])
def test_no_line_is_wider_than_a_terminal(width: int) -> None:
    lines = breakdown_view.render(report_of(), width=width).splitlines()
    assert max(map(len, lines)) == width
