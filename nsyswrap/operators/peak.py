"""How near kernels come to the peak of their GPU, and where the time of products of matrices goes.

A kernel cannot take less time than its operations need at the peak of their type, nor less than its bytes need at the
peak of the memory. The longer of the two bounds it. What a product takes beyond that has a reason::

    | at the GPU's highest peak | lower peak of its type | memory | lower clock | above what it reaches | others |

The highest peak is that of FP16 and BF16 on tensor cores, or of FP8 for products in FP8. These are published peaks.
Where it was measured what large products reach on this GPU, the time that a kernel needs is that at the measured peak.
"""

import re
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nsyswrap.base.intervals import Indices
from nsyswrap.base.units import factor
from nsyswrap.events.operations import SOURCES
from nsyswrap.events.xray_record import ITEM_BYTES
from nsyswrap.hardware.kernel_names.classify import Classification, Verdict
from nsyswrap.hardware.peak_rates import TARGETS, published_clock, published_peak
from nsyswrap.loop.context import TraceContext, clock_at
from nsyswrap.model import Gpu
from nsyswrap.operators.join import JoinedKernels
from nsyswrap.operators.observed_calls import RECOMPUTED
from nsyswrap.operators.work import OperatorWork
from nsyswrap.trace import tables
from nsyswrap.trace.tables import coded

Amounts = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

TENSOR, CUDA_CORES, MEMORY, UNKNOWN = "tensor cores", "CUDA cores", "memory", ""
BOUNDS = (UNKNOWN, TENSOR, CUDA_CORES, MEMORY)

MODEL, AGAIN, PRECISION, OF_MEMORY, CLOCK, OUT_OF_REACH, ALIGNMENT, OLDER, SMALL, BELOW, OTHER, NOT_JOINED = range(12)
ACCOUNTS = (
    "products at the peak",
    "recomputed products at the peak",
    "products: lower peak of their type",
    "products: bounded by memory",
    "products: lower clock",
    "products: above what this GPU reaches",
    "products: misaligned sizes",
    "products: kernels for an older GPU",
    "products: too small for the GPU",
    "products: below their peak",
    "work bounded by memory",
    "kernels without a known operator",
)
"""Where the time of kernels goes, in order; the first two are use of the peak."""

_HALF = {"float16": "half", "bfloat16": "half"}
# Elements that a kernel loads at once: with fewer than 16 bytes of them, tensor cores wait. Source: the names of
# CUTLASS, and NVIDIA's Deep Learning Performance guide on alignment of matrices.
_ALIGNED = re.compile(r"_align(\d+)")
_ALIGNED_BYTES = 16
NO_BLOCKS = 0
# The GPU that a kernel was made for, in its name. Source: kernel names of cuBLAS, cuDNN and CUTLASS.
_MADE_FOR = re.compile(r"(?:\bcutlass_|\bsm_?)(\d\d)(?!\d)|\b(volta|turing|ampere)_")
_NAMED = {"volta": 70, "turing": 75, "ampere": 80}


@dataclass(frozen=True, eq=False)
class KernelRates:
    """The work of joined kernels and the time that it needs at least: arrays of equal length, NaN where not known.

    Attributes:
        operations: Floating-point operations, causal attention in full.
        model_operations: Those of them that no pass repeats.
        bytes: Bytes, at least.
        at_peak_ns: Time that the operations of a product need at the highest peak, causal attention in full.
        compute_ns: Time that they need at the peak of their type.
        reached_ns: The same at the measured peak, where it is known.
        needed_ns: Time that operations or bytes need at the peak of what bounds it: the measured one where it is known.
        is_measured: Whether the peak of its operations is a measured one.
        bound: Index into ``BOUNDS``.
        is_product: Whether it multiplies matrices; 0 where that is not known.
        accounts: Time of each in each of ``ACCOUNTS``, shape (accounts, kernels); the sum is its own time.
    """

    operations: Amounts
    model_operations: Amounts
    bytes: Amounts
    at_peak_ns: Amounts
    compute_ns: Amounts
    reached_ns: Amounts
    needed_ns: Amounts
    is_measured: Flags
    bound: npt.NDArray[np.int8]
    is_product: Flags
    accounts: Amounts

    def taken(self, at: Indices) -> "KernelRates":
        """Return those of some kernels."""
        found: KernelRates = replace(self, **{each.name: getattr(self, each.name)[..., at] for each in fields(self)})
        return found


