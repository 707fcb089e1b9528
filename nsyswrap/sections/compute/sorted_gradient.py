"""Backward passes of lookups that sort: of embeddings, and of tensors that are indexed by other tensors.

::

    forward     tokens[index]              rows are copied, some of them several times
    backward    sort index | find equal ones | add up the rows of each      a dozen kernels
    index_add   add each row to its place                                   one kernel, with atomic additions

The sort makes the result the same in each run. ``index_select`` has ``index_add`` as its backward pass, which does not
sort. Equal indices delay one another there, so it may save nothing: wide rows cost more to add than their indices to
sort. Source: Embedding.cu, EmbeddingBackwardKernel.cu and Indexing.cu of PyTorch: up to 3,072 indices are not sorted.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from nsyswrap.base import units
from nsyswrap.events.xray_record import Tensor
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Finding
from nsyswrap.operators.join import JoinedKernels
from nsyswrap.operators.observed_calls import OperatorCall
from nsyswrap.operators.work import plain
from nsyswrap.rules import compute
from nsyswrap.sections.compute.operator_kernels import USUAL_SHARE, OperatorWindow, fewer, inputs, memory_rate

LOOKUPS = frozenset({"embedding_dense_backward", "_embedding_bag_dense_backward", "_index_put_impl_", "index_put_"})
SORT = "RadixSort"
# A row is read, and its place is read and written.
MOVED = 3
ADDITIONS = frozenset({"index_add", "index_add_", "scatter_add", "scatter_add_"})


def find_findings(found: OperatorWindow) -> tuple[Finding, ...]:
    """Return a finding where such backward passes take enough of the window."""
    joined, context = found.joined, found.context
    sorting = calls_that_sort(context, joined)
    group = np.full(len(joined.calls), -1, np.intp)
    group[sorting] = sorting
    mine = joined.exact & (np.append(group, -1)[joined.call] >= 0)
    change = partial(
        fewer,
        joined,
        group,
        dict(_remain(context, joined, sorting)),
        "rows are added to their places without a sort, at the pace of other additions in this capture, else at "
        f"{units.share(USUAL_SHARE)} of the memory's peak",
        or_nothing=True,
    )
    return found.finding(compute.SORTED_GRADIENT, mine, change, is_usual=True)


def calls_that_sort(context: TraceContext, joined: JoinedKernels) -> list[int]:
    """Return the calls of such operators that launch kernels which sort."""
    names = context.kernel_names
    sorts = np.array([SORT in each.name for each in names.kinds], bool)
    code = names.code[joined.rows]
    mine = joined.exact & (code >= 0) & np.append(sorts, False)[code]
    calls = np.unique(joined.call[mine]).tolist()
    return [at for at in calls if at >= 0 and plain(joined.calls[at].name) in LOOKUPS]


def _gradient(call: OperatorCall) -> Tensor:
    """Return the rows that a call adds up: its largest tensor of numbers with a point."""
    found = [each for each in inputs(call) if each.dtype.startswith(("float", "bfloat"))]
    # What is changed comes first.
    return max(found[1:] or found, key=lambda each: each.elements, default=Tensor(()))


def _remain(context: TraceContext, joined: JoinedKernels, sorting: list[int]) -> Iterator[tuple[int, float]]:
    """Yield for each call the share of its time that the additions take; all of it where that is not known."""
    others = [_moved(joined, at) for at, each in enumerate(joined.calls) if plain(each.name) in ADDITIONS]
    their_ns = sum(ns for _, ns in others)
    rate = (sum(moved for moved, _ in others) / their_ns if their_ns else 0.0) or memory_rate(context) * USUAL_SHARE
    for at in sorting:
        moved, own = _moved(joined, at)
        yield at, min(moved / rate / max(own, 1), 1.0) if rate else 1.0


def _moved(joined: JoinedKernels, at: int) -> tuple[float, int]:
    """Return the bytes that the additions of a call move in all steps, and the time of the call in ns."""
    mine = (joined.call == at) & joined.exact
    return MOVED * (_gradient(joined.calls[at]).bytes or 0) * float(joined.part[mine].sum()), int(
        joined.own_ns[mine].sum()
    )
