"""The share of kernel time on tensor cores, by kernel name: a lower and an upper bound."""

from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Window
from nsyswrap.base.row_sums import sums_by_text
from nsyswrap.base.rows import taken
from nsyswrap.hardware.kernel_names.classify import Verdict
from nsyswrap.hardware.tensor_cores import has_tensor_cores
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Fact, Section
from nsyswrap.sections.launch_groups import kernels_in
from nsyswrap.sections.places import place_lines
from nsyswrap.sections.spec import About, Kind, PageGroup, SectionSpec
from nsyswrap.sections.tensor_cores import layout_kernels
from nsyswrap.sections.tensor_cores.counter_check import contradictions, count_tensor_work
from nsyswrap.sections.tensor_cores.eligibility import ClassifiedKernels, find_findings, not_used, on_tensor_cores
from nsyswrap.trace import tables
from nsyswrap.what_if.saving import predict
from nsyswrap.what_if.simulate import Simulation

NO_TENSOR_CORES = "No GPU of this capture has tensor cores."


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
    return Section(
        key="tensor_cores",
        title="Tensor cores",
        window=window,
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
        "unknown_ns": "unknown",
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
