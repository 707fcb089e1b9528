"""Chains of elementwise kernels: each passes its result through the memory to the next one.

::

    a stream    [ mul ][ add ][ tanh ][ product ]
                     write/read
                            write/read         fused, these tensors are neither written nor read

Two kernels make a link where one follows the other on a stream, both are of a kind that a compiler fuses, and their
numbers of elements agree. Where the X-ray step shows which tensors operators took and returned, these count instead.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nsyswrap.base import units
from nsyswrap.base.rows import taken
from nsyswrap.events.alternatives import Alternative
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import OPTIMIZER
from nsyswrap.model import Finding, Severity
from nsyswrap.operators.candidates import sequence_candidates
from nsyswrap.operators.join import JoinedKernels
from nsyswrap.rules import compute
from nsyswrap.sections.compute.attention_by_parts import by_parts
from nsyswrap.sections.compute.functions_by_parts import parts_of_functions
from nsyswrap.sections.compute.kernel_findings import Flags, KernelWindow
from nsyswrap.sections.compute.kernel_groups import GroupedKernels, LaunchGroup, costliest_names
from nsyswrap.sections.compute.operator_kernels import OperatorWindow, find_operators, shortened
from nsyswrap.sections.compute.passed_tensors import chains_of, saved_shares
from nsyswrap.sections.severity import NOTE_SHARE
from nsyswrap.trace import tables
from nsyswrap.trace.tables import blocks
from nsyswrap.what_if.measured_change import with_measured
from nsyswrap.what_if.saving import AlternativeKernels, WhatIf
from nsyswrap.what_if.simulate import Simulation

# What torch.compile puts into one kernel with elementwise operators. Source: the scheduler of torch/_inductor.
FUSABLE = frozenset({"elementwise", "reduction", "norm", "softmax", "random", "loss"})
Shares = npt.NDArray[np.float64]


class _Members(NamedTuple):
    """What each group of kernels, or each kernel, is to a chain: arrays of equal length.

    Attributes:
        fusable: Whether a compiler can fuse it.
        known: Whether its elements and its tensors are known.
        low: Its elements, at least.
        high: At most.
        written: The share of its bytes that it writes.
        read: The share of its bytes that it reads from one tensor.
    """

    fusable: Flags
    known: Flags
    low: Shares
    high: Shares
    written: Shares
    read: Shares


@dataclass(frozen=True)
class Chains:
    """The links between kernels: arrays of the shape of the grouped kernels.

    Attributes:
        linked: Whether a kernel is elementwise and a part of a chain.
        saved: Share of its time that fusion saves.
    """

    linked: Flags
    saved: Shares
    links: int


def find_findings(found: KernelWindow) -> tuple[Finding, ...]:
    """Return a finding where chains of elementwise kernels take enough of the window."""
    if found.context.xray is not None and (operators := find_operators(found)) is not None:
        return _of_operators(operators)
    chains = find_chains(found.context, found.kernels)
    change, evidence = partial(_fused, found.kernels, chains), partial(_evidence, found.kernels, chains)
    return found.finding_on(compute.UNFUSED, chains.linked, change, evidence)


def _of_operators(found: OperatorWindow) -> tuple[Finding, ...]:
    """Return the finding where the tensors are known: its time lost is that of the bytes that fusion saves.

    What a compiler makes of a chain is known once it was measured; until then it is a note.
    """
    context, kernels, joined = found.context, found.kernels, found.joined
    # The optimizer and functions by parts have findings of their own, and are left out.
    shares, passed = saved_shares(context, joined, _fusable(context, kernels, joined))
    chains = Chains(shares > 0, shares, passed)
    own_ns = np.rint(joined.own_ns * chains.saved).astype(np.int64)
    if kernels.share_of(int(own_ns[chains.linked].sum()), found.window) < NOTE_SHARE:
        # What the launches of a short chain cost is a finding on launches.
        return ()
    return found.finding(
        compute.UNFUSED,
        chains.linked,
        lambda run: with_measured(run, _fused(kernels, chains, run), _candidates(context, kernels, joined, chains)),
        case=compute.UNFUSED.cases[0],
        evidence=(
            f"{units.count(chains.links)} tensors in a step are written by one kernel and read by the next ones",
        ),
        own_ns=own_ns,
        worst=Severity.WARNING,
        is_usual=True,
        if_measured=True,
    )


def _fusable(context: TraceContext, kernels: GroupedKernels, joined: JoinedKernels) -> Flags:
    """Return which kernels a compiler can fuse."""
    fusable = np.array([each.kind.op in FUSABLE and each.kind.may_be_fused for each in kernels.groups], np.bool_)
    mine: Flags = fusable[kernels.code] & ~by_parts(joined) & ~parts_of_functions(joined)
    mine &= context.phase_of_operations[kernels.rows] != context.phases.code(OPTIMIZER)
    return mine


def _candidates(
    context: TraceContext, kernels: GroupedKernels, joined: JoinedKernels, chains: Chains
) -> tuple[AlternativeKernels, ...]:
    """Return each kind of chain of the forward pass as one that is compiled, which can be measured."""
    can = _fusable(context, kernels, joined) & joined.exact
    found = ((operators, used, None) for operators, used in chains_of(context, joined, can, chains.linked))
    return sequence_candidates(context, joined, found, partial(Alternative, "compiled"))


def find_chains(context: TraceContext, kernels: GroupedKernels) -> Chains:
    """Return the links between kernels; those of the optimizer have a finding of their own and are left out."""
    members, rows, start, end = _members(kernels), kernels.rows, context.operations.start, context.operations.end
    # The operations are sorted by start, so those of each queue are in order.
    codes, first = tables.groups([taken(context.operations.device_id, rows), taken(context.operations.stream, rows)])
    queue = codes.astype(np.min_scalar_type(-1 - len(first)))
    order = np.argsort(queue, kind="stable")
    saved = np.zeros(len(rows))
    linked, links = np.zeros(len(rows), np.bool_), 0
    # Some kernels at a time, each with the one after it.
    for some in blocks(max(len(rows) - 1, 0)):
        mine = order[some.start : some.stop + 1]
        at, code = taken(rows, mine), taken(kernels.code, mine)
        length = np.maximum(taken(end, at) - taken(start, at), 1).astype(np.float64)
        its = _Members._make(taken(column, code) for column in members)
        usable = (taken(context.phase_of_operations, at) != context.phases.code(OPTIMIZER)) & its.fusable
        link = usable[:-1] & usable[1:] & (np.diff(taken(queue, mine)) == 0)
        before, after = (_Members._make(column[part] for column in its) for part in (slice(-1), slice(1, None)))
        agree = (before.low <= after.high) & (after.low <= before.high)
        link &= (before.known & after.known & agree) | (before.known ^ after.known)
        # Where one kernel's tensors are not known, it takes as long for the tensor as the other one does.
        written, read = length[:-1] * before.written, length[1:] * after.read
        saved[mine[:-1]] += np.where(link, np.minimum(np.where(before.known, written, read), length[:-1]), 0)
        saved[mine[1:]] += np.where(link, np.minimum(np.where(after.known, read, written), length[1:]), 0)
        linked[mine[:-1]] |= link
        linked[mine[1:]] |= link
        links += int(link.sum())
    for some in blocks(len(rows)):
        length = np.maximum(taken(end, rows[some]) - taken(start, rows[some]), 1).astype(np.float64)
        saved[some] = np.minimum(saved[some] / length, 1.0)
        linked[some] &= taken(members.known, kernels.code[some])
    return Chains(linked, saved, links)


def _members(kernels: GroupedKernels) -> _Members:
    size = len(kernels.groups)
    fusable, known = np.zeros((2, size), np.bool_)
    low, high, written, read = np.zeros((4, size))
    for number, group in enumerate(kernels.groups):
        fusable[number] = group.kind.op in FUSABLE and group.kind.may_be_fused
        work, each = group.work, group.of_element
        if not fusable[number] or work is None or each is None or group.kind.op != "elementwise":
            continue
        known[number], low[number], high[number] = True, work.elements_low, work.elements_high
        written[number], read[number] = _parts(group)
    return _Members(fusable, known, low, high, written, read)


def _parts(group: LaunchGroup) -> tuple[float, float]:
    """Return which share of a kernel's bytes is its result, and which share is one tensor that it reads."""
    each = group.of_element
    if each is None:
        return 0.0, 0.0
    if each.read is None or each.written is None:
        # Tensors of one size: at least one read and one written.
        return (1 / max(each.tensors, 2),) * 2
    whole = sum(each.read) + each.written
    return each.written / whole, max(each.read, default=0) / whole


def _fused(kernels: GroupedKernels, chains: Chains, simulation: Simulation) -> WhatIf:
    ran = np.isin(kernels.rows, simulation.operations) & (chains.saved > 0)
    rows, factor = kernels.rows[ran], 1 - chains.saved[ran]
    # With 0 an operation is removed. Rounding must not keep one that passes all its tensors on.
    factor = np.where(factor < 1e-9, 0.0, factor)  # noqa: PLR2004 - far below one part of a kernel
    assumed = "a fused chain neither writes nor reads the tensors between its kernels"
    return shortened(simulation, rows, factor, assumed)


def _evidence(kernels: GroupedKernels, chains: Chains) -> tuple[str, ...]:
    said = f"{units.count(chains.links)} pairs of kernels follow one another and can be fused"
    return (said, *costliest_names(kernels, chains.linked))
