"""Spans are cut exactly where their label changes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.attribution.causes import cut
from nsyswrap.base.intervals import LabelledSpans, Spans

OTHERWISE = 9
LENGTH = 24

# The label of each nanosecond; -1 stands for no label.
marks = st.lists(st.sampled_from([-1, 0, 1, 2]), min_size=LENGTH, max_size=LENGTH)


def spans_of(codes: list[int]) -> LabelledSpans:
    """Return the runs of equal codes as labelled spans; -1 is no span."""
    code = np.array([-1, *codes, -1], np.int32)
    at = np.flatnonzero(code[1:] != code[:-1]) + 1
    start, end = at[:-1], at[1:]
    real = code[start] >= 0
    return LabelledSpans(Spans(start[real] - 1, end[real] - 1), code[start][real])


@given(spans=marks, labels=marks)
def test_each_nanosecond_of_a_span_keeps_its_label(spans: list[int], labels: list[int]) -> None:
    whole, label = spans_of(spans).spans, spans_of(labels)
    part, code, start, end = cut(whole, label, OTHERWISE)
    assert np.all(end > start)
    assert np.all(start[1:] >= end[:-1])
    for index, of_span in enumerate(part.tolist()):
        inside = labels[int(start[index]) : int(end[index])]
        assert {OTHERWISE if each < 0 else each for each in inside} == {int(code[index])}
        assert whole.start[of_span] <= start[index]
        assert end[index] <= whole.end[of_span]
    assert int((end - start).sum()) == int((whole.end - whole.start).sum())


@given(spans=marks, labels=marks)
def test_a_span_is_cut_nowhere_else(spans: list[int], labels: list[int]) -> None:
    whole, label = spans_of(spans).spans, spans_of(labels)
    part, _, start, _ = cut(whole, label, OTHERWISE)
    changes = {*label.spans.start.tolist(), *label.spans.end.tolist(), *whole.start.tolist()}
    assert set(start.tolist()) <= changes
    assert sorted(set(part.tolist())) == list(range(len(whole.start)))
