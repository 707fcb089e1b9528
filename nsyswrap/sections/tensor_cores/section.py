"""The share of kernel time on tensor cores, by kernel name: a lower and an upper bound.

Counter and name are different quantities. The counter shows how much of the time the tensor pipes of all
SMs were active. A name shows that a kernel uses them at all. So the counter cannot exceed the share by name::

    kernels           |--tensor--|--other--|-------idle------|     by name: 10 of 20
    Tensor Active     40 %       0 %       0 %                     by counter: 4 of 20
"""

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base import units
from nsyswrap.base.interval import Interval
from nsyswrap.base.intervals import Indices, Spans, Window, clip, merge, overlap, total, union
from nsyswrap.base.row_sums import sums_by_text
from nsyswrap.base.rows import taken
from nsyswrap.events.gpu_counters import PER_CENT, CounterSamples
from nsyswrap.events.operations import COMPUTE
from nsyswrap.hardware.kernel_names.classify import Verdict
from nsyswrap.hardware.tensor_cores import has_tensor_cores
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.own_windows import find_own_windows
from nsyswrap.model import Fact, Finding, Section, Severity
from nsyswrap.rules import tensor_cores
from nsyswrap.sections.places import place_lines
from nsyswrap.sections.spec import About, Kind, PageGroup, SectionSpec
from nsyswrap.sections.summaries import kernels_in
from nsyswrap.sections.tensor_cores import layout_kernels
from nsyswrap.sections.tensor_cores.eligibility import ClassifiedKernels, find_findings, not_used, on_tensor_cores
from nsyswrap.trace import tables
from nsyswrap.what_if.saving import predict
from nsyswrap.what_if.simulate import Simulation

COUNTER = "Tensor Active"
# On Turing this counter includes half-precision arithmetic of ordinary cores. Source: nsys's description of the metric.
SHARED_WITH = "FP16"

# Samples inside kernels without tensor work read 0.5 to 1 %. Source: three captures of an H200.
NOISE_SHARE = 0.01
# Lowest activity of kernels that used tensor cores: 3.9 % of their time. Source: Nsight Compute on 2600
# launches of BERT and ResNet-50 on an H200.
LEAST_ACTIVE_SHARE = 0.039


NO_TENSOR_CORES = "No GPU of this capture has tensor cores."


@dataclass(frozen=True, slots=True)
class TensorWork:
    """Tensor work by counter and by name, over the time in which compute kernels ran and the counter was sampled.

    Attributes:
        active_ns: Upper bound of the time integral of the counter: the time that the pipes were active at full rate.
        least_ns: Lower bound of the same; samples are whole per cent, rounded up.
        rounding_ns: One per cent of the sampled time, for a version of nsys that may round down.
        tensor_ns: Time in which a kernel ran whose name shows that it uses tensor cores.
        possible_ns: The same, with kernels of unknown verdict and graphs traced as a whole.
    """

    active_ns: float
    least_ns: float
    rounding_ns: float
    kernel_ns: int
    tensor_ns: int
    possible_ns: int

    @property
    def share(self) -> float:
        """Return the upper bound of the activity of the tensor pipes, as a share of the time in which kernels ran."""
        return self.active_ns / self.kernel_ns

    @property
    def share_low(self) -> float:
        """Return the lower bound of ``share``."""
        return self.least_ns / self.kernel_ns

    @property
    def exceeds_names(self) -> bool:
        """Return whether the counter shows more work than the kernels that may use tensor cores can do."""
        return self.least_ns > self.possible_ns + NOISE_SHARE * self.kernel_ns

    @property
    def falls_short_of_names(self) -> bool:
        """Return whether the counter shows less work than the kernels that use tensor cores must do."""
        most = self.active_ns + self.rounding_ns
        return most < LEAST_ACTIVE_SHARE * self.tensor_ns


