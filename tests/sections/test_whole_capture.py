"""The section on all of a capture: its rows are the ledgers, and it is only made for a part."""

from dataclasses import replace

import pytest
from export_builder import ExportBuilder, trace_of

from nsyswrap.base.excerpt import Excerpt, WholeLedger
from nsyswrap.loop.context import find_context
from nsyswrap.report import report_of
from nsyswrap.sections import whole_capture

LEDGERS = (
    WholeLedger(0, False, 0, 1_000, 400, 100, 50, 0, 90),  # noqa: FBT003 - a field
    WholeLedger(0, True, 100, 900, 300, 100, 0, 0, 60),  # noqa: FBT003 - a field
)
EXCERPT = Excerpt(90, 310, (0, 1_000), False, 3, 90, 9 * 10**9, 10**9, LEDGERS)  # noqa: FBT003 - a field


def steps() -> ExportBuilder:
    """Return five steps of 100 ns, each with a kernel."""
    builder = ExportBuilder()
    for number in range(5):
        at = 100 * number
        builder.range(f"step {number}", at, at + 90).kernel(at + 10, at + 60, launched=(at, at + 5))
    return builder


def test_the_rows_are_the_ledgers() -> None:
    context = find_context(replace(trace_of(steps()), excerpt=EXCERPT))
    found = whole_capture.run(context)
    rows = found.tables["gpus"].to_dict("records")
    assert [row["interval"] for row in rows] == ["all operations", "all measured steps"]
    assert [row["idle_ns"] for row in rows] == [450, 400]
    assert all(row["window_ns"] == sum(value for key, value in row.items() if key in PARTS) for row in rows)
    assert (found.window.start_ns, found.window.end_ns) == (0, 1_000)
    read = found.fact("read")
    assert read is not None
    assert read.value == "3 of 90 GPU operations, measured step 1 of 3"


PARTS = ("compute_ns", "communication_ns", "copy_exposed_ns", "memset_exposed_ns", "idle_ns")


def test_the_report_is_about_the_steps_inside() -> None:
    """Steps 0 and 1 are warm-up; step 2 lies inside the part."""
    report = report_of(find_context(replace(trace_of(steps()), excerpt=EXCERPT)))
    assert (report.window.start_ns, report.window.end_ns) == (200, 290)
    assert [section.key for section in report.sections][:2] == ["ledger", "whole_capture"]
    assert report.notes[0].startswith("This report is about 3 of 90 GPU operations, measured step 1 of 3: reading all")


def test_a_whole_capture_has_no_such_section() -> None:
    context = find_context(trace_of(steps()))
    assert report_of(context).section("whole_capture") is None
    with pytest.raises(ValueError, match="all of the capture"):
        whole_capture.run(context)
