"""Laws of the whole report on random traces: it depends neither on row order nor on the start, and parts add up."""

from functools import lru_cache

import pandas as pd
from hypothesis import example, given
from hypothesis import strategies as st
from random_traces import (
    LONGEST,
    THREADS,
    Operation,
    Sketch,
    context_of,
    random_trace,
    same_examples,
    several,
    sketches,
)
from savings import ends_of

from nsyswrap.base.intervals import Spans
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.range_nesting import RangeNesting
from nsyswrap.model import Report
from nsyswrap.render import render
from nsyswrap.render.json_reader import parse_report
from nsyswrap.report import build_report
from nsyswrap.sections.ledger import ROWS
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, array, coded

START, END = -40, LONGEST + 60
SHIFTS = (-1_000, 61, 10**10)
MOMENTS = {"start_ns", "end_ns", "arrival_ns"}


def report_from(trace: Trace, shift: int = 0) -> Report:
    """Return the report of a whole trace; its bounds in seconds have nine decimals, so they are exact."""
    return build_report(trace, f"{(START + shift) / 1e9:.9f}:{(END + shift) / 1e9:.9f}")


@lru_cache(maxsize=64)
def report_of(sketch: Sketch) -> Report:
    """Return the report of a sketch; laws of the same sketch share it."""
    return report_from(random_trace(sketch))


def numbers(report: Report, shift: int) -> dict[str, object]:
    """Return all numbers of a report, with times reduced by ``shift``, but without evidence, which has times, too."""
    found: dict[str, object] = {}
    for section in report.sections:
        found[section.key] = section.facts
        for name, table in section.tables.items():
            moments = [column for column in table.columns if column in MOMENTS]
            early = table.assign(**{c: table[c] - shift for c in moments})
            # None equals itself, NaN does not.
            found[f"{section.key}/{name}"] = early.astype(object).where(early.notna(), None).to_dict("list")
    found["findings"] = [(each.rule, each.device_id, each.lost_ns, *ends_of(each)) for each in report.findings]
    return found


def launched_together() -> Sketch:
    """Return two kernels whose calls start in the same nanosecond, on the same thread."""
    one, other = (Operation("kernel", "gemm", start, 0, 0, 7, THREADS[0], (1, 0), pageable=False) for start in (1, 2))
    return Sketch((one, other), (), (), loader=False)


@several
@same_examples
@given(sketches)
@example(launched_together())
def test_the_order_of_rows_does_not_matter(sketch: Sketch) -> None:
    """New versions of nsys do not guarantee an order of rows."""
    assert render("json", report_from(random_trace(sketch, shuffle=0))) == render("json", report_of(sketch))


@several
@same_examples
@given(sketches)
def test_what_is_written_is_read_again(sketch: Sketch) -> None:
    """A report.json is read back as the report that it was written from, so that it has the same bytes again."""
    text = render("json", report_of(sketch))
    assert render("json", parse_report(text, "report.json")) == text


@several
@same_examples
@given(sketches)
def test_the_start_of_time_does_not_matter(sketch: Sketch) -> None:
    """The same events have the same durations when they come later or earlier, or before the capture begins."""
    shift = SHIFTS[(len(sketch.operations) + len(sketch.events)) % len(SHIFTS)]
    here, there = report_of(sketch), report_from(random_trace(sketch, shift), shift)
    assert numbers(there, shift) == numbers(here, 0)


@several
@same_examples
@given(sketches)
def test_the_ledgers_of_steps_add_up_to_their_lengths(sketch: Sketch) -> None:
    section = report_of(sketch).section("steps")
    table = section.tables["steps"] if section else pd.DataFrame()
    for row in table.to_dict("records"):
        assert sum(row[name] for name in ROWS) == row["end_ns"] - row["start_ns"]
        assert min(row[name] for name in ROWS) >= 0


