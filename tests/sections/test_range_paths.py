"""Kernels by path of the program's ranges."""

from analysis_fixtures import run_section, window
from export_builder import ExportBuilder, trace_of

from nsyswrap.loop.context import find_context
from nsyswrap.model import Section
from nsyswrap.sections import ranges
from nsyswrap.trace.tables import Trace


def section(trace: Trace) -> Section:
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


def test_modules_have_the_kernels_below_them_and_their_own() -> None:
    """Phases and operators are no modules; the last kernel is in none."""
    table = section(trace_of(marked())).tables["modules"]
    assert table.to_numpy().tolist() == [["block", 3, 95, 85], ["block / attention", 1, 10, 10]]


def test_without_such_ranges_the_table_is_empty() -> None:
    builder = ExportBuilder().range("forward", 0, 100).kernel(200, 210, launched=(10, 11))
    found = section(trace_of(builder)).tables
    assert found["modules"].empty