def find_rates(context: TraceContext, joined: JoinedKernels) -> KernelRates:
    """Return the work of joined kernels, and where their time goes."""
    works = [each.work for each in joined.calls]

    def column(name: str) -> Amounts:
        values = [np.nan if each is None or (one := getattr(each, name)) is None else float(one) for each in works]
        return np.where(joined.exact, np.append(values, np.nan)[joined.call] * joined.part, np.nan)

    operations, least, repeated = map(column, ("operations", "least_operations", "repeated_operations"))
    product = np.append([each is not None and each.is_product for each in works], False)[joined.call].astype(bool)
    again = np.append([each.role == RECOMPUTED for each in joined.calls], False)[joined.call].astype(bool)
    peaks, moved = _peaks(context, joined), column("bytes")
    compute_ns, reached_ns = (np.where(product, least / each, np.nan) for each in (peaks.own, peaks.reached))
    needed, reached = np.fmax(compute_ns, moved / peaks.memory), np.fmax(reached_ns, moved / peaks.memory_reached)
    bound = np.where(reached > np.nan_to_num(reached_ns), BOUNDS.index(MEMORY), peaks.unit)
    return KernelRates(
        operations=operations,
        model_operations=np.where(again, 0.0, operations * (1 - repeated / np.fmax(least, 1))),
        bytes=moved,
        at_peak_ns=np.where(product, operations / peaks.highest, np.nan),
        compute_ns=compute_ns,
        reached_ns=reached_ns,
        needed_ns=reached,
        is_measured=product & peaks.is_measured,
        bound=np.where(np.isnan(reached), BOUNDS.index(UNKNOWN), bound).astype(np.int8),
        is_product=product,
        accounts=_accounts(
            joined, product, (again, repeated), _Least(least / peaks.highest, compute_ns, needed, reached), peaks
        ),
    )


def explain_peaks(context: TraceContext, rates: KernelRates) -> str:
    """Return which peaks ``needed_ns`` is against, in a sentence."""
    measured = context.settings.product_rates
    if not rates.is_measured.any():
        reason = f", since none were measured here: {measured.failure}" if measured.failure else ""
        return f"The share of the peak is against published peaks{reason}."
    reached = ", ".join(
        f"{kind} {factor(usual.point / 1e12)} TFLOP/s"
        for kind, usual in measured.rates.items()
        if TARGETS[kind] != MEMORY
    )
    return (
        f"The share of the peak is against what large products reach on this {measured.gpu}, measured once: {reached}. "
        "MFU and HFU are against the published peak."
    )


class _Least(NamedTuple):
    """The time that each kernel needs at least, in ns; NaN where not known.

    Attributes:
        at_highest, at_own: Its operations, at the highest published peak and at that of their type.
        needed: Its operations or bytes, at published peaks.
        reached: The same at measured peaks, where they are known.
    """

    at_highest: Amounts
    at_own: Amounts
    needed: Amounts
    reached: Amounts


class _Peaks(NamedTuple):
    """The peaks for each kernel, per ns: NaN where not known; and what its name says.

    Attributes:
        own: Operations of its type.
        highest: Operations of the fastest type; of FP8 for products in FP8.
        memory: Bytes.
        reached, memory_reached: Operations of its type and bytes, as measured; else the published ones.
        is_measured: Whether those of its operations are measured.
        below_clock: By which share the clock is below that of the published peak; 0 where it was not sampled.
        unit: Index into ``BOUNDS`` of what multiplies.
        is_misaligned, is_older, is_small: Why a product is slow, as name and grid show it.
    """

    own: Amounts
    highest: Amounts
    memory: Amounts
    reached: Amounts
    memory_reached: Amounts
    is_measured: Flags
    below_clock: Amounts
    unit: npt.NDArray[np.int8]
    is_misaligned: Flags
    is_older: Flags
    is_small: Flags


def _peaks(context: TraceContext, joined: JoinedKernels) -> _Peaks:
    """Return the peaks for each kernel."""
    operations, gpus = context.operations, {gpu.device_id: gpu for gpu in context.trace.gpus}
    kernels = operations.table[joined.rows] == SOURCES.index(tables.KERNELS)
    blocks = np.full(len(joined.rows), NO_BLOCKS)
    blocks[kernels] = coded(context.trace[tables.KERNELS], "grid_blocks")[operations.row[joined.rows[kernels]]]
    keys, first = tables.groups(
        [operations.device_id[joined.rows], context.kernel_names.code[joined.rows], joined.call]
    )
    rows, measured = [], context.settings.product_rates
    for at in first.tolist():
        gpu = gpus.get(int(operations.device_id[joined.rows[at]]), Gpu(0, ""))
        code, call = int(context.kernel_names.code[joined.rows[at]]), int(joined.call[at])
        kind = context.kernel_names.kinds[code] if code >= 0 else None
        work = joined.calls[call].work if call >= 0 else None
        target = "" if work is None else target_of(work, kind)
        name, unit = kind.name if kind else "", CUDA_CORES if target == "fp32" else TENSOR
        on_tensor_cores = kind is not None and kind.verdict is Verdict.TENSOR
        published, reached = (of(gpu, target) if target else None for of in (published_peak, measured.peak))
        bandwidth = gpu.memory_bytes_per_second or None
        rows.append((
            _per_ns(published),
            _per_ns(published_peak(gpu, "fp8" if target == "fp8" else "half")),
            _per_ns(bandwidth),
            _per_ns(reached or published),
            _per_ns(measured.peak(gpu, "memory") or bandwidth),
            reached is not None,
            (published_clock(gpu, target) if target else None) or np.nan,
            BOUNDS.index(unit),
            # Without tensor cores, kernels load single elements whatever the sizes, and newer GPUs have no others.
            work is not None and on_tensor_cores and _is_misaligned(name, work),
            on_tensor_cores and _is_older(name, gpu),
            gpu.sm_count,
        ))  # fmt: skip
    own, highest, memory, reached_of, memory_of, is_measured, clock, units, misaligned, older, sm_count = (
        np.array(each)[keys] for each in (zip(*rows, strict=True) if rows else ((),) * 11)
    )
    return _Peaks(
        own=own,
        highest=highest,
        memory=memory,
        reached=reached_of,
        memory_reached=memory_of,
        is_measured=is_measured.astype(bool),
        below_clock=_below(context, joined, clock),
        unit=units.astype(np.int8),
        is_misaligned=misaligned.astype(bool),
        is_older=older.astype(bool),
        is_small=(blocks > NO_BLOCKS) & (blocks < sm_count),
    )


