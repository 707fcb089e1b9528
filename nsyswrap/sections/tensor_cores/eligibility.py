"""The reason why each kernel that is eligible for tensor cores did not use them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base import units
from nsyswrap.base.intervals import Indices, Times, Window
from nsyswrap.base.row_sums import sums_by_text
from nsyswrap.hardware.kernel_names.classify import FIRST_WITH, Capability, Classification, Verdict
from nsyswrap.hardware.peak_rates import speed_up
from nsyswrap.loop.phase_detection import Phases
from nsyswrap.model import Finding, Severity
from nsyswrap.operators.candidates import in_tf32, with_alternatives
from nsyswrap.rules import tensor_cores
from nsyswrap.rules.program_kind import Wording
from nsyswrap.rules.work_names import TENSOR_USES
from nsyswrap.sections.places import LISTED
from nsyswrap.sections.severity import make_finding
from nsyswrap.what_if.saving import Saving, WhatIf, faster
from nsyswrap.what_if.simulate import Simulation

# There is a note from this share of kernel time in eligible kernels without tensor cores.
ELIGIBLE_SHARE = 0.05

COLUMNS = ("name", "reason", "phase", "total_ns", "count")
_HALF = frozenset({"fp16", "bf16", "fp8"})
_PRODUCT = (Verdict.TENSOR, Verdict.SIMT_ELIGIBLE)
# Operations that tensor cores do not make faster, and the reason for each.
BOUND_BY_MEMORY = {"conv_depthwise": "depthwise", "gemv": "matrix_vector"}
# FP64 tensor cores have twice the rate of the other cores. Source: NVIDIA A100 and H100 datasheets.
MOST_FASTER_FP64 = 2.0


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a kernel did not use tensor cores.

    Attributes:
        words: The reason in words, to follow "because".
        can_be_faster: Whether tensor cores would help; False for work that is bound by memory.
    """

    words: str
    advice: str
    can_be_faster: bool = True


REASONS = {
    "depthwise": Reason("depthwise convolutions are bound by memory", "", can_be_faster=False),
    "matrix_vector": Reason("matrix-vector products are bound by memory", "", can_be_faster=False),
    "outside_autocast": Reason(
        "it is in FP32 outside of autocast",
        Wording(
            "Find the code in this phase that torch.autocast does not cover: a module that casts to float32, a product "
            "outside of its context, or code under autocast(enabled=False).",
            "Find the products of this phase whose operands are still in FP32, and give them half precision.",
        ),
    ),
    "tf32_off": Reason(
        "TF32 is off",
        Wording(
            'Let FP32 products use TF32: torch.set_float32_matmul_precision("high"); or use torch.autocast with '
            "bfloat16.",
            "Let FP32 products use TF32 (cublasSetMathMode with CUBLAS_TF32_TENSOR_OP_MATH, and cuDNN's math type), or "
            "compute them in bfloat16.",
            jax="Let FP32 products use TF32: jax.default_matmul_precision; or compute them in bfloat16.",
        ),
    ),
    "no_tf32": Reason(
        "it is in FP32 and this GPU has no TF32",
        Wording(
            "Use torch.autocast with float16 and a gradient scaler; the GPU's tensor cores support no wider type.",
            "Compute products in float16; the GPU's tensor cores support no wider type.",
        ),
    ),
    "type_unsupported": Reason(
        "this GPU's tensor cores do not support its type",
        "Use a type that the GPU's tensor cores support, for example float16 instead of bfloat16.",
    ),
    "fp64": Reason(
        "it is in FP64 and the library chose ordinary cores",
        "Compute in float32 where the result allows it; FP64 has few tensor cores.",
    ),
    "shape_or_layout": Reason(
        "its sizes, alignment or layout do not suit them",
        Wording(
            "Make sizes (batch, channels, hidden size, vocabulary) multiples of 8 and use "
            "memory_format=torch.channels_last for convolutions.",
            "Make the sizes of products multiples of 8, and use the layout NHWC for convolutions.",
        ),
    ),
    "cannot_tell": Reason(
        "the kernel's name does not show its type",
        Wording(
            'Try torch.set_float32_matmul_precision("high") and torch.autocast, and compare.',
            "Try TF32 and half precision for these products, and compare.",
        ),
    ),
}
"""The reasons by name. Source: the kernel's name, the compute capability of its GPU, and other kernels of its phase."""


