"""Work in FP64 of a program that otherwise computes in narrower types: one tensor of FP64 makes all that it meets FP64.

::

    images (FP32) - mean (FP64 from NumPy) -> FP64 -> / -> FP64 -> clamp -> FP64 -> cast to bfloat16

NumPy and Python compute in FP64, PyTorch in FP32 unless it gets a tensor of FP64. Elements of half the size need half
the time where the memory is the limit. A kernel that only moves data, such as one that joins tensors, is often far from
that limit: there half the size saves what the bytes need at the memory's rate. Products of matrices run at the peak of
FP32, or of TF32 where the program's other products of FP32 use it. A program all of whose tensors are FP64 has chosen
it, so there is no warning.
"""

from functools import partial

import numpy as np

from nsyswrap.base import units
from nsyswrap.hardware.peak_rates import published_peak
from nsyswrap.model import Finding, Severity
from nsyswrap.operators.candidates import in_single, with_alternatives
from nsyswrap.operators.join import JoinedKernels
from nsyswrap.operators.observed_calls import OperatorCall
from nsyswrap.operators.peak import BOUNDS, TENSOR, find_rates
from nsyswrap.operators.work import MOVES, plain
from nsyswrap.rules import compute
from nsyswrap.sections.compute.kernel_findings import Flags
from nsyswrap.sections.compute.operator_kernels import (
    USUAL_SHARE,
    OperatorWindow,
    all_tensors,
    inputs,
    memory_rate,
    of_calls,
    outputs,
    shortened,
)
from nsyswrap.sections.places import Place
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation

DOUBLE, SINGLE, FLOATS = "float64", "float32", frozenset({"float32", "float16", "bfloat16"})
HALF = 0.5
CASTS = frozenset({"copy_", "_to_copy"})


def find_findings(found: OperatorWindow) -> tuple[Finding, ...]:
    """Return a finding where work in FP64 takes enough of the window."""
    joined = found.joined
    wide = joined.exact & of_calls(joined, _is_wide)
    is_chosen = not any(each.dtype in FLOATS for call in joined.calls for each in all_tensors(call))
    first = next((Place.of(call) for call in joined.calls if _begins(call)), None)
    return found.finding(
        compute.DOUBLE,
        wide,
        partial(_narrower, joined, wide),
        evidence=() if first is None or not str(first) else (f"FP64 begins in {first}",),
        worst=Severity.NOTE if is_chosen else Severity.PROBLEM,
    )


def _is_wide(call: OperatorCall) -> bool:
    return any(each.dtype == DOUBLE and each.elements > 1 for each in all_tensors(call))


def _begins(call: OperatorCall) -> bool:
    """Return whether a call takes a narrower tensor with one of FP64, or returns FP64 without taking any."""
    taken = {each.dtype for each in inputs(call)}
    return (
        _is_wide(call) and any(each.dtype == DOUBLE for each in outputs(call)) and bool(taken - {DOUBLE} or not taken)
    )


def narrowed(call: OperatorCall) -> float:
    """Return the share of a call's time that it takes in FP32: that of its bytes; 0 for a cast that is not needed."""
    tensors = all_tensors(call)
    if plain(call.name) in CASTS and {each.dtype for each in tensors} <= {DOUBLE, SINGLE}:
        kinds = {each.dtype for each in (*inputs(call)[1:2], *outputs(call)[:1])}
        if len(kinds) > 1:
            return 0.0
    whole = sum(each.bytes or 0 for each in tensors)
    wide = sum(each.bytes or 0 for each in tensors if each.dtype == DOUBLE)
    return 1 - HALF * wide / whole if whole else 1.0


def _spared(call: OperatorCall) -> float:
    """Return the bytes that FP32 saves a call that only moves data; no bound for other calls."""
    is_move = plain(call.name) in MOVES
    return HALF * sum(each.bytes or 0 for each in all_tensors(call) if each.dtype == DOUBLE) if is_move else np.inf


def _narrower(joined: JoinedKernels, wide: Flags, simulation: Simulation) -> WhatIf:
    """Return the change "FP32 in place of FP64"."""
    share = np.append([narrowed(each) for each in joined.calls], 1.0)[joined.call]
    rates, measured = find_rates(simulation.context, joined), simulation.context.settings.product_rates
    single = np.append([each.work is not None and each.work.dtype == SINGLE for each in joined.calls], False)
    is_tf32 = bool((single[joined.call] & rates.is_product & (rates.bound == BOUNDS.index(TENSOR))).any())
    kind = "tf32" if is_tf32 else "fp32"
    peaks = [measured.peak(each, kind) or published_peak(each, kind) or 0.0 for each in simulation.context.trace.gpus]
    if rate := min(peaks, default=0.0) / 1e9:
        needed = rates.operations / (USUAL_SHARE * rate) / np.maximum(joined.own_ns, 1)
        share = np.where(rates.is_product, np.fmin(needed, 1.0), share)
    if memory := USUAL_SHARE * memory_rate(simulation.context):
        saved = np.append([_spared(each) for each in joined.calls], np.inf)[joined.call] / memory
        share = np.where(share > 0, np.fmax(share, 1 - saved / np.maximum(joined.own_ns, 1)), share)
    mine = wide & np.isin(joined.rows, simulation.operations)
    assumed = (
        "tensors of FP64 have half the bytes in FP32, kernels take time as they move bytes, and products run at "
        f"{units.share(USUAL_SHARE)} of the peak of {kind.upper()}"
    )
    what = shortened(simulation, joined.rows[mine], share[mine], assumed)
    return with_alternatives(simulation, what, joined.rows, joined.own_ns, wide, partial(in_single, tf32=is_tf32))
