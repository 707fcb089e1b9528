"""Reports made by hand, shared and never changed: every section, sums that add up, and names as in real captures."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from hand_made_sections import PLAN, more_sections
from whole_tables import whole_section

from nsyswrap.base.interval import between
from nsyswrap.base.intervals import Window
from nsyswrap.model import NO_PLAN, Capture, Fact, Finding, Gpu, Report, Section, Session, Severity, StepTimes

MS = 1_000_000
WINDOW = Window(1_200 * MS, 3_200 * MS, "steps 3 to 20", "steps")
GEMM = (
    "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x1_tn_align8>"
    "(cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x1_tn_align8::Params)"
)
SGEMM = "void gemmSN_TN_kernel<float, 128, 16, 2, 4, 4, 4, true, cublasGemvTensorStridedBatched<float const>>(float)"
ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "std::array<char*, 3ul>>(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)
HOSTILE = "<img src=x onerror=alert(1)></script>`|\u202e\x1b[31m\"'&\n=cmd()"


@cache
def full_report() -> Report:
    """Return a report on one GPU with each section of ``SECTIONS``."""
    sections = (
        _ledger(), _idle(), _tensor_cores(), _phases(), _steps(), _kernels(), _copies(), _calls("host_calls"),
        _calls("os_calls"), *more_sections(WINDOW, (GEMM, SGEMM, ELEMENTWISE)), _capture_check(),
    )  # fmt: skip
    sections = tuple(map(whole_section, sections))
    findings = tuple(finding for section in sections for finding in section.findings)
    return Report(
        capture=Capture("capture.sqlite", 8_671_232),
        session=_session(),
        gpus=(Gpu(0, "NVIDIA H200", (9, 0), 132, 150_754_820_096),),
        window=WINDOW,
        verdict="The training loop waits for its data loader in 18 of 18 steps.",
        sections=sections,
        findings=tuple(sorted(findings, key=lambda one: one.order)),
        notes=("The capture has no NCCL projection.",),
        verdict_rule="idle/data_wait",
        step=StepTimes(18, 111 * MS),
        plan=PLAN,
    )


@cache
def two_gpu_report() -> Report:
    """Return the full report with a second, busier GPU in the ledger and in the idle time."""
    report = full_report()
    devices = pd.concat([_devices(), _devices().assign(device_id=1, compute_ns=1_700 * MS, idle_ns=132 * MS)])
    devices["window_ns"] = devices.drop(columns=["device_id", "window_ns"]).sum(axis="columns")
    attribution = pd.concat([_attribution(), _frame([(1, "cpu", "idle/cpu", "forward", 132 * MS, 40)])])
    changed = {"ledger": {"devices": devices}, "idle": {"attribution": attribution}}
    sections = tuple(
        replace(section, tables={**section.tables, **changed.get(section.key, {})}) for section in report.sections
    )
    second = Gpu(1, "NVIDIA H200", (9, 0), 132, 150_754_820_096)
    return replace(report, gpus=(*report.gpus, second), sections=sections)


@cache
def no_gpu_report() -> Report:
    """Return the report of a program without GPU work: it has phases, steps and OS calls only."""
    window = Window(0, 2_000 * MS, "the whole capture", "session")
    report = replace(full_report(), plan=NO_PLAN)
    kept = ("phases", "steps", "os_calls", "capture_check")
    return replace(
        report,
        gpus=(),
        window=window,
        verdict="No GPU work was seen in this capture.",
        sections=tuple(replace(one, window=window) for one in report.sections if one.key in kept),
        findings=(),
        verdict_rule=None,
        notes=("ledger, idle and tensor_cores were skipped: the capture holds no GPU operations.",),
    )


def empty_report() -> Report:
    """Return a report without sections."""
    window = Window(0, 1, "nothing", "session")
    return Report(Capture("", 0), Session(), (), window, "Nothing was measured.", (), ())


@cache
def hostile_report() -> Report:
    """Return the full report in which each text that a program can choose is hostile."""
    report = full_report()
    return replace(
        report,
        capture=Capture(HOSTILE, 1),
        session=replace(report.session, command=("python", HOSTILE), traces=(HOSTILE,)),
        gpus=(Gpu(0, HOSTILE),),
        window=replace(report.window, label=HOSTILE),
        verdict=HOSTILE,
        sections=tuple(_hostile(section) for section in report.sections),
        findings=tuple(
            replace(one, rule=HOSTILE, headline=HOSTILE, advice=HOSTILE, evidence=(HOSTILE,)) for one in report.findings
        ),
        notes=(HOSTILE,),
    )


def gap_report(row_count: int) -> Report:
    """Return the full report with that many rows of gaps; two rows are one gap of 3 µs.

    Args:
        row_count: Rows of the table ``gaps``; even.
    """
    start = 1_200 * MS + np.arange(row_count, dtype=np.int64) * 2_000
    start[1::2] = start[::2] + 1_000
    end = start + np.tile([1_000, 2_000], row_count // 2)
    phase = np.tile(["data", "forward"], row_count // 2)
    table = pd.DataFrame({"device_id": 0, "start_ns": start, "end_ns": end, "cause": "cpu", "phase": phase})
    table["rule"] = "idle/cpu"
    table["evidence"] = "no call open"
    return with_tables(full_report(), "idle", gaps=table)


def section_of(report: Report, key: str) -> Section:
    found = report.section(key)
    assert found is not None
    return found


def with_tables(report: Report, key: str, **tables: pd.DataFrame) -> Report:
    """Return a report with other tables in one of its sections."""
    changed = section_of(report, key)
    changed = replace(changed, tables={**changed.tables, **tables})
    return replace(report, sections=tuple(changed if one.key == key else one for one in report.sections))


def section_with(key: str, **tables: pd.DataFrame) -> Section:
    """Return a section that no renderer knows, with these tables."""
    return whole_section(Section(key, f"Section {key}", WINDOW, tables=tables))


def names_table(*names: str) -> pd.DataFrame:
    return pd.DataFrame({"name": list(names), "total_ns": [1_500 * (at + 1) for at in range(len(names))]})


def report_with(*sections: Section) -> Report:
    """Return the empty report with these sections."""
    return replace(empty_report(), sections=sections, window=WINDOW)


def _session() -> Session:
    return Session(
        nsys_version="2025.3.2.0",
        schema_version="3.20.3",
        started_utc="2026-11-21T04:10:31Z",
        duration_ns=41_200 * MS,
        command=("python", "train.py", "--batch-size", "64", "--run-name", "a b"),
        traces=("Cuda", "NvtxEvents", "OSRT"),
        graph_trace="Node",
        driver_version="580.159.04",
        cuda_version="13.0",
        secrets=("HF_TOKEN",),
    )


def _devices() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "device_id": [0],
            "window_ns": [2_000 * MS],
            "compute_ns": [1_060 * MS],
            "communication_wait_ns": [0],
            "communication_transfer_ns": [100 * MS],
            "copy_exposed_ns": [66 * MS],
            "memset_exposed_ns": [2 * MS],
            "idle_ns": [772 * MS],
        }
    )


def _ledger() -> Section:
    edges = np.linspace(1_200 * MS, 3_200 * MS, 121).astype(np.int64)
    busy = np.clip(0.614 + 0.38 * np.sin(np.arange(120) / 2.1), 0, 1)
    over_time = pd.DataFrame({"device_id": 0, "start_ns": edges[:-1], "end_ns": edges[1:], "busy_share": busy})
    return Section("ledger", "Where the time went", WINDOW, tables={"devices": _devices(), "over_time": over_time})


def _frame(rows: list[tuple[int, str, str, str, int, int]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["device_id", "cause", "rule", "phase", "idle_ns", "gap_count"])


def _attribution() -> pd.DataFrame:
    rows = [
        (0, "data_wait", "idle/data_wait", "data", 601 * MS, 18),
        (0, "launch", "launches/launch_bound", "backward", 60 * MS, 2_310),
        (0, "cpu", "optimizer/many_kernels", "optimizer", 51 * MS, 640),
        (0, "synchronization", "synchronization/in_step", "forward", 30 * MS, 36),
        (0, "cpu", "launches/launch_bound", "backward", 20 * MS, 1_100),
        (0, "unknown", "idle/unknown", "none", 10 * MS, 7),
    ]
    return _frame(rows)


def _patterns() -> pd.DataFrame:
    rows = [
        (0, "idle/data_wait", "data", 18, 33 * MS, 601 * MS, 1.0),
        (0, "launches/launch_bound", "backward", 2_310, 34_000, 80 * MS, 128.3),
    ]
    names = ["device_id", "rule", "phase", "count", "median_ns", "idle_ns", "per_step"]
    return pd.DataFrame(rows, columns=names)


def _idle() -> Section:
    rows: list[tuple[Any, ...]] = []
    for step in range(18):
        start = (1_210 + 111 * step) * MS
        wait, launch = "idle/data_wait", "launches/launch_bound"
        middle, end = start + 33 * MS, start + (34 + step % 3) * MS
        rows.append((0, start, middle, "data_wait", wait, "data", "pthread_cond_wait 32.6 ms, 4 loader workers"))
        rows.append((0, middle, end, "cpu", "idle/cpu", "data", "no call open"))
        rows.append((0, start + 60 * MS, start + 61 * MS, "launch", launch, "backward", "cudaLaunchKernel"))
    gaps = pd.DataFrame(rows, columns=["device_id", "start_ns", "end_ns", "cause", "rule", "phase", "evidence"])
    finding = Finding(
        rule="idle/data_wait",
        severity=Severity.PROBLEM,
        headline="The training loop waits for its data loader in 18 of 18 steps.",
        lost_ns=601 * MS,
        saving=between(0, 601 * MS),
        advice="Give the DataLoader more workers (num_workers) and keep them between epochs (persistent_workers=True).",
        evidence=("18 gaps, longest 35.0 ms at 1.432000 s", "4 worker processes were busy 98.2 % of the window"),
        device_id=0,
        window=WINDOW,
        saving_method="simulated",
    )
    notes = ("97.2 % of the idle time was joined to a launch on the main thread.",)
    tables = {"attribution": _attribution(), "gaps": gaps, "patterns": _patterns()}
    return Section("idle", "Why the GPU was idle", WINDOW, (), tables, (finding, _launch_bound()), notes)


def _launch_bound() -> Finding:
    """Return a finding whose saving cannot be predicted."""
    return Finding(
        rule="launches/launch_bound",
        severity=Severity.NOTE,
        headline="The GPU waits for launches in the backward phase.",
        lost_ns=80 * MS,
        saving=None,
        advice="Capture the step in a CUDA graph.",
        evidence=("2,310 gaps, median 34.0 µs",),
        device_id=0,
        window=WINDOW,
    )


def _tensor_cores() -> Section:
    facts = (
        Fact("kernel_ns", 1_160 * MS, "ns"),
        Fact("tensor_ns", 476 * MS, "ns"),
        Fact("unknown_ns", 199 * MS, "ns"),
        Fact("simt_eligible_ns", 219 * MS, "ns"),
        Fact("not_eligible_ns", 266 * MS, "ns"),
        Fact("share_low", 476 / 1160, "share"),
        Fact("share_high", 675 / 1160, "share"),
        Fact("counter_share", None, "share"),
    )
    kernels = pd.DataFrame(
        {
            "name": [GEMM, SGEMM, ELEMENTWISE, "triton_poi_fused_add_0"],
            "verdict": ["tensor", "simt_eligible", "not_eligible", "unknown"],
            "precision": ["bf16", "fp32", "", ""],
            "library": ["cutlass", "cublas", "pytorch", "triton"],
            "op": ["gemm", "gemm", "elementwise", ""],
            "total_ns": [476 * MS, 219 * MS, 266 * MS, 199 * MS],
            "count": [864, 216, 12_345, 400],
        }
    )
    phases = pd.DataFrame(
        {
            "phase": ["forward", "backward", "optimizer"],
            "kernel_ns": [400 * MS, 660 * MS, 100 * MS],
            "tensor_ns": [180 * MS, 296 * MS, 0],
            "unknown_ns": [99 * MS, 100 * MS, 0],
        }
    )
    tables = {"kernels": kernels, "phases": phases}
    return Section("tensor_cores", "Tensor cores", WINDOW, facts, tables, (_off_tensor_cores(),))


def _off_tensor_cores() -> Finding:
    return Finding(
        rule="tensor_cores/not_used",
        severity=Severity.WARNING,
        headline="Matrix products in fp32 do not use tensor cores.",
        lost_ns=219 * MS,
        saving=between(60 * MS, 180 * MS),
        advice='Allow TF32: torch.set_float32_matmul_precision("high").',
        evidence=(f"{SGEMM}: 219 ms in 216 calls",),
        device_id=None,
        window=WINDOW,
        saving_method="estimated",
    )


def _phases() -> Section:
    table = pd.DataFrame(
        {
            "phase": ["data", "copy", "forward", "backward", "optimizer", "none"],
            "count": [18, 18, 18, 18, 18, 0],
            "host_ns": [640 * MS, 30 * MS, 420 * MS, 700 * MS, 180 * MS, 30 * MS],
            "gpu_ns": [0, 66 * MS, 400 * MS, 660 * MS, 100 * MS, 2 * MS],
            "idle_ns": [601 * MS, 0, 30 * MS, 80 * MS, 51 * MS, 10 * MS],
            "kernel_count": [0, 0, 4_000, 7_200, 2_600, 25],
        }
    )
    return Section("phases", "Phases", WINDOW, tables={"phases": table})


def _steps() -> Section:
    lengths = [1_900, 240, *(int(111 + 6 * np.sin(7.0 * n)) for n in range(18))]
    ends = np.cumsum(lengths) * MS
    starts = np.concatenate([[0], ends[:-1]])
    table = pd.DataFrame(
        {
            "name": [f"step {n}" for n in range(1, 21)],
            "start_ns": starts,
            "end_ns": ends,
            "warm_up": [True, True, *[False] * 18],
            "compute_ns": (ends - starts) // 2,
            "communication_wait_ns": 0,
            "communication_transfer_ns": 0,
            "copy_exposed_ns": 3 * MS,
            "memset_exposed_ns": 0,
            "idle_ns": (ends - starts) - (ends - starts) // 2 - 3 * MS,
        }
    )
    facts = (
        Fact("measured_steps", 18, "count"),
        Fact("median_ns", 111 * MS, "ns"),
        Fact("p05_ns", 108 * MS, "ns"),
        Fact("p95_ns", 119 * MS, "ns"),
        Fact("warm_up_steps", 2, "count"),
        Fact("warm_up_ns", 2_140 * MS, "ns"),
    )
    return Section("steps", "Steps", WINDOW, facts, {"steps": table})


def _summary(names: list[str], totals: list[int], counts: list[int]) -> pd.DataFrame:
    total, count = np.array(totals, np.int64), np.array(counts, np.int64)
    mean = total / count
    return pd.DataFrame(
        {
            "name": names,
            "count": count,
            "total_ns": total,
            "mean_ns": mean,
            "median_ns": mean.astype(np.int64),
            "min_ns": (mean * 0.6).astype(np.int64),
            "max_ns": (mean * 3).astype(np.int64),
            "stddev_ns": np.where(count > 1, mean / 7, np.nan),
            "share": total / total.sum(),
        }
    )


def _kernels() -> Section:
    names = [GEMM, ELEMENTWISE, SGEMM, "triton_poi_fused_add_0", *(f"small_kernel_{n}" for n in range(60))]
    totals = [476 * MS, 266 * MS, 219 * MS, 199 * MS, *(700 - n for n in range(60))]
    table = _summary(names, totals, [864, 12_345, 216, 400, *[1] * 60])
    return Section("kernels", "Kernels", WINDOW, tables={"summary": table})


def _copies() -> Section:
    table = pd.DataFrame(
        {
            "kind": ["Host-to-Device", "Device-to-Host"],
            "source_memory": ["Pageable", "Device"],
            "target_memory": ["Device", "Pinned"],
            "count": [36, 18],
            "total_ns": [64 * MS, 2 * MS],
            "bytes": [981_467_136, 72],
            "mean_ns": [64 * MS / 36, 2 * MS / 18],
        }
    )
    return Section("copies", "Memory copies", WINDOW, tables={"summary": table})


def _calls(key: str) -> Section:
    if key == "host_calls":
        table = _summary(["cudaLaunchKernel", "cudaStreamSynchronize"], [91 * MS, 30 * MS], [13_800, 36])
        return Section(key, "CUDA API calls", WINDOW, tables={"summary": table})
    table = _summary(["pthread_cond_wait", "poll", "read"], [7_900 * MS, 1_800 * MS, 3 * MS], [900, 36, 500])
    return Section(key, "Operating system calls", WINDOW, tables={"summary": table})


def _capture_check() -> Section:
    facts = (Fact("CUDA events", 74_083, "count"), Fact("CUDA events lost", 0, "count"))
    notes = ("The number of CUDA events equals what nsys says it collected.",)
    return Section("capture_check", "Is the capture whole?", WINDOW, facts, notes=notes)


def _hostile(section: Section) -> Section:
    tables = {
        name: table.assign(**{c: HOSTILE for c in table.columns if table[c].dtype.kind not in "iufb"})
        for name, table in section.tables.items()
    }
    return replace(section, title=HOSTILE, tables=tables, notes=(HOSTILE,), window=replace(WINDOW, label=HOSTILE))