@dataclass(frozen=True)
class ClassifiedKernels:
    """The kernels of a window with the classification of their names.

    Attributes:
        classifications: Classification of each kind of kernel: a name on one kind of GPU.
        capability: Compute capability of the GPU of each kind; None where it is unknown.
        code: Index into ``classifications`` of each kernel, shape (kernels,).
        phase: Phase code of the launch of each kernel; -1 for none, shape (kernels,).
        duration: Length of each kernel inside the window in ns, shape (kernels,).
    """

    classifications: Sequence[Classification]
    capability: Sequence[Capability | None]
    code: npt.NDArray[np.intp]
    phase: npt.NDArray[np.int32]
    duration: Times


def not_used(kernels: ClassifiedKernels, phases: Phases) -> pd.DataFrame:
    """Return the kernels that could have used tensor cores, by name, reason and phase, longest time first."""
    width = len(phases.names) + 1
    half = _phases_with_half(kernels)
    tf32 = {(c.op, where) for c, where in _kinds(kernels) if c.verdict is Verdict.TENSOR and c.precision == "tf32"}
    eligible = np.array([each.verdict is Verdict.SIMT_ELIGIBLE for each in kernels.classifications], bool)
    mine = eligible[kernels.code] if len(kernels.code) else np.empty(0, bool)
    codes, unique = pd.factorize(kernels.code[mine] * np.int64(width) + kernels.phase[mine] + 1)
    total = np.zeros(len(unique), np.int64)
    np.add.at(total, codes, kernels.duration[mine])
    count = np.bincount(codes, minlength=len(unique))
    texts = []
    for key in unique.tolist():
        kind, phase = divmod(key, width)
        found, capability = kernels.classifications[kind], kernels.capability[kind]
        why = reason(found, capability, beside_half=phase - 1 in half, tf32_works=(found.op, capability) in tf32)
        texts.append((found.name, why, phases.name(phase - 1)))
    return sums_by_text(COLUMNS[:3], texts, 3, total_ns=total, count=count)


def reason(found: Classification, capability: Capability | None, *, beside_half: bool, tf32_works: bool) -> str:
    """Return why an eligible kernel did not use tensor cores: the first key of ``REASONS`` that holds.

    ``beside_half`` says whether the same phase also multiplies in half precision, ``tf32_works`` whether the same
    operation runs in TF32 elsewhere in the window, on the same kind of GPU.
    """
    if found.op in BOUND_BY_MEMORY:
        return BOUND_BY_MEMORY[found.op]
    if not found.precision:
        return "cannot_tell"
    if found.precision == "fp32":
        without = capability is not None and capability < FIRST_WITH["tf32"]
        order = (("outside_autocast", beside_half), ("shape_or_layout", tf32_works), ("no_tf32", without))
        return next((name for name, holds in order if holds), "tf32_off")
    if found.precision == "fp64":
        return "fp64"
    lacks = capability is not None and capability < FIRST_WITH.get(found.precision, capability)
    return "type_unsupported" if lacks else "shape_or_layout"


def _kinds(kernels: ClassifiedKernels) -> list[tuple[Classification, Capability | None]]:
    """Return the kinds of kernels that run in the window."""
    return [
        (kernels.classifications[kind], kernels.capability[kind])
        for kind in np.flatnonzero(np.bincount(kernels.code)).tolist()
    ]