def count_tensor_work(context: TraceContext, window: Window, tensor: Indices, unknown: Indices) -> TensorWork | None:
    """Return the tensor work of all GPUs in their parts of the window; None where one with kernels was not sampled."""
    if not context.counter_samples:
        return None
    operations, own = context.operations, find_own_windows(context, window)
    graphs = operations.from_table(tables.GRAPHS)
    compute = np.flatnonzero(operations.kind == COMPUTE)
    counters: dict[int, CounterSamples] = {}
    for each in context.counter_samples:
        if each.name.startswith(COUNTER) and SHARED_WITH not in each.name:
            counters.setdefault(each.device_id, each)
    found = []
    for device in np.unique(operations.device_id[compute]).tolist():
        samples = counters.get(device)
        if samples is None:
            return None
        part = own.on(device)
        sampled = clip(samples.spans, part.start_ns, part.end_ns)
        busy, sure, maybe = (
            _running(context, rows[operations.device_id[rows] == device], part)
            for rows in (compute, tensor, np.concatenate([unknown, graphs]))
        )
        found.append(
            TensorWork(
                active_ns=int(samples.integral(sampled.start, sampled.end).sum()) / PER_CENT,
                least_ns=int(samples.at_least.integral(sampled.start, sampled.end).sum()) / PER_CENT,
                rounding_ns=total(sampled) / PER_CENT,
                kernel_ns=overlap(sampled, busy),
                tensor_ns=overlap(sampled, sure),
                possible_ns=overlap(sampled, union(sure, maybe)),
            )
        )
    if not any(each.kernel_ns for each in found):
        return None
    return TensorWork(*map(sum, zip(*map(astuple, found), strict=True)))


def _running(context: TraceContext, rows: Indices, window: Window) -> Spans:
    spans = merge(context.operations.start[rows], context.operations.end[rows])
    return clip(spans, window.start_ns, window.end_ns)


def contradictions(counted: TensorWork | None, window: Window) -> Iterator[Finding]:
    """Yield a finding where counter and names cannot both be right."""
    if counted is None:
        return
    if counted.exceeds_names:
        yield _finding(
            counted,
            "The hardware counted more tensor-core work than the kernels' names allow.",
            "Trust the counter and report the kernel names: a name rule takes a tensor-core kernel for an ordinary "
            "one, or another program used the GPU.",
            window,
        )
    elif counted.falls_short_of_names:
        yield _finding(
            counted,
            "By their names kernels use tensor cores, but the hardware counted almost no tensor-core work.",
            "Measure the kernels with Nsight Compute: their names may mislead, or they mostly wait for memory.",
            window,
        )


def _finding(counted: TensorWork, headline: str, advice: str, window: Window) -> Finding:
    by_counter = units.share_band(counted.share_low, counted.share)
    low, high = (units.share(part / counted.kernel_ns) for part in (counted.tensor_ns, counted.possible_ns))
    return Finding(
        rule=tensor_cores.COUNTER_DISAGREES.key,
        severity=Severity.NOTE,
        headline=headline,
        lost_ns=0,
        saving=Interval(0, 0, 0),
        advice=advice,
        evidence=(
            f"tensor pipes active {by_counter} of the time in kernels, by counter",
            f"{low} of it in kernels that use them by name, {high} with those of unknown verdict",
        ),
        device_id=None,
        window=window,
    )


def run(context: TraceContext, window: Window, simulation: Simulation) -> Section:
    """Return kernel time by verdict, kernel and phase; collectives do not count as kernels."""
    (rows, duration), operations = kernels_in(context, window), context.operations
    names = context.kernel_names
    codes, used = pd.factorize(taken(names.code, rows))
    kinds, capability = [names.kinds[int(each)] for each in used], [names.capability[int(each)] for each in used]
    kernels = ClassifiedKernels(kinds, capability, codes, context.phase_of_operations[rows], duration)
    order = {verdict: index for index, verdict in enumerate(Verdict)}
    of_kind = np.array([order[each.verdict] for each in kernels.classifications], np.int8)
    verdict = of_kind[kernels.code] if len(kernels.code) else np.empty(0, np.int8)
    unused = not_used(kernels, context.phases)
    total = {each: int(duration[verdict == index].sum()) for index, each in enumerate(Verdict)}
    whole = int(duration.sum())
    tensor, unknown = total[Verdict.TENSOR], total[Verdict.UNKNOWN]
    is_tensor, is_unknown = (verdict == list(Verdict).index(each) for each in (Verdict.TENSOR, Verdict.UNKNOWN))
    saving = partial(predict, simulation, partial(on_tensor_cores, kernels, rows))

    def places() -> tuple[str, ...]:
        faster = np.isin(rows, on_tensor_cores(kernels, rows, simulation).change.operations)
        return place_lines(context, rows[faster], duration[faster])

    gpus = max(len(tables.distinct(taken(operations.device_id, rows))), 1)
    together = context.steps.together(window)
    layout = layout_kernels.find_findings(simulation, kernels, rows, gpus, together)
    advice = (*find_findings(unused, total, gpus, saving, together, places), *layout)
    counted = count_tensor_work(context, window, rows[is_tensor], rows[is_unknown])
    return SECTION.made(
        window,
        facts=(
            Fact("kernel_ns", whole, "ns"),
            Fact("tensor_ns", tensor, "ns"),
            Fact("unknown_ns", unknown, "ns"),
            Fact("simt_eligible_ns", total[Verdict.SIMT_ELIGIBLE], "ns"),
            Fact("not_eligible_ns", total[Verdict.NOT_ELIGIBLE], "ns"),
            Fact("share_low", tensor / whole if whole else None, "share"),
            Fact("share_high", (tensor + unknown) / whole if whole else None, "share"),
            Fact("counter_share", counted.share if counted else None, "share"),
            Fact("counter_share_low", counted.share_low if counted else None, "share"),
        ),
        tables={
            "kernels": _by_kernel(kernels),
            "phases": _by_phase(context, kernels, verdict),
            "not_used": unused,
        },
        findings=(*advice, *contradictions(counted, window)),
        notes=_notes(context),
    )