@several
@same_examples
@given(sketches)
def test_verdicts_of_kernels_add_up_to_all_kernels(sketch: Sketch) -> None:
    """They do so in the facts, in the table of kernels, and over the phases."""
    section = report_of(sketch).section("tensor_cores")
    assert section is not None
    fact = {each.label: each.value for each in section.facts}
    parts = ("tensor_ns", "unknown_ns", "simt_eligible_ns", "not_eligible_ns")
    assert sum(int(fact[part] or 0) for part in parts) == fact["kernel_ns"]
    assert section.tables["kernels"]["total_ns"].sum() == fact["kernel_ns"]
    assert section.tables["phases"]["kernel_ns"].sum() == fact["kernel_ns"]


@several
@same_examples
@given(sketches)
def test_every_section_is_about_the_window_of_the_report(sketch: Sketch) -> None:
    report = report_of(sketch)
    assert {section.window for section in report.sections} == {report.window}
    assert {finding.window for finding in report.findings} <= {report.window}


@several
@same_examples
@given(sketches)
def test_the_ranges_around_a_call_are_those_that_contain_it(sketch: Sketch) -> None:
    """Only ranges on the call's own thread count; each is found once, even if ranges cross or have no length."""
    trace = random_trace(sketch)
    calls, ranges = trace[tables.CALLS], trace[tables.RANGES]
    thread, start, end = (array(calls, name) for name in ("thread", "start", "end"))
    pairs = RangeNesting(ranges).enclosing(coded(calls, "thread"), lambda some: Spans(start[some], end[some]))
    found = [pair for which, rows in pairs for pair in zip(which, rows, strict=True)]
    wanted = [
        (call, row)
        for call in range(len(calls))
        for row, each in enumerate(ranges.to_dict("records"))
        if each["thread"] == thread[call] and each["start"] <= start[call] and end[call] <= each["end"]
        if each["start"] < each["end"]
    ]
    assert sorted(found) == wanted


@several
@same_examples
@given(sketches)
def test_a_projection_is_the_operations_of_the_ranges_of_that_name(sketch: Sketch) -> None:
    """Number of operations, envelope and union equal counts range by range, on the range's thread and on any thread."""
    section = report_of(sketch).section("ranges")
    rows = [] if section is None else section.tables["projection"].to_dict("records")
    own = {row["name"]: [row["operation_count"], row["envelope_ns"], row["busy_ns"]] for row in rows if row["count"]}
    columns = ("operation_count_any_thread", "envelope_any_thread_ns", "busy_any_thread_ns")
    assert own == counted(context_of(sketch), any_thread=False)
    on_any = {row["name"]: [row[column] for column in columns] for row in rows}
    assert on_any == counted(context_of(sketch), any_thread=True)


def counted(context: TraceContext, *, any_thread: bool) -> dict[str, list[int]]:
    """Return number, envelope and union of operations by name of range, one range after the other."""
    trace = context.trace
    ranges = [row for row in trace[tables.RANGES].to_dict("records") if row["start"] < row["end"]]
    launches = [
        (calls["thread"], calls["start"], calls["end"], int(start), int(end))
        for call, start, end in zip(
            context.operations.call, context.operations.start, context.operations.end, strict=True
        )
        if call >= 0
        for calls in [trace[tables.CALLS].iloc[call]]
    ]
    found: dict[str, list[int]] = {}
    for row in ranges:
        inside = []
        for thread, begun, done, start, end in launches:
            process = int(thread) & ~tables.THREAD_MASK
            main = context.phases.main_thread.get(process, process | tables.pid(process))
            alone = not any(each["thread"] == thread and each["start"] <= begun < each["end"] for each in ranges)
            handed = any_thread and thread != main and row["thread"] == main and alone
            if (row["thread"] == thread or handed) and row["start"] <= begun and done <= row["end"]:
                inside.append((start, end))
        if inside:
            envelope = max(end for _, end in inside) - min(start for start, _ in inside)
            busy = len({when for start, end in inside for when in range(start, end)})
            before = found.get(row["text"], [0, 0, 0])
            sums = zip(before, (len(inside), envelope, busy), strict=True)
            found[row["text"]] = [old + new for old, new in sums]
    return found


durations = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 10**12)), min_size=1, max_size=40)
