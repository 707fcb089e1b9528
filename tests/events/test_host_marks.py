"""Marks of nsyswrap in a capture are found by their domain and text, with or without a line."""

from export_builder import MAIN, ExportBuilder, thread, trace_of

from nsyswrap.capture.annotate import marks as program
from nsyswrap.capture.annotate.torch_marks import WATCHED
from nsyswrap.events import api_calls, host_record
from nsyswrap.events.host_record import find_marks, spans_of
from nsyswrap.trace.tables import array

OURS = 7


def marked() -> ExportBuilder:
    """A capture with two marks, and ranges of the program with the same texts."""
    builder = ExportBuilder().gpu().domain("nsyswrap", OURS).range("torch.save", 0, 90)
    builder.range("torch.save at train.py:8", 10, 20, domain=OURS)
    builder.range("garbage collection", 30, 35, domain=OURS, thread=thread(5))
    return builder.range("forward", 40, 50, domain=OURS)


def test_marks_are_ranges_of_our_domain_with_known_texts() -> None:
    found = find_marks(trace_of(marked()))
    assert found["text"].tolist() == ["torch.save at train.py:8", "garbage collection"]
    assert found["kind"].tolist() == [api_calls.CHECKPOINT, api_calls.GARBAGE_COLLECTION]


def test_spans_are_those_of_one_thread_and_kind() -> None:
    found = find_marks(trace_of(marked()))
    assert [side.tolist() for side in spans_of(found, MAIN, [api_calls.CHECKPOINT])] == [[10], [20]]
    assert not len(spans_of(found, MAIN, [api_calls.GARBAGE_COLLECTION]).start)


def test_a_capture_without_marks_has_none() -> None:
    found = find_marks(trace_of(ExportBuilder().gpu().range("torch.save", 0, 90)))
    assert not len(array(found, "start"))
    assert list(found) == ["start", "end", "thread", "text", "kind"]


def test_what_the_program_marks_is_known_here() -> None:
    """The module that runs in the program cannot be imported here, so both modules hold the texts."""
    assert {each.text for each in WATCHED if each.text} | {program.COLLECTION} == set(host_record.KINDS)
    assert program.AT == host_record.AT
