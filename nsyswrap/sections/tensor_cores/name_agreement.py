"""The verdicts by kernel name compared with hardware measurements: what to measure, the result, and rules from it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd

from nsyswrap.base.intervals import Window
from nsyswrap.hardware.kernel_names.classify import Classification, Verdict, as_written, classify, subject
from nsyswrap.hardware.kernel_names.user_rules import NameRule
from nsyswrap.loop.context import TraceContext
from nsyswrap.sections.summaries import kernels_by_device, launch_groups
from nsyswrap.sections.tensor_cores.hardware_proof import NcuLaunch, Proof, worst

# Kernels with a known verdict are measured from this share of kernel time.
LEAST_SHARE = 0.0001
# A wrong verdict counts above this share of kernel time.
WRONG_SHARE = 0.001
# Chosen kernels without a measurement are measured again above this share of kernel time.
MISSED_SHARE = 0.01
# Operations that are matrix work. Tensor cores do not help other kernels.
MATRIX_OPS = frozenset({"gemm", "conv", "attention", "rnn", "gemv", "conv_depthwise"})
# ncu shortens names: it leaves out namespaces, and the first character of <unnamed>::.
_NAMESPACES = re.compile(r"(?:<?unnamed>|[A-Za-z_]\w{0,200})::")
_CASTS = re.compile(r"\([A-Za-z_][\w: ]{0,80}\)(?=-?\d)")
_NO_MEANING = re.compile(r"\bvoid |\s")


class NameOutcome(StrEnum):
    """How a name compares with the measurement."""

    AGREES = "agrees"
    DIFFERS = "differs"
    SETTLED = "settled"
    """The name did not show the verdict; the hardware does."""
    OPEN = "open"
    """It was measured, and the counters do not show the verdict."""
    UNMEASURED = "unmeasured"


@dataclass(frozen=True, slots=True)
class KernelChoice:
    """The kernels to measure.

    Attributes:
        functions: Qualified names of the functions, longest time first; each covers all of its template instances.
        launches: Number of launches to measure: one for each instance.
        time_share: Their share of kernel time.
    """

    functions: tuple[str, ...]
    launches: int
    time_share: float


@dataclass(frozen=True, slots=True)
class Checked:
    """One kernel, by name and by hardware.

    Attributes:
        total_ns: Its time in the capture.
        share: Its share of all kernel time.
        proof: Result of the measurement; None where it was not measured.
        outcome: How name and measurement compare.
        precisions: Types of the operands by instruction, most executed first; empty where unknown.
        launches: Number of measured launches.
        pipe_active: Largest share of cycles in which the tensor pipe was active; None if not counted.
        reason: Reason for the proof, with numbers.
    """

    named: Classification
    total_ns: int
    share: float
    proof: Proof | None
    outcome: NameOutcome
    precisions: tuple[str, ...]
    launches: int
    pipe_active: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class Agreement:
    """All kernels of a capture, by name and by hardware, longest time first."""

    kernels: tuple[Checked, ...]
    kernel_ns: int

    def time_ns(self, *outcomes: NameOutcome) -> int:
        """Return the time of the kernels with one of these outcomes."""
        return sum(each.total_ns for each in self.kernels if each.outcome in outcomes)

    def share(self, *outcomes: NameOutcome) -> float:
        """Return the share of kernel time of the kernels with one of these outcomes; 0 without any kernel."""
        return self.time_ns(*outcomes) / self.kernel_ns if self.kernel_ns else 0.0

    @property
    def measured_share(self) -> float:
        """Return the share of kernel time that the measurement decides."""
        return self.share(NameOutcome.AGREES, NameOutcome.DIFFERS, NameOutcome.SETTLED)

    @property
    def tensor_share(self) -> tuple[float, float]:
        """Return the lowest and the highest share of kernel time on tensor cores that the measurement allows."""
        used = sum(each.total_ns for each in self.kernels if each.proof is Proof.USED)
        unknown = sum(each.total_ns for each in self.kernels if each.proof in {None, Proof.OPEN})
        whole = self.kernel_ns or 1
        return used / whole, (used + unknown) / whole

    @property
    def named_share(self) -> tuple[float, float]:
        """Return the lowest and the highest share of kernel time on tensor cores that the names allow."""
        tensor = sum(each.total_ns for each in self.kernels if each.named.verdict is Verdict.TENSOR)
        unknown = sum(each.total_ns for each in self.kernels if each.named.verdict is Verdict.UNKNOWN)
        whole = self.kernel_ns or 1
        return tensor / whole, (tensor + unknown) / whole

    @property
    def wrong(self) -> tuple[Checked, ...]:
        """Return the kernels with a wrong name that take more than ``WRONG_SHARE`` of kernel time."""
        return tuple(each for each in self.kernels if each.outcome is NameOutcome.DIFFERS and each.share > WRONG_SHARE)


def kernel_launches(context: TraceContext, window: Window) -> pd.DataFrame:
    """Return the compute kernels of a window, one row for each device, name and launch configuration."""
    return launch_groups(context, kernels_by_device(context, window), window)


def function_of(name: str) -> str:
    """Return the function's qualified name, without template arguments and parameters."""
    return as_written(name).partition("<")[0].partition("(")[0].strip()


