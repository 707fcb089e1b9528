"""What share of kernel time ran on tensor cores: known by kernel name, with what no name tells as a band."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables, units
from nsyswrap.analyses.base import Analysis, Study
from nsyswrap.analyses.kernel_names import Classification, Verdict, classify
from nsyswrap.analyses.operations import COMPUTE
from nsyswrap.intervals import Indices, Times, Window
from nsyswrap.model import Fact, Finding, Section, Severity
from nsyswrap.tables import array

# Eligible kernels without tensor cores are worth a sentence from this share of kernel time on.
NOTE_SHARE, WARNING_SHARE = 0.05, 0.20
# Depthwise convolutions and matrix-vector products gain little from tensor cores: they are bound by memory.
NO_GAIN = frozenset({"conv_depthwise", "gemv"})


def run(study: Study, window: Window) -> Section:
    """Return kernel time by verdict, kernel and phase; collectives are no kernels here."""
    rows = kernels_in(study, window)
    operations = study.operations
    start = np.maximum(operations.start[rows], window.start_ns)
    duration = np.minimum(operations.end[rows], window.end_ns) - start
    verdict, table = _by_kernel(study, rows, duration)
    total = {each: int(duration[verdict == index].sum()) for index, each in enumerate(Verdict)}
    whole = int(duration.sum())
    tensor, unknown = total[Verdict.TENSOR], total[Verdict.UNKNOWN]
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
            Fact("counter_share", None, "share"),
        ),
        tables={"kernels": table, "phases": _by_phase(study, rows, duration, verdict)},
        findings=_findings(table, whole, total, window),
        notes=_notes(study),
    )


def kernels_in(study: Study, window: Window) -> Indices:
    """Return the operations that are compute kernels and touch the window."""
    operations = study.operations
    rows = operations.from_table(tables.KERNELS)
    start, end = operations.start[rows], operations.end[rows]
    found: Indices = rows[(operations.kind[rows] == COMPUTE) & (start < window.end_ns) & (end > window.start_ns)]
    return found


def _notes(study: Study) -> tuple[str, ...]:
    notes = ["Shares are of the summed time of compute kernels; collectives, copies and fills are not among them."]
    if len(study.trace[tables.GRAPHS]):
        notes.append(
            "CUDA graphs were traced as a whole: the kernels inside them are not in these numbers. "
            "Capture again with --cuda-graph-trace=node."
        )
    return tuple(notes)


def _by_kernel(study: Study, rows: Indices, duration: Times) -> tuple[npt.NDArray[np.int8], pd.DataFrame]:
    """Return the verdict of each kernel row, as an index into ``Verdict``, and the table by name."""
    operations, trace = study.operations, study.trace
    ids = array(trace[tables.KERNELS], "name_id")[operations.row[rows]]
    capability = {gpu.device_id: gpu.compute_capability for gpu in trace.gpus}
    devices = operations.device_id[rows]
    codes, unique = pd.factorize(ids * np.int64(1 << 16) + devices)
    found = [classify(trace.text(int(k) >> 16), capability.get(int(k) & 0xFFFF)) for k in unique]
    order = {verdict: index for index, verdict in enumerate(Verdict)}
    verdict = np.array([order[each.verdict] for each in found], np.int8)
    total = np.zeros(len(unique), np.int64)
    np.add.at(total, codes, duration)
    frame = _table(found, total, np.bincount(codes, minlength=len(unique)))
    return (verdict[codes] if len(codes) else np.empty(0, np.int8)), frame


def _table(found: list[Classification], total: Times, count: npt.NDArray[np.intp]) -> pd.DataFrame:
    keys = ["name", "verdict", "precision", "library", "op"]
    frame = pd.DataFrame({key: [str(getattr(each, key)) for each in found] for key in keys})
    frame["total_ns"], frame["count"] = total, count
    merged = frame.groupby(keys, as_index=False, sort=False)[["total_ns", "count"]].sum()
    return merged.sort_values(["total_ns", "name"], ascending=[False, True], ignore_index=True)


def _by_phase(study: Study, rows: Indices, duration: Times, verdict: npt.NDArray[np.int8]) -> pd.DataFrame:
    phase = study.phases.of_operations(study.trace, study.operations)[rows] + 1
    width = len(study.phases.names) + 1
    order = list(Verdict)
    sums = {
        column: np.bincount(phase[chosen], weights=duration[chosen], minlength=width).astype(np.int64)
        for column, chosen in (
            ("kernel_ns", np.ones(len(rows), bool)),
            ("tensor_ns", verdict == order.index(Verdict.TENSOR)),
            ("unknown_ns", verdict == order.index(Verdict.UNKNOWN)),
        )
    }
    frame = pd.DataFrame({"phase": [study.phases.name(code - 1) for code in range(width)], **sums})
    return frame[frame["kernel_ns"] > 0].sort_values(["kernel_ns", "phase"], ascending=[False, True], ignore_index=True)


def _findings(table: pd.DataFrame, whole: int, total: dict[Verdict, int], window: Window) -> tuple[Finding, ...]:
    eligible = table[(table["verdict"] == Verdict.SIMT_ELIGIBLE) & ~table["op"].isin(NO_GAIN)]
    cost = int(eligible["total_ns"].sum())
    if not whole or cost / whole < NOTE_SHARE:
        return ()
    share = units.share(cost / whole)
    has_fp32 = bool((eligible["precision"].isin(["fp32", ""])).any())
    advice = (
        'Let matrix work use tensor cores: torch.set_float32_matmul_precision("high") for TF32, or '
        "torch.autocast with bfloat16 or float16."
        if has_fp32
        else "Keep sizes multiples of 8 and the layout channels_last, so that the libraries can choose tensor cores."
    )
    evidence = [f"{units.duration(int(total[each]))} {each.value.replace('_', ' ')}" for each in Verdict]
    for name, time, count in eligible[["name", "total_ns", "count"]].head(3).itertuples(index=False):
        evidence.append(f"{units.duration(int(time))} in {count} launches of {name}")
    return (
        Finding(
            rule="tensor_cores/not_used",
            severity=Severity.WARNING if cost / whole >= WARNING_SHARE else Severity.NOTE,
            headline=f"{share} of kernel time is matrix work that could run on tensor cores and does not.",
            cost_ns=cost,
            gain_low_ns=0,
            gain_high_ns=cost,
            advice=advice,
            evidence=tuple(evidence),
            device_id=None,
            window=window,
        ),
    )


ANALYSIS = Analysis("tensor_cores", "Tensor cores", (), run, of_operations=True)
