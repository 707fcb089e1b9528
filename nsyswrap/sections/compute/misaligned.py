"""Products of matrices whose sizes forbid loads of 16 bytes, so that a slower kernel runs.

::

    a row of 50,257 numbers of 2 bytes    |................|................|..       the next row begins 2 bytes
    the next row                             |................|................|      after a place for 16 bytes

Tensor cores get 16 bytes at once where each row begins at a multiple of 16 bytes: 8 elements in half precision, 4 in
TF32. Else the library takes a kernel that loads fewer, often one for an older GPU. Only what lies along the memory
matters, the size of a row and the distance of rows; how many rows there are does not.

Source: NVIDIA, "Matrix Multiplication Background User's Guide", requirements of tensor cores.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from math import prod

import numpy as np
import numpy.typing as npt

from nsyswrap.base import units
from nsyswrap.events.alternatives import Alternative
from nsyswrap.events.xray_record import RecordedOperator, Tensor, tensors_of
from nsyswrap.model import Finding
from nsyswrap.operators.candidates import single_candidates
from nsyswrap.operators.join import JoinedKernels
from nsyswrap.operators.observed_calls import OperatorCall
from nsyswrap.operators.peak import ALIGNMENT, OLDER, KernelRates, find_rates
from nsyswrap.operators.work import ADDS, plain
from nsyswrap.rules import compute
from nsyswrap.sections.compute.attention_by_parts import by_parts
from nsyswrap.sections.compute.kernel_findings import Flags
from nsyswrap.sections.compute.operator_kernels import USUAL_SHARE, OperatorWindow, all_tensors, item_bytes
from nsyswrap.sections.places import LISTED, Place
from nsyswrap.what_if.measured_change import with_measured
from nsyswrap.what_if.saving import WhatIf, faster
from nsyswrap.what_if.simulate import Simulation

PRODUCTS = frozenset({"mm", "bmm", "linear", *ADDS})
LOADED_BYTES = 16
MATRIX = 2
# Sizes are rounded up to 64 elements where that adds little. Source: as above, 128 bytes are best on newer GPUs; ours.
BEST_MULTIPLE, LITTLE = 64, 1 / 16
# Products have a like size within this factor of operations. Source: ours.
LIKE_SIZE = 8
# Operations of the smallest product by which the peaks of this GPU are measured: those of like size reach them.
MEASURED = 2 * 4096**3


def find_findings(found: OperatorWindow) -> tuple[Finding, ...]:
    """Return a finding where products with misaligned sizes take enough of the window."""
    joined = found.joined
    rates = find_rates(found.context, joined)
    sizes = [odd_sizes(each) for each in joined.calls]
    odd = np.append([bool(each) for each in sizes], False)[joined.call].astype(bool)
    slow = joined.exact & odd & ~by_parts(joined) & ((rates.accounts[ALIGNMENT] > 0) | (rates.accounts[OLDER] > 0))
    if not slow.any():
        return ()
    changed = {size: padded for call in np.unique(joined.call[slow]).tolist() for size, padded in sizes[call].items()}
    most = _by_time(joined, slow, sizes)
    change = ", ".join(f"{units.count(each)} to {units.count(changed[each])}" for each in most[:LISTED])
    return found.finding(
        compute.MISALIGNED,
        slow,
        partial(aligned, joined, slow, paces(joined, rates, slow, sizes)),
        words={"size": units.count(most[0])},
        advice=compute.MISALIGNED.advice.format(change=change),
        evidence=tuple(_evidence(joined, slow, sizes)),
    )


def odd_sizes(call: OperatorCall) -> dict[int, int]:
    """Return the sizes along the memory of a product's matrices that forbid full loads, each with a better one."""
    return {} if plain(call.name) not in PRODUCTS else _odd(all_tensors(call))


def _odd(tensors: Iterable[Tensor]) -> dict[int, int]:
    found = (_along_memory(each) for each in tensors if len(each.shape) >= MATRIX and item_bytes(each))
    return {size: better_size(size, step) for sizes in found for size, step in sizes if size % step}


def _along_memory(tensor: Tensor) -> Iterator[tuple[int, int]]:
    """Yield the length of a matrix's rows and their distance, with the elements of a full load; columns may be rows."""
    rows, columns = tensor.shape[-MATRIX:]
    apart, beside = (columns, 1) if tensor.strides is None else tensor.strides[-MATRIX:]
    if beside != 1 and apart == 1:
        rows, columns, apart = columns, rows, beside
    step = LOADED_BYTES // item_bytes(tensor)
    if step and columns > 1:
        yield columns, step
    if step and rows > 1 and apart > 1:
        yield apart, step