def _notes(context: TraceContext) -> tuple[str, ...]:
    notes = ["Shares are of the summed time of compute kernels, without collectives, copies and memsets."]
    gpus = context.trace.gpus
    if gpus and not any(has_tensor_cores(gpu.name, gpu.compute_capability) for gpu in gpus):
        notes.append(NO_TENSOR_CORES)
    if len(context.trace[tables.GRAPHS]):
        notes.append(
            "CUDA graphs were traced as a whole: these numbers do not include the kernels inside them. "
            "Capture again with --cuda-graph-trace=node."
        )
    return tuple(notes)


def _by_kernel(kernels: ClassifiedKernels) -> pd.DataFrame:
    """Return kernels by name and classification, longest time first."""
    keys = ["name", "verdict", "precision", "library", "op"]
    kinds = [tuple(str(getattr(each, key)) for key in keys) for each in kernels.classifications]
    total = np.zeros(len(kinds), np.int64)
    np.add.at(total, kernels.code, kernels.duration)
    return sums_by_text(keys, kinds, 1, total_ns=total, count=np.bincount(kernels.code, minlength=len(kinds)))


def _by_phase(context: TraceContext, kernels: ClassifiedKernels, verdict: npt.NDArray[np.int8]) -> pd.DataFrame:
    phase, duration = kernels.phase + 1, kernels.duration
    width = len(context.phases.names) + 1
    order = list(Verdict)
    sums = {
        column: np.bincount(phase[chosen], weights=duration[chosen], minlength=width).astype(np.int64)
        for column, chosen in (
            ("kernel_ns", np.ones(len(phase), bool)),
            ("tensor_ns", verdict == order.index(Verdict.TENSOR)),
            ("unknown_ns", verdict == order.index(Verdict.UNKNOWN)),
        )
    }
    frame = pd.DataFrame({"phase": [context.phases.name(code - 1) for code in range(width)], **sums})
    return frame[frame["kernel_ns"] > 0].sort_values(["kernel_ns", "phase"], ascending=[False, True], ignore_index=True)


SECTION = SectionSpec(
    key="tensor_cores",
    title="Tensor cores",
    run=run,
    about=About.BOTH,
    of_operations=True,
    place=50,
    on_page_only=False,
    group=PageGroup.GPU,
    columns={
        "kernels": "name verdict precision library op total_ns count",
        "not_used": "name reason phase total_ns count",
        "phases": "phase kernel_ns tensor_ns unknown_ns",
    },
    kinds={Kind.TEXT: "library precision reason verdict"},
    captions={
        "kernels": "Tensor-core use by kernel name",
        "phases": "By phase",
        "not_used": "Matrix work without tensor cores, and the reason",
    },
    headings={
        "tensor_ns": "tensor cores",
        "verdict": "tensor cores",
        "reason": "why not",
    },
    facts={
        "kernel_ns": "time in kernels",
        "tensor_ns": "in tensor-core kernels",
        "unknown_ns": "in kernels whose name does not show it",
        "simt_eligible_ns": "in matrix kernels that do not use tensor cores",
        "not_eligible_ns": "in kernels without matrix work",
        "share_low": "tensor-core share, at least",
        "share_high": "tensor-core share, at most",
        "counter_share": "tensor pipes active by counter, at most",
        "counter_share_low": "tensor pipes active by counter, at least",
    },
)
