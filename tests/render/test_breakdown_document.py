"""The view `breakdown`: the mean step by role, GPU utilization, and every step."""

import re
from dataclasses import replace

import hand_made
from export_builder import ExportBuilder, global_id, trace_of

from nsyswrap.model import Fact, Report, Section
from nsyswrap.render import breakdown_document, documents
from nsyswrap.report import build_report

MS = 1_000_000


def report_of() -> Report:
    """Return the report of two steps of 4 and 6 ms, in which kernels take 1 and 3 ms."""
    builder = ExportBuilder().gpu().range("step 0", 0, 4 * MS).range("step 1", 4 * MS, 10 * MS)
    builder.kernel(0, MS).kernel(5 * MS, 8 * MS)
    return build_report(trace_of(builder), "0:0.01")


def text_of(report: Report) -> str:
    return documents.render("breakdown", "text", report, width=200)


def test_the_mean_step_is_shown_by_role() -> None:
    text = text_of(report_of())
    assert "MEAN OF 2 STEPS, PROCESS 4711" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["Kernel", "2.00", "ms", "40.0", "%", "############"] in lines
    assert ["step", "5.00", "ms", "100.0", "%"] in lines


def test_the_roles_have_the_names_and_the_order_of_the_page() -> None:
    text = text_of(report_of())
    places = [text.index(f"\n  {label}") for label in breakdown_document.LABELS.values()]
    assert places == sorted(places)


def test_every_step_is_a_line() -> None:
    lines = [line.split() for line in text_of(report_of()).splitlines()]
    assert ["step", "0", "4.00", "ms", "1.00", "ms", *["0"] * 6, "3.00", "ms"] in lines
    assert ["step", "1", "6.00", "ms", "3.00", "ms", *["0"] * 6, "3.00", "ms"] in lines


def test_utilization_is_shown_for_each_gpu_and_estimates_where_the_report_has_them() -> None:
    report = report_of()
    facts = (Fact("sm_efficiency_estimate_share", 0.25, "share"), Fact("achieved_estimate_share", None, "share"))
    others = tuple(one for one in report.sections if one.key != "occupancy")
    section = Section("occupancy", "Occupancy", report.window, facts)
    text = text_of(replace(report, sections=(*others, section)))
    assert "GPU Utilization, GPU 0 40.0 %; Est. SM Efficiency 25.0 %; Est. Achieved Occupancy not measured." in text
    assert "Est." not in text_of(replace(report, sections=others))


def test_each_process_has_its_own_mean() -> None:
    other, main = global_id(99), global_id(99, 99)
    builder = ExportBuilder().range("step 0", 0, MS).kernel(0, MS // 2)
    builder.range("step 0", 0, MS, thread=main).kernel(0, MS // 4, process=other)
    text = text_of(build_report(trace_of(builder), "0:0.001"))
    assert [found[1] for found in re.finditer(r"MEAN OF 1 STEP, PROCESS (\d+)", text)] == ["99", "4711"]


def test_without_kernels_it_says_so() -> None:
    assert breakdown_document.NOTHING in text_of(hand_made.no_gpu_report())


def test_notes_are_shown() -> None:
    text = text_of(build_report(trace_of(ExportBuilder().kernel(0, 10)), "all"))
    assert "No step lies inside the window" in text