def better_size(size: int, step: int) -> int:
    """Return a size that a library prefers: the next multiple of 64 elements, or of a load where that adds too much."""
    best = -(-size // BEST_MULTIPLE) * BEST_MULTIPLE
    return best if best - size <= LITTLE * size else -(-size // step) * step


def paces(
    joined: JoinedKernels, rates: KernelRates, slow: Flags, sizes: list[dict[int, int]]
) -> npt.NDArray[np.float64]:
    """Return the time of each slow kernel at the pace of aligned ones of like size, as a factor.

    ``sizes`` are those to change in each call, with the better ones.
    """
    good = rates.is_product & joined.exact & ~slow & (rates.needed_ns > 0) & (joined.own_ns > 0)
    size, needed, own = rates.operations[good], rates.needed_ns[good], joined.own_ns[good]
    calls, kernel = np.unique(joined.call[slow], return_inverse=True)
    longer = np.ones(len(calls))
    for at, call in enumerate(calls.tolist()):
        work = joined.calls[call].work
        operations = 0 if work is None else work.operations
        like = (size >= operations / LIKE_SIZE) & (size <= operations * LIKE_SIZE)
        is_measured = operations >= MEASURED / LIKE_SIZE and bool(rates.is_measured[joined.call == call].any())
        usual = 1.0 if is_measured else USUAL_SHARE
        share = min(needed[like].sum() / own[like].sum(), 1.0) if like.any() else usual
        longer[at] = prod(after / before for before, after in sizes[call].items()) / share
    times: npt.NDArray[np.float64] = rates.needed_ns[slow] * longer[kernel] / np.maximum(joined.own_ns[slow], 1)
    return np.fmin(times, 1.0)  # a kernel whose work is unknown is not made faster


def aligned(
    joined: JoinedKernels,
    slow: Flags,
    factors: npt.NDArray[np.float64],
    simulation: Simulation,
    *,
    or_nothing: bool = False,
) -> WhatIf:
    """Return the change "slow products run as others do": with padded sizes, or with data at another place."""
    mine = np.isin(joined.rows[slow], simulation.operations)
    assumed = (
        "these products run at the pace of aligned ones of like size in this capture, else of those measured on this "
        f"GPU, else at {units.share(USUAL_SHARE)} of the peak"
    )
    what = faster(joined.rows[slow][mine], factors[mine], assumed, or_nothing=or_nothing)
    return with_measured(simulation, what, single_candidates(simulation.context, joined, slow, _padded))


def _padded(operator: RecordedOperator) -> Alternative | None:
    """Return a product with padded sizes; None for other operators."""
    if plain(operator.name) not in PRODUCTS:
        return None
    odd = _odd(tensors_of((*operator.inputs, *operator.outputs)))
    return Alternative("padded", (operator,), sizes=tuple(sorted(odd.items()))) if odd else None


def _by_time(joined: JoinedKernels, slow: Flags, sizes: list[dict[int, int]]) -> list[int]:
    """Return the odd sizes of slow kernels, that with most time first."""
    time: dict[int, int] = {}
    for call, ns in zip(joined.call[slow].tolist(), joined.own_ns[slow].tolist(), strict=True):
        for size in sizes[call]:
            time[size] = time.get(size, 0) + ns
    return sorted(time, key=lambda each: (-time[each], each))


def _evidence(joined: JoinedKernels, slow: Flags, sizes: list[dict[int, int]]) -> Iterator[str]:
    """Yield a line for each of the costliest operators: its time, its shapes, the sizes to change, and its place."""
    time: dict[OperatorCall, list[int]] = {}
    change: dict[OperatorCall, dict[int, int]] = {}
    for call, ns in zip(joined.call[slow].tolist(), joined.own_ns[slow].tolist(), strict=True):
        time.setdefault(joined.calls[call], []).append(ns)
        change[joined.calls[call]] = sizes[call]
    for each in sorted(time, key=lambda call: -sum(time[call]))[:LISTED]:
        padded = ", ".join(f"{units.count(old)} -> {units.count(new)}" for old, new in change[each].items())
        yield (
            f"{units.duration(sum(time[each]))} in {units.counted(len(time[each]), 'launch')} of {each.name} on "
            f"{each.shapes} in {Place.of(each)}: {padded}"
        )
