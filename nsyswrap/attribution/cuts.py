"""Cut intervals of time where a label changes.

::

    spans     |-----------------|   |------|
    labels         |aaaaa|bbb|   |cccc|
    cut       |----|aaaaa|bbb|--|   |c|----|
"""

import numpy as np
import numpy.typing as npt

from nsyswrap.base.intervals import Indices, LabelledSpans, Spans, Times, places, within

Codes = npt.NDArray[np.int32]


def cut(spans: Spans, labels: LabelledSpans, otherwise: int) -> tuple[Indices, Codes, Times, Times]:
    """Return the parts of some spans between the changes of their label.

    Returns:
        Four arrays with one row for each part, in order of time: index of its span, its label, start and end in ns.
    """
    count = len(spans.start)
    if not count:
        return np.empty(0, np.intp), np.empty(0, np.int32), spans.start, spans.end
    near = within(labels, int(spans.start[0]), int(spans.end[-1]))
    # The times at which the label changes, and the labels before, between and after them.
    edge = np.empty(2 * len(near.code), np.int64)
    edge[0::2], edge[1::2] = near.spans
    code = np.full(len(edge) + 1, otherwise, np.int32)
    code[1::2] = near.code
    # Where one span begins at the end of another, there is no time between them.
    real = np.append(edge[1:] > edge[:-1], True)[: len(edge)]
    edge, code = edge[real], np.append(code[:1], code[1:][real])
    # The last span that starts before an edge is cut there if it ends later.
    part = np.searchsorted(spans.start, edge, side="left") - 1
    inside = np.flatnonzero((part >= 0) & (edge < spans.end[part]))
    if not len(inside):
        return np.arange(count), code[places(edge, spans.start)], spans.start, spans.end
    place = part[inside]
    part = np.repeat(np.arange(count), 1 + np.bincount(place, minlength=count))
    start, end = spans.start[part], spans.end[part]
    place += np.arange(1, len(place) + 1)
    start[place] = end[place - 1] = edge[inside]
    return part, code[places(edge, start)], start, end
