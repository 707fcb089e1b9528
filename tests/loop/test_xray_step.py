"""The X-ray step is taken out of a trace, with all that its calls launched."""

import numpy as np
from export_builder import MAIN, ExportBuilder, global_id, thread, trace_of

from nsyswrap.loop.xray_step import without_xray
from nsyswrap.trace import tables


def observed() -> ExportBuilder:
    """Return a step and an X-ray step of one process, beside another process.

    ::

        steps      |step 0      |step 1, X-ray|
        launches      a             b (by autograd's thread, runs later)
        other              c            d
    """
    other = global_id(99)
    builder = ExportBuilder().domain("nsyswrap", 3).range("step 0", 0, 100).range("step 1", 100, 200)
    builder.range("xray", 100, 200, domain=3).range("epoch", 0, 300)
    builder.kernel(20, 30, "a", launched=(10, 12)).kernel(250, 260, "b", launched=(150, 152), thread=thread(5))
    for at in (50, 160):
        builder.kernel(at, at + 5, "other", process=other, launched=(at - 5, at - 4), thread=other | 99)
    return builder.os_call("read", 110, 120)


def test_what_the_xray_step_launched_goes_with_it() -> None:
    """Also by another thread, and where it runs later. Another process keeps all of its own."""
    trace, xray = without_xray(trace_of(observed()))
    assert xray is not None
    assert trace[tables.KERNELS]["start"].tolist() == [20, 50, 160]
    assert xray[tables.KERNELS]["start"].tolist() == [250]
    assert trace[tables.CALLS]["start"].tolist() == [10, 45, 155]
    assert not len(trace[tables.OS_CALLS])


def test_ranges_around_the_xray_step_stay() -> None:
    """Those that begin in it go."""
    trace, _ = without_xray(trace_of(observed()))
    assert set(trace[tables.RANGES]["text"].astype(str)) == {"step 0", "epoch"}


def test_a_range_of_the_program_with_the_same_text_is_none() -> None:
    """Only those in our domain count; without one, the trace is as it was."""
    trace = trace_of(ExportBuilder().range("xray", 0, 100, thread=MAIN).kernel(20, 30, launched=(10, 12)))
    assert without_xray(trace) == (trace, None)


def test_rows_are_in_one_of_both_parts() -> None:
    """Of each table that has any."""
    whole = trace_of(observed())
    parts = without_xray(whole)
    for spec in tables.SPECS:
        assert sum(len(each[spec]) for each in parts if each is not None) == len(whole[spec]) or not len(whole[spec])
    assert np.all(np.diff(parts[0][tables.KERNELS]["start"]) >= 0)