def spelling(name: str) -> str:
    """Return a name in a form that nsys and ncu share: without namespaces, casts, spaces and return types.

    Among 184 kernels of sixteen programs on an H200, all forms were different, and each kernel of ncu was found.
    """
    text = subject(name)
    while (shorter := _NAMESPACES.sub("", text)) != text:
        text = shorter
    return _NO_MEANING.sub("", _CASTS.sub("", text))


def choose(launches: pd.DataFrame, budget: int) -> KernelChoice:
    """Return what to measure: kernels with an unknown verdict first, then by time, within a number of launches."""
    if not len(launches):
        return KernelChoice((), 0, 0.0)
    rows = launches.assign(function=launches["name"].map(function_of))
    rows["unknown_ns"] = rows["total_ns"].where(rows["verdict"] == Verdict.UNKNOWN, 0)
    found = rows.groupby("function", as_index=False).agg(
        unknown_ns=("unknown_ns", "sum"), total_ns=("total_ns", "sum"), cost=("name", "nunique")
    )
    whole = int(found["total_ns"].sum()) or 1
    found = found.sort_values(["unknown_ns", "total_ns", "function"], ascending=[False, False, True])
    chosen: list[str] = []
    spent = time_ns = 0
    for function, unknown_ns, total_ns, cost in found.itertuples(index=False):
        fits = spent + int(cost) <= budget or not chosen
        if function and fits and (unknown_ns > 0 or total_ns >= LEAST_SHARE * whole):
            chosen.append(str(function))
            spent += int(cost)
            time_ns += int(total_ns)
    return KernelChoice(tuple(chosen), spent, time_ns / whole)


def compare(
    launches: pd.DataFrame,
    measured: Sequence[NcuLaunch],
    capability: tuple[int, int] | None,
    learned: Sequence[NameRule] = (),
    *,
    tensor_cores: bool = True,
) -> Agreement:
    """Return each kernel of a capture, its name compared with the measurement.

    ``launches`` are ``kernel_launches`` of the capture; learned rules are those from files, before our own.
    """
    by_spelling: dict[str, list[NcuLaunch]] = {}
    for launch in measured:
        by_spelling.setdefault(spelling(launch.name), []).append(launch)
    totals = launches.groupby("name")["total_ns"].sum() if len(launches) else pd.Series(dtype="int64")
    whole = int(totals.sum())
    kernels = [
        _checked(
            classify(str(name), capability, learned, tensor_cores=tensor_cores),
            int(total),
            whole,
            by_spelling.get(spelling(str(name)), []),
        )
        for name, total in totals.items()
    ]
    kernels.sort(key=lambda each: (-each.total_ns, each.named.name))
    return Agreement(tuple(kernels), whole)


def missed(agreement: Agreement, choice: KernelChoice) -> tuple[str, ...]:
    """Return the chosen functions with an instance that was not measured, longest time first.

    Empty where these instances take at most ``MISSED_SHARE`` of kernel time together.
    """
    chosen = set(choice.functions)
    left = [each for each in agreement.kernels if each.proof is None and function_of(each.named.name) in chosen]
    if sum(each.share for each in left) <= MISSED_SHARE:
        return ()
    return tuple(dict.fromkeys(function_of(each.named.name) for each in left))


def rules_from(agreement: Agreement, source: str) -> tuple[NameRule, ...]:
    """Return a rule for each kernel whose name did not show the verdict, or whose verdict by name was wrong.

    The source is the origin of the measurement, such as ``Nsight Compute 2025.3.1 on NVIDIA H100``.
    """
    return tuple(
        NameRule(
            kernel=each.named.name,
            is_prefix=False,
            verdict=_learned_verdict(each),
            precision=each.precisions[0] if each.precisions else "",
            library=each.named.library,
            op=each.named.op,
            source=f"{source}: {each.reason}",
        )
        for each in agreement.kernels
        if each.outcome in {NameOutcome.SETTLED, NameOutcome.DIFFERS}
    )


def _learned_verdict(checked: Checked) -> Verdict:
    """Return the verdict of the measurement; matrix work without tensor cores is eligible for them."""
    if checked.proof is Proof.USED:
        return Verdict.TENSOR
    named = checked.named
    is_matrix = named.verdict is Verdict.TENSOR or named.op in MATRIX_OPS
    return Verdict.SIMT_ELIGIBLE if is_matrix else Verdict.NOT_ELIGIBLE


def _checked(named: Classification, total_ns: int, whole: int, measured: Sequence[NcuLaunch]) -> Checked:
    proof = worst(measured) if measured else None
    example = next((each for each in measured if each.proof is proof), None)
    types: Mapping[str, None] = dict.fromkeys(each for launch in measured for each in launch.precisions)
    active = [each.pipe_active for each in measured if each.pipe_active is not None]
    return Checked(
        named=named,
        total_ns=total_ns,
        share=total_ns / whole if whole else 0.0,
        proof=proof,
        outcome=_outcome(named.verdict, proof),
        precisions=tuple(types),
        launches=len(measured),
        pipe_active=max(active) if active else None,
        reason=example.reason if example is not None else "not measured",
    )


def _outcome(verdict: Verdict, proof: Proof | None) -> NameOutcome:
    if proof is None:
        return NameOutcome.UNMEASURED
    if proof is Proof.OPEN:
        return NameOutcome.OPEN
    if verdict is Verdict.UNKNOWN:
        return NameOutcome.SETTLED
    return NameOutcome.AGREES if (verdict is Verdict.TENSOR) == (proof is Proof.USED) else NameOutcome.DIFFERS
