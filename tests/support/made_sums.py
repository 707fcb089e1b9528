"""Sums of captures made by hand, with totals that add up."""

from dataclasses import replace

from nsyswrap.many.capture_sums import LEDGER, CaptureSums, FindingSum, KernelSum

MS = 1_000_000


def made_sums(step_ms: int = 10, *, host: str = "host-aa", day: str = "2026-11-20", **fields: object) -> CaptureSums:
    """Return the sums of ten steps of a program on one GPU: half of each step is compute, the rest waits for data.

    Args:
        step_ms: Length of a step in ms.
        host: Neutral name of the machine.
        day: When it ran.
        **fields: Other fields of ``CaptureSums``.
    """
    half = 5 * step_ms * MS
    made = CaptureSums(
        program="train.py",
        arguments="",
        gpus=("NVIDIA H200",),
        host=host,
        started_utc=f"{day}T08:00:00",
        nsys_version="2025.3.2",
        window_ns=2 * half,
        step_count=10,
        step_ns=step_ms * MS,
        verdict="The GPU waits for data.",
        ledger=dict.fromkeys(LEDGER, 0) | {"compute_ns": half, "idle_ns": half},
        idle={"idle/data_wait": half},
        findings=(
            FindingSum("idle/data_wait", "problem", half, half // 2),
            FindingSum("copies/exposed", "note", 0, None),
        ),
        kernels=(KernelSum("gemm", 100, half),),
        other_kernels=KernelSum("", 0, 0),
    )
    return replace(made, **fields)  # type: ignore[arg-type]
