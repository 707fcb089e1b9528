"""Why matrix work ran without tensor cores: for each kernel that could have used them, the reason that can be shown."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import units
from nsyswrap.hardware.kernel_names.classify import FIRST_WITH, Capability, Classification, Verdict
from nsyswrap.hardware.peak_rates import speed_up
from nsyswrap.intervals import Indices, Times, Window
from nsyswrap.loop.phase_detection import Phases
from nsyswrap.model import Finding, Severity
from nsyswrap.sections.severity import make_finding
from nsyswrap.what_if.changes import Saving, WhatIf, faster

# Eligible kernels without tensor cores are worth a sentence from this share of kernel time on.
NOTE_SHARE, WARNING_SHARE = 0.05, 0.20

COLUMNS = ("name", "reason", "phase", "total_ns", "count")
_HALF = frozenset({"fp16", "bf16", "fp8"})
_PRODUCT = (Verdict.TENSOR, Verdict.SIMT_ELIGIBLE)
_NAMED = 3
# Operations that tensor cores would not make faster, each with its reason.
BOUND_BY_MEMORY = {"conv_depthwise": "depthwise", "gemv": "matrix_vector"}
# A kernel is taken to be at least twice as fast on tensor cores. Ours: below that the kernel is bound by memory.
LEAST_FASTER, MOST_FASTER_FP64 = 2.0, 2.0


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a kernel did not use tensor cores.

    Attributes:
        words: What to say of it, after "because".
        advice: The change to make.
        can_gain: Whether tensor cores would help; False for work that memory limits.
    """

    words: str
    advice: str
    can_gain: bool = True


REASONS = {
    "depthwise": Reason("depthwise convolutions are bound by memory", "", can_gain=False),
    "matrix_vector": Reason("matrix-vector products are bound by memory", "", can_gain=False),
    "outside_autocast": Reason(
        "it is in FP32 although the same phase also multiplies in half precision",
        "Find what torch.autocast does not reach in this phase: a module that casts to float32, a product outside the "
        "context, or autocast(enabled=False) around it.",
    ),
    "tf32_off": Reason(
        "it is in FP32 and nothing like it runs in TF32",
        'Let FP32 products use TF32: torch.set_float32_matmul_precision("high"); or use torch.autocast with bfloat16.',
    ),
    "no_tf32": Reason(
        "it is in FP32 and this GPU has no TF32",
        "Use torch.autocast with float16 and a gradient scaler; the GPU's tensor cores take nothing wider.",
    ),
    "type_unsupported": Reason(
        "this GPU's tensor cores do not take its type",
        "Use a type that the GPU's tensor cores take, float16 in place of bfloat16 for example.",
    ),
    "fp64": Reason(
        "it is in FP64 and the library chose ordinary cores",
        "Compute in float32 where the result allows it; FP64 has few tensor cores.",
    ),
    "shape_or_layout": Reason(
        "its sizes, alignment or layout do not suit them",
        "Make sizes (batch, channels, hidden size, vocabulary) multiples of 8 and use "
        "memory_format=torch.channels_last for convolutions.",
    ),
    "cannot_tell": Reason(
        "the kernel's name does not tell its type",
        'Try torch.set_float32_matmul_precision("high") and torch.autocast, and compare.',
    ),
}
"""Each reason by name. Source: what the kernel's name says, its GPU's compute capability, and what runs beside it."""


@dataclass(frozen=True)
class ClassifiedKernels:
    """The kernels of a window with what their names say; arrays of equal length.

    Attributes:
        found: What is said of each kind of kernel.
        capability: Compute capability of the GPU each kind ran on; None where it is unknown.
        code: Index into ``found`` of each kernel.
        phase: Phase code of its launch; -1 for none.
        duration: In ns, inside the window.
    """

    found: Sequence[Classification]
    capability: Sequence[Capability | None]
    code: npt.NDArray[np.intp]
    phase: npt.NDArray[np.int32]
    duration: Times


def not_used(launches: ClassifiedKernels, phases: Phases) -> pd.DataFrame:
    """Return kernels that could have used tensor cores by name, reason and phase, dearest first; ``COLUMNS``."""
    width = len(phases.names) + 1
    half = _phases_with_half(launches)
    tf32 = {(c.op, where) for c, where in _kinds(launches) if c.verdict is Verdict.TENSOR and c.precision == "tf32"}
    eligible = np.array([each.verdict is Verdict.SIMT_ELIGIBLE for each in launches.found], bool)
    mine = eligible[launches.code] if len(launches.code) else np.empty(0, bool)
    codes, unique = pd.factorize(launches.code[mine] * np.int64(width) + launches.phase[mine] + 1)
    total = np.zeros(len(unique), np.int64)
    np.add.at(total, codes, launches.duration[mine])
    count = np.bincount(codes, minlength=len(unique))
    rows = []
    for key, time, number in zip(unique.tolist(), total.tolist(), count.tolist(), strict=True):
        kind, phase = divmod(key, width)
        found, capability = launches.found[kind], launches.capability[kind]
        why = reason(found, capability, beside_half=phase - 1 in half, tf32_works=(found.op, capability) in tf32)
        rows.append((found.name, why, phases.name(phase - 1), time, number))
    table = pd.DataFrame(rows, columns=list(COLUMNS)).astype({"total_ns": np.int64, "count": np.int64})
    merged = table.groupby(["name", "reason", "phase"], as_index=False, sort=False)[["total_ns", "count"]].sum()
    return merged.sort_values(
        ["total_ns", "name", "reason", "phase"], ascending=[False, True, True, True], ignore_index=True
    )


