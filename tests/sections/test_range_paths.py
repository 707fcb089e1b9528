"""Kernels by operator and by path of the program's ranges."""

from collections.abc import Callable

from analysis_fixtures import run_section, window
from export_builder import ExportBuilder, trace_of

from nsyswrap.loop.context import find_context
from nsyswrap.model import Section
from nsyswrap.report import build_report
from nsyswrap.sections import ranges
from nsyswrap.trace.tables import Trace


def section(trace: Trace) -> Section:
    """Return the section on ranges."""
    return run_section(ranges, find_context(trace), window(0, 1_000))


def marked() -> ExportBuilder:
    """Return a forward pass with two modules, one in the other, and operators in them.

    ::

        forward  |--------------------------------|
        block      |-----------------------|
        attention    |---------|
        aten::mm      |-----|    |-----|     (calls 1 and 2)
        launches        k1         k2    k3    k4
    """
    builder = ExportBuilder().range("forward", 0, 100).range("block", 5, 60).range("attention", 6, 30)
    builder = builder.range("aten::linear, op_id = 1", 8, 28).range("aten::mm, op_id = 2", 9, 20)
    builder = builder.range("aten::mm, op_id = 7", 32, 42)
    for start, at in ((200, 10), (300, 35), (400, 50), (500, 70)):
        builder = builder.kernel(start, start + at, launched=(at, at + 1))
    return builder


def test_a_kernel_belongs_to_the_innermost_operator_without_the_numbers_of_the_call() -> None:
    table = section(trace_of(marked())).tables["operators"]
    assert table[["operator", "count", "total_ns"]].to_numpy().tolist() == [["aten::mm", 2, 45]]


def test_modules_have_the_kernels_below_them_and_their_own() -> None:
    """Phases and operators are no modules; the last kernel is in none."""
    table = section(trace_of(marked())).tables["modules"]
    assert table.to_numpy().tolist() == [["block", 3, 95, 85], ["block / attention", 1, 10, 10]]


def test_without_such_ranges_the_tables_are_empty() -> None:
    builder = ExportBuilder().range("forward", 0, 100).kernel(200, 210, launched=(10, 11))
    found = section(trace_of(builder)).tables
    assert found["operators"].empty
    assert found["modules"].empty


def test_operators_of_a_real_capture_have_no_more_time_than_its_kernels(real_trace: Callable[[str], Trace]) -> None:
    """Of a capture with nsys's operators, most kernels have one."""
    report = build_report(real_trace("cnn_amp_autograd_ranges"))
    found, kernels = report.section("ranges"), report.section("kernels")
    assert found is not None
    assert kernels is not None
    table, whole = found.tables["operators"], kernels.tables["summary"]["total_ns"].sum()
    assert 0.5 * whole < table["total_ns"].sum() <= 1.02 * whole
    assert "aten::cudnn_convolution" in set(table["operator"])
    assert not table["operator"].str.contains("op_id").any()
