"""Samples of Python's stack are recognised among the marks and read into a table and stacks."""

import pytest
from export_builder import MAIN, MARK, ExportBuilder, thread, trace_of

from nsyswrap.trace.tables import Frame, Trace

INNER, OUTER = ("transform", "/srv/app/data.py", 42), ("<module>", "/srv/app/train.py", 7)


def samples(trace: Trace) -> list[tuple[int, int, tuple[Frame, ...]]]:
    """Return time, thread and stack of each sample."""
    frame = trace.frames["samples"]
    stacks = [trace.stacks[code] for code in frame["stack"]]
    return list(zip(frame["start"].tolist(), frame["thread"].tolist(), stacks, strict=True))


def test_a_sample_has_its_time_thread_and_stack() -> None:
    trace = trace_of(ExportBuilder().python_sample(5, [INNER, OUTER], thread=thread(9)))
    assert samples(trace) == [(5, thread(9), (Frame(*INNER), Frame(*OUTER)))]


def test_equal_stacks_share_a_code() -> None:
    """Equal stacks have the same code, whatever the state of the thread is."""
    builder = (
        ExportBuilder().python_sample(5, [INNER]).python_sample(6, [OUTER]).python_sample(7, [INNER], "Blocking Wait")
    )
    trace = trace_of(builder)
    assert trace.frames["samples"]["stack"].tolist() == [0, 1, 0]
    assert len(trace.stacks) == 2


def test_home_folders_are_not_kept() -> None:
    trace = trace_of(ExportBuilder().python_sample(5, [("f", "/home/ann/train.py", 1)]))
    assert trace.stacks[0][0].file == "~/train.py"


def test_a_text_the_export_lacks_shows_its_id() -> None:
    stack = '"Frames":[{"Function":901,"File":902,"Line":3}]'
    payload = f'{{"Python Periodic Sampling":{{"Thread state ID":1,"Thread state":"Running",{stack}}}}}'
    trace = trace_of(ExportBuilder().kernel(1, 2).python_sample(5, [], jsonText=payload))
    assert trace.stacks == ((Frame("[id 901]", "[id 902]", 3),),)


@pytest.mark.parametrize(
    "payload",
    [
        '{"Python Periodic Sampling":{}}',
        '{"Python Periodic Sampling":{"Frames":[]}}',
        '{"Python Periodic Sampling":{"Frames":[{"Function":1}]}}',
        '{"Python Periodic Sampling":{"Frames":[{"Function":1,"File":2,"Line":-3}]}}',
        '{"Python Periodic Sampling":{"Frames":[{"Function":1e99,"File":2,"Line":3}]}}',
        '{"Python Periodic Sampling":' + "[" * 100_000,
        '{"Python Periodic Sampling":',
    ],
)
def test_a_payload_of_another_form_is_left_out_and_counted(payload: str) -> None:
    trace = trace_of(ExportBuilder().python_sample(5, [], jsonText=payload).python_sample(6, [OUTER]))
    assert [start for start, *_ in samples(trace)] == [6]
    assert trace.dropped == {"samples of Python's stack that cannot be read": 1}


def test_other_marks_are_not_samples() -> None:
    builder = ExportBuilder().row("NVTX_EVENTS", start=1, kind=MARK, thread=MAIN, text="checkpoint")
    builder.row("NVTX_EVENTS", start=2, kind=MARK, thread=MAIN, jsonText='{"loss": 0.5}')
    trace = trace_of(builder)
    assert (samples(trace), trace.dropped) == ([], {})