def reason(found: Classification, capability: Capability | None, *, beside_half: bool, tf32_works: bool) -> str:
    """Return why an eligible kernel did not use tensor cores: a key of ``REASONS``, the first that holds.

    Args:
        found: What the kernel's name says.
        capability: Compute capability of its GPU, if it is known.
        beside_half: Whether the same phase also multiplies in half precision.
        tf32_works: Whether the same operation runs in TF32 elsewhere in the window, on the same kind of GPU.
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


def _kinds(launches: ClassifiedKernels) -> list[tuple[Classification, Capability | None]]:
    """Return the kinds of kernels that run in the window."""
    return [
        (launches.found[kind], launches.capability[kind])
        for kind in np.flatnonzero(np.bincount(launches.code)).tolist()
    ]


def _phases_with_half(launches: ClassifiedKernels) -> set[int]:
    """Return the phases in which a product in half precision runs."""
    is_half = [each.verdict in _PRODUCT and each.precision in _HALF for each in launches.found]
    mine = np.array(is_half, bool)[launches.code] if len(launches.code) else np.empty(0, bool)
    return set(np.unique(launches.phase[mine]).tolist())


def on_tensor_cores(launches: ClassifiedKernels, rows: Indices) -> WhatIf:
    """Return what running on tensor cores changes: those kernels that could gain are faster.

    Args:
        launches: The kernels of a window.
        rows: The same as rows of the context's operations.
    """
    kinds = list(zip(launches.found, launches.capability, strict=True))
    alone, beside = (
        np.array([_most_faster(found, capability, target) for found, capability in kinds], float)[launches.code]
        for target in ("tf32", "half")
    )
    most = np.where(np.isin(launches.phase, list(_phases_with_half(launches))), beside, alone)
    gaining = most > 1
    return faster(
        rows[gaining],
        1 / np.minimum(LEAST_FASTER, most[gaining]),
        1 / most[gaining],
        "those kernels are twice as fast, or as much faster as the GPU's peak rates are",
    )


def _most_faster(found: Classification, capability: Capability | None, target: str) -> float:
    """Return how many times as fast a kernel may be on tensor cores; 1 for one that gains nothing."""
    if found.verdict is not Verdict.SIMT_ELIGIBLE or found.op in BOUND_BY_MEMORY:
        return 1.0
    return MOST_FASTER_FP64 if found.precision == "fp64" else speed_up(target, capability)


def find_findings(
    table: pd.DataFrame, total: dict[Verdict, int], saving: Callable[[], Saving], window: Window
) -> tuple[Finding, ...]:
    """Return one finding where work that could gain takes at least 5 % of kernel time, with its main reason.

    Args:
        table: What ``not_used`` returns.
        total: Kernel time by verdict, in ns.
        saving: Returns what tensor cores would save; called where there is a finding.
        window: Stretch both are about.
    """
    gaining = table[table["reason"].map(lambda name: REASONS[name].can_gain).astype(bool)]
    cost, whole = int(gaining["total_ns"].sum()), sum(total.values())
    if not whole or cost / whole < NOTE_SHARE:
        return ()
    by_reason = gaining.groupby("reason", sort=True)["total_ns"].sum().sort_values(ascending=False, kind="stable")
    main, of_main = str(by_reason.index[0]), int(by_reason.iloc[0])
    part = "" if len(by_reason) == 1 else f", {units.share(of_main / cost)} of it"
    share = units.share(cost / whole)
    return (
        make_finding(
            rule="tensor_cores/not_used",
            headline=f"{share} of kernel time is matrix work that could run on tensor cores and does not"
            f"{part}{',' if part else ''} because {REASONS[main].words}.",
            lost_ns=cost,
            saving=saving(),
            advice=REASONS[main].advice,
            evidence=tuple(_evidence(gaining, by_reason, total)),
            device_id=None,
            window=window,
            is_note=cost / whole < WARNING_SHARE,
            worst=Severity.WARNING,
        ),
    )


def _evidence(gaining: pd.DataFrame, by_reason: "pd.Series[int]", total: dict[Verdict, int]) -> list[str]:
    lines = [f"{units.duration(time)} {verdict.value.replace('_', ' ')}" for verdict, time in total.items()]
    lines += [f"{units.duration(int(time))} because {REASONS[str(name)].words}" for name, time in by_reason.items()]
    named = gaining.head(_NAMED)
    columns = (named[column] for column in ("name", "phase", "total_ns", "count"))
    for name, phase, time, count in zip(*columns, strict=True):
        what = f"{count} launches in phase {phase} of {name}"
        lines.append(f"{units.duration(int(time))} in {what}")
    return lines