def _phases_with_half(kernels: ClassifiedKernels) -> set[int]:
    """Return the phases in which a product in half precision runs."""
    is_half = [each.verdict in _PRODUCT and each.precision in _HALF for each in kernels.classifications]
    mine = np.array(is_half, bool)[kernels.code] if len(kernels.code) else np.empty(0, bool)
    return set(np.unique(kernels.phase[mine]).tolist())


def on_tensor_cores(kernels: ClassifiedKernels, rows: Indices, simulation: Simulation) -> WhatIf:
    """Return the change "the kernels run on tensor cores".

    Products of FP32 that TF32 would take can be measured.
    """
    kinds = list(zip(kernels.classifications, kernels.capability, strict=True))
    tf32, in_half = (
        np.array([_most_faster(found, capability, target) for found, capability in kinds], float)[kernels.code]
        for target in ("tf32", "half")
    )
    half = np.isin(kernels.phase, list(_phases_with_half(kernels)))
    most = np.where(half, in_half, tf32)
    improvable = most > 1
    assumed = "those kernels are faster by the ratio of the GPU's peak rates"
    what = faster(rows[improvable], 1 / most[improvable], assumed)
    full = np.array([found.precision == "fp32" for found, _ in kinds], bool)[kernels.code]
    return with_alternatives(simulation, what, rows, kernels.duration, improvable & full & ~half, in_tf32)


def _most_faster(found: Classification, capability: Capability | None, target: str) -> float:
    """Return the largest speed-up of a kernel on tensor cores; 1 for a kernel that they do not make faster."""
    if found.verdict is not Verdict.SIMT_ELIGIBLE or found.op in BOUND_BY_MEMORY:
        return 1.0
    return MOST_FASTER_FP64 if found.precision == "fp64" else speed_up(target, capability)


def find_findings(  # noqa: PLR0913, PLR0917 - what the finding is about, and what it says
    table: pd.DataFrame,
    total: dict[Verdict, int],
    gpus: int,
    saving: Callable[[], Saving],
    window: Window,
    places: Callable[[], tuple[str, ...]],
) -> Iterator[Finding]:
    """Yield one finding where improvable kernels take at least 5 % of kernel time, with the main reason.

    ``table`` is the result of ``not_used``. ``places`` names where the program launches those that tensor cores make
    faster; only a finding needs it.
    """
    improvable = table[table["reason"].map(lambda name: REASONS[name].can_be_faster).astype(bool)]
    lost, whole = int(improvable["total_ns"].sum()), sum(total.values())
    if not whole or lost / whole < ELIGIBLE_SHARE:
        return
    by_reason = improvable.groupby("reason", sort=True)["total_ns"].sum().sort_values(ascending=False, kind="stable")
    main, of_main = str(by_reason.index[0]), int(by_reason.iloc[0])
    part = "" if len(by_reason) == 1 else f" {units.share(of_main / lost)} of it"
    share = units.share(lost / whole)
    yield make_finding(
        rule=tensor_cores.NOT_USED,
        headline=f"{share} of kernel time is matrix work beside the tensor cores,{part} because {REASONS[main].words}.",
        lost_ns=round(lost / gpus),
        saving=saving(),
        advice=REASONS[main].advice,
        evidence=(*_evidence(improvable, by_reason, total), *places()),
        window=window,
        usual_share=lost / whole,
        worst=Severity.WARNING,
    )


def _evidence(improvable: pd.DataFrame, by_reason: "pd.Series[int]", total: dict[Verdict, int]) -> list[str]:
    lines = [f"{units.duration(time)}: {TENSOR_USES[verdict.value]}" for verdict, time in total.items()]
    lines += [f"{units.duration(int(time))} because {REASONS[str(name)].words}" for name, time in by_reason.items()]
    named = improvable.head(LISTED)
    columns = (named[column] for column in ("name", "phase", "total_ns", "count"))
    for name, phase, time, count in zip(*columns, strict=True):
        what = f"{units.counted(count, 'launch')} in phase {phase} of {name}"
        lines.append(f"{units.duration(int(time))} in {what}")
    return lines
