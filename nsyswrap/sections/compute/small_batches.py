"""Modules that a step calls many times with little data each: micro-batches that are too small, and loops over samples.

::

    as it is    |read weights, 64 rows|read weights, 64 rows|read weights, 64 rows| ...
    one batch   |read weights, 2,048 rows                      |

A product of few rows takes as long as its weights take to read, and each further kernel as long as a small one takes.
Calls are of one kind where module, line, operator and shapes are the same, and products take the same weights. A call
that takes what the one before it returned, as a recurrent cell or a repeated layer does, cannot be made at once with
it. Weights that autocast casts count as the weights themselves.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nsyswrap.base import units
from nsyswrap.base.intervals import Indices, Spans, containing, merge
from nsyswrap.events.xray_record import Tensor
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Finding
from nsyswrap.operators.fused_names import fused_operators
from nsyswrap.operators.join import JoinedKernels
from nsyswrap.operators.observed_calls import BACKWARD, RECOMPUTED, OperatorCall
from nsyswrap.operators.peak import KernelRates, find_rates
from nsyswrap.operators.work import plain
from nsyswrap.rules import compute
from nsyswrap.rules.program_kind import Wording
from nsyswrap.sections.compute.operator_kernels import (
    USUAL_SHARE,
    OperatorWindow,
    fewer,
    inputs,
    is_inside,
    memory_rate,
    outputs,
)
from nsyswrap.sections.compute.passed_tensors import read, written
from nsyswrap.sections.step_memory import find_step_memory
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, coded
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation

# Fewer calls of one kind are usual: twin networks, an image at two sizes, a step with a few micro-batches. Ours.
LEAST_CALLS = 4
SUMS, CASTS = frozenset({"add", "add_"}), frozenset({"copy_", "_to_copy"})
Amounts = npt.NDArray[np.float64]


class CallKind(NamedTuple):
    """What calls of one kind share; those that a module makes several times have a turn each."""

    module: str
    line: str
    name: str
    role: str
    shapes: str
    turn: int = 0

    @classmethod
    def of(cls, call: OperatorCall) -> "CallKind":
        """Return the kind of a call."""
        return cls(call.module, call.line, call.name, call.role, call.shapes)


class Repeated(NamedTuple):
    """The calls that could be one.

    Attributes:
        times: How often a step calls the modules.
        sums: The calls that add up the gradients of the weights of all.
        kept: The memory of each call's tensors that the step reads before it writes it, with the tensor.
    """

    times: int
    kinds: Sequence[Sequence[int]]
    sums: Sequence[int]
    kept: Sequence[dict[int, Tensor]]


def find_findings(found: OperatorWindow) -> tuple[Finding, ...]:
    """Return a finding where many small calls of the same modules take enough of the window."""
    context, joined = found.context, found.joined
    if context.xray is None or (repeated := find_repeated(joined.calls)) is None:
        return ()
    group = np.full(len(joined.calls), -1, np.intp)
    group[list(repeated.sums)] = len(repeated.kinds)
    for number, calls in enumerate(repeated.kinds):
        group[list(calls)] = number
    remain = dict(_remain(context, joined, find_rates(context, joined), repeated))
    count, step = units.count(repeated.times), find_step_memory(context)
    room = f" There is room for {step.growth} times as much." if step and step.growth else ""
    return found.finding(
        compute.SMALL_BATCHES,
        joined.exact & (np.append(group, -1)[joined.call] >= 0),
        partial(_at_once, joined, group, remain, repeated.times),
        words={"count": count},
        advice=compute.SMALL_BATCHES.advice.format(count=count) + Wording(room, ""),
        is_usual=True,
    )


def find_repeated(calls: Sequence[OperatorCall]) -> Repeated | None:
    """Return the calls of the costliest modules that a step calls many times; None where there are none."""
    # Inside a compiled function the tensors of generated kernels are not known, and layers share their memory.
    compiled = {
        each.module for each in calls if each.name and (not each.operator or fused_operators(each.operator.name))
    }
    forward = [at for at, each in enumerate(calls) if not each.role and each.module not in compiled]
    kept, chained = _kept(calls), _chained(calls, forward)
    alike: dict[tuple[CallKind, int], list[int]] = {}
    for at in forward:
        if (work := calls[at].work) is not None and work.is_product:
            for weight, tensor in kept[at].items():
                if len(tensor.shape) > 1:
                    alike.setdefault((CallKind.of(calls[at]), weight), []).append(at)
    products = {key: its for key, its in alike.items() if len(its) >= LEAST_CALLS and key[0] not in chained}
    if not products:
        return None
    count = Counter(map(len, products.values())).most_common(1)[0][0]
    chosen = {key: its for key, its in products.items() if len(its) == count}
    paths = [kind.module.split(".") for kind, _ in chosen]
    outer = ".".join(each[0] for each in takewhile(lambda names: len(set(names)) == 1, zip(*paths, strict=False)))
    shapes = {_sorted(kept[its[0]][weight]) for (_, weight), its in chosen.items()}
    of_kind: dict[CallKind, list[int]] = {}
    sums = []
    for at, call in enumerate(calls):
        if call.role == BACKWARD and plain(call.name) in SUMS and any(_sorted(each) in shapes for each in inputs(call)):
            sums.append(at)
        elif call.role != RECOMPUTED:
            of_kind.setdefault(CallKind.of(call), []).append(at)
    kinds = [
        its[turn :: len(its) // count]
        for kind, its in of_kind.items()
        if len(its) % count == 0
        and kind not in chained
        and (len(its) == count or (kind.module and is_inside(kind.module, outer)))
        for turn in range(len(its) // count)
    ]
    return Repeated(count, kinds, sums, kept)


def _sorted(tensor: Tensor) -> tuple[int, ...]:
    return tuple(sorted(tensor.shape))


def _kept(calls: Sequence[OperatorCall]) -> list[dict[int, Tensor]]:
    """Return of each call the memory that the step reads before it writes it: weights, inputs, and casts of them."""
    is_kept: dict[int, bool] = {}
    source: dict[int, int] = {}
    found = []
    for call in calls:
        of_call = {}
        for each in read(call):
            if each.storage is not None:
                origin = source.get(each.storage, each.storage)
                if is_kept.setdefault(origin, True):
                    of_call[origin] = each
        found.append(of_call)
        is_cast = plain(call.name) in CASTS and len(of_call) == 1
        for each in written(call):
            if each.storage is not None:
                is_kept.setdefault(each.storage, False)
                source[each.storage] = next(iter(of_call)) if is_cast else each.storage
    return found


def _chained(calls: Sequence[OperatorCall], forward: Sequence[int]) -> set[CallKind]:
    """Return the kinds with a call that takes what another one returned, directly or through others.

    Memory that a call changes in place passes nothing on unless the step has made it: so do statistics of norms.
    """
    made_by: dict[int, frozenset[CallKind]] = {}
    found: set[CallKind] = set()
    for at in forward:
        kind, taken = CallKind.of(calls[at]), read(calls[at])
        sources = [made_by[each.storage] for each in taken if each.storage is not None and each.storage in made_by]
        before: frozenset[CallKind] = frozenset().union(*sources)
        if kind in before:
            found.add(kind)
        for each in written(calls[at]):
            if each.storage is not None and (each.storage in made_by or each not in taken):
                made_by[each.storage] = before | {kind}
    return found


def _remain(
    context: TraceContext, joined: JoinedKernels, rates: KernelRates, repeated: Repeated
) -> Iterator[tuple[int, float]]:
    """Yield for each kind the share of its time that one call for all takes."""
    memory, known = memory_rate(context), joined.exact & (joined.call >= 0)

    def total(values: Amounts) -> Amounts:
        return np.bincount(joined.call[known], np.nan_to_num(values[known]), len(joined.calls)).astype(np.float64)

    own, computed, moved = map(total, (joined.own_ns.astype(np.float64), rates.reached_ns, rates.bytes))
    launches = total(joined.part)
    for number, its in enumerate(repeated.kinds):
        calls = list(its)
        once = _shared_bytes([joined.calls[at] for at in calls], [repeated.kept[at] for at in calls])
        if once is None:
            yield number, 1 / len(calls)
            continue
        bytes_left = moved[calls].sum() - once * (len(calls) - 1) * launches[calls[0]]
        mine = own[calls].sum()
        share = 1.0 if rates.is_measured[np.isin(joined.call, calls)].any() else USUAL_SHARE
        needed = max(computed[calls].sum() / share, (bytes_left / memory if memory else mine) / USUAL_SHARE)
        yield number, float(min(max(needed, own[calls].max()) / mine, 1.0)) if mine else 1.0
    yield len(repeated.kinds), 0.0


def _at_once(
    joined: JoinedKernels, group: Indices, remain: Mapping[int, float], times: int, simulation: Simulation
) -> WhatIf:
    """Return the change "all calls at once": from their first launch in a step to the last one the host works once."""
    assumed = (
        "calls of one kind are one, which is as fast as large products measured on this GPU, else at "
        f"{units.share(USUAL_SHARE)} of a peak, and no shorter than one"
    )
    what = fewer(joined, np.asarray(group, np.intp), remain, assumed, simulation)
    context, calls = simulation.context, simulation.context.trace[tables.CALLS]
    call = context.operations.call[what.change.operations]
    start, end, thread = array(calls, "start")[call], array(calls, "end")[call], coded(calls, "thread")[call]
    steps = context.steps.frame
    step = containing(Spans(array(steps, "start"), array(steps, "end")), start)
    spans = {}
    for each in np.unique(thread).tolist():
        mine = [np.flatnonzero((thread == each) & (step == number)) for number in np.unique(step[thread == each])]
        spans[each] = merge([start[its].min() for its in mine], [end[its].max() for its in mine])
    return replace(what, change=replace(what.change, host=spans, host_factor=1 / times))


def _shared_bytes(calls: Sequence[OperatorCall], kept: Sequence[dict[int, Tensor]]) -> int | None:
    """Return the bytes that one call for all reads or writes once; None where all calls compute the same."""
    shared = set.intersection(*map(set, kept))
    if not shared:
        # The gradient of a weight takes no weight, and is of one size for however many rows.
        work = calls[0].work
        is_gradient = calls[0].role == BACKWARD and work is not None and work.is_product
        return sum(each.bytes or 0 for each in outputs(calls[0])) if is_gradient else 0
    if len(kept[0]) == len(shared) == len({each.storage for each in read(calls[0])}):
        return None
    return sum(each.bytes or 0 for at, each in kept[0].items() if at in shared)