def _below(context: TraceContext, joined: JoinedKernels, published: Amounts) -> Amounts:
    """Return by which share the clock of each kernel is below a published one; 0 where either is not known."""
    device, middle = (
        each[joined.rows]
        for each in (context.operations.device_id, (context.operations.start + context.operations.end) // 2)
    )
    clock = np.zeros(len(middle), np.int64)
    for each in np.unique(device).tolist():
        clock[device == each] = clock_at(context, each, middle[device == each])
    return np.where(clock > 0, np.nan_to_num(np.clip(1 - clock / published, 0, 1)), 0.0)


def _per_ns(peak: float | None) -> float:
    return np.nan if peak is None else peak / 1e9


def target_of(work: OperatorWork, kind: Classification | None) -> str:
    """Return which peak a product can reach, by its type and by its kernel's name; empty where it is not known."""
    if work.dtype.startswith("float8"):
        return "fp8"
    if work.dtype == "float32":
        return "tf32" if kind is not None and kind.verdict is Verdict.TENSOR else "fp32"
    return _HALF.get(work.dtype, "")


def _is_misaligned(name: str, work: OperatorWork) -> bool:
    """Return whether a kernel loads fewer than 16 bytes of its matrices at once, by its name."""
    found = _ALIGNED.search(name)
    return found is not None and int(found[1]) * ITEM_BYTES.get(work.dtype, _ALIGNED_BYTES) < _ALIGNED_BYTES


def _is_older(name: str, gpu: Gpu) -> bool:
    """Return whether a kernel was made for an older GPU, by its name."""
    found = _MADE_FOR.search(name)
    if found is None or gpu.compute_capability is None:
        return False
    return (_NAMED[found[2]] if found[2] else int(found[1])) // 10 < gpu.compute_capability[0]


def _accounts(
    joined: JoinedKernels,
    product: Flags,
    repetition: tuple[Flags, Amounts],
    least: _Least,
    peaks: _Peaks,
) -> Amounts:
    """Return the time of each kernel in each of ``ACCOUNTS``: each takes what it needs of what those before it left.

    Args:
        joined: The kernels.
        product: Which of them multiply matrices.
        repetition: Which of them are computed again, and the operations of the others that are.
        least: The time that each needs.
        peaks: The peaks.
    """
    (again, repeated), (at_highest, at_own, needed, reached) = repetition, least
    found, left = np.zeros((len(ACCOUNTS), len(joined.rows))), joined.own_ns.astype(np.float64)

    def take(account: int, wanted: Amounts | float, which: Flags) -> None:
        nonlocal left
        part = np.where(which, np.clip(np.nan_to_num(wanted, nan=0.0, posinf=np.inf), 0, left), 0.0)
        found[account], left = found[account] + part, left - part

    everything = np.full(len(joined.rows), np.inf)
    repeated_ns = np.where(again, at_highest, repeated / peaks.highest)
    take(MODEL, at_highest - repeated_ns, product)
    take(AGAIN, repeated_ns, product)
    take(PRECISION, at_own - at_highest, product)
    take(OF_MEMORY, needed - at_own, product)
    # Work that the memory bounds does not keep pace with the clock.
    take(CLOCK, peaks.below_clock * joined.own_ns, product & (at_own >= needed))
    take(OUT_OF_REACH, reached - needed - found[CLOCK], product)
    take(ALIGNMENT, everything, product & peaks.is_misaligned)
    take(OLDER, everything, product & peaks.is_older)
    take(SMALL, everything, product & peaks.is_small)
    take(BELOW, everything, product)
    take(OTHER, everything, joined.call >= 0)
    take(NOT_JOINED, everything, joined.call < 0)
    return found
