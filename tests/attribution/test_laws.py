"""Laws of the attribution hold for random traces. The expected values come from counting single nanoseconds."""

from functools import lru_cache

import numpy as np
from analysis_fixtures import run_section, window
from counting import KIND_OF_ROW, Counter, holes, kind_at, work_of
from hypothesis import given
from random_traces import LONGEST, Sketch, context_of, same_examples, sketches

from nsyswrap.base.intervals import gaps
from nsyswrap.model import Section
from nsyswrap.sections import idle, ledger
from nsyswrap.sections.ledger import ROWS, ledger_rows

START, END = -10, LONGEST + 20


@lru_cache(maxsize=64)
def idle_of(sketch: Sketch) -> Section:
    """Return the section on idle time of a sketch. Tests of the same sketch share it."""
    return run_section(idle, context_of(sketch), window(START, END))


@same_examples
@given(sketches)
def test_a_ledger_is_what_counting_gives(sketch: Sketch) -> None:
    """Each nanosecond is in one row: the first that applies of compute, communication, copy, memset and idle.

    All communication counts as transfer, since the ranks are not compared.
    """
    context = context_of(sketch)
    work = work_of(context.trace)
    for device in context.operations.devices:
        counted = [kind_at(work, device, when) for when in range(START, END)]
        found = ledger_rows(context.operations, device, window(START, END))
        assert found == {row: counted.count(KIND_OF_ROW.get(row, "")) for row in ROWS}


@same_examples
@given(sketches)
def test_the_rows_of_a_ledger_add_up_to_its_window(sketch: Sketch) -> None:
    """This holds for windows of one nanosecond, in the middle, and beyond the end of the trace."""
    context = context_of(sketch)
    for start, length in ((20, 1), (7, 30), (LONGEST - 9, 25)):
        section = run_section(ledger, context, window(start, start + length))
        for row in section.tables["devices"].to_dict("records"):
            assert sum(row[name] for name in ROWS) == row["window_ns"] == length
            assert min(row[name] for name in ROWS) >= 0


@same_examples
@given(sketches)
def test_idle_time_is_the_same_in_ledger_attribution_patterns_and_gaps(sketch: Sketch) -> None:
    context, whole = context_of(sketch), window(START, END)
    devices = run_section(ledger, context, whole).tables["devices"].set_index("device_id")["idle_ns"]
    found = idle_of(sketch).tables
    gaps = found["gaps"]
    length = (gaps["end_ns"] - gaps["start_ns"]).groupby(gaps["device_id"]).sum()
    summed = [found[name].groupby("device_id")["idle_ns"].sum() for name in ("attribution", "patterns")]
    assert devices.to_dict() == length.to_dict() == summed[0].to_dict() == summed[1].to_dict()


@same_examples
@given(sketches)
def test_gaps_are_the_complement_of_the_union_of_operations(sketch: Sketch) -> None:
    context = context_of(sketch)
    work = work_of(context.trace)
    for device in context.operations.devices:
        found = gaps(context.operations.busy(device), START, END)
        assert list(zip(found.start.tolist(), found.end.tolist(), strict=True)) == holes(work, device, START, END)


@same_examples
@given(sketches)
def test_the_pieces_of_a_gap_tile_it(sketch: Sketch) -> None:
    """The pieces are sorted, not empty and do not overlap. Adjacent pieces differ in cause, phase or evidence."""
    context = context_of(sketch)
    gaps = idle_of(sketch).tables["gaps"]
    for device in context.operations.devices:
        mine = gaps[gaps["device_id"] == device]
        start, end = mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy()
        assert np.all(start < end)
        assert np.all(end[:-1] <= start[1:])
        touching = np.flatnonzero(end[:-1] == start[1:])
        rows = list(zip(mine["cause"], mine["phase"], mine["evidence"], strict=True))
        assert all(rows[at] != rows[at + 1] for at in touching)


@same_examples
@given(sketches)
def test_busy_time_is_what_counting_gives(sketch: Sketch) -> None:
    operations = context_of(sketch).operations
    for device in operations.devices:
        spans = operations.busy(device)
        mine = operations.on(device)
        pairs = zip(operations.start[mine].tolist(), operations.end[mine].tolist(), strict=True)
        covered = {when for start, end in pairs for when in range(start, end)}
        assert {
            w for s, e in zip(spans.start.tolist(), spans.end.tolist(), strict=True) for w in range(s, e)
        } == covered


@same_examples
@given(sketches)
def test_each_idle_nanosecond_has_the_cause_and_phase_that_the_table_of_causes_gives_it(sketch: Sketch) -> None:
    """A second implementation of the table of causes, without arrays, gives the same causes and phases."""
    context = context_of(sketch)
    gaps = idle_of(sketch).tables["gaps"]
    counter = Counter(context.trace, START, END)
    for device in context.operations.used_in(window(START, END)):
        mine = gaps[gaps["device_id"] == device]
        rows = zip(mine["start_ns"], mine["end_ns"], mine["cause"], mine["phase"], strict=True)
        found = [(when, cause, phase) for start, end, cause, phase in rows for when in range(start, end)]
        assert found == list(counter.causes(device))
