"""The verdict: the first finding in a sentence, with what a step takes now and what it would take with the fix."""

from collections.abc import Sequence

from nsyswrap import units
from nsyswrap.intervals import Window
from nsyswrap.model import Finding, Section, Severity, StepTimes

IF_FIXED = {
    "idle/data_wait": "if the data loader kept up",
    "idle/data_work": "if worker processes prepared the data",
    "idle/cpu": "without that CPU time",
    "idle/launch": "with fewer launches",
    "idle/queued": "if operations began at once",
    "idle/synchronization": "without these waits",
    "idle/blocking_copy": "if copies did not block",
    "idle/allocation": "without allocations in the step",
    "idle/module_load": "if everything were loaded before",
    "idle/lock": "without waits for locks",
    "idle/off_cpu": "with enough CPU cores",
    "capture/overhead": "without the ranges in inner loops",
    "modules/in_window": "if everything were compiled before",
    "memory/churn": "without allocations in the step",
    "data/worker_start": "if loader processes were kept",
    "gpu/between_operations": "with fewer operations",
    "synchronization/in_step": "without waits inside the step",
    "launches/launch_bound": "with fewer launches",
    "optimizer/many_kernels": "with a fused optimizer",
    "steps/uneven": "if all steps were alike",
    "copies/pageable": "with pinned memory",
    "copies/exposed": "if kernels hid the copies",
    "communication/exposed": "if kernels hid the communication",
    "tensor_cores/not_used": "on tensor cores",
    "tensor_cores/layout": "with channels last",
    "occupancy/small_grid": "with larger grids",
    "occupancy/low": "with more warps",
}
"""How a sentence ends that says what a step takes if a finding is fixed, by rule."""

# Findings that say that the capture does not show the cause.
CANNOT_TELL = ("idle/unknown", "idle/not_traced")
# Below this share of the time nothing that the capture cannot show limits the run. Source: ours.
LIMIT_SHARE = 0.10


def find_verdict(
    sections: Sequence[Section], findings: Sequence[Finding], window: Window, step: StepTimes
) -> tuple[str, str | None]:
    """Return one sentence on what limits the run, and the rule of the finding that it states.

    Args:
        sections: The sections of the report.
        findings: All findings, in order.
        window: Interval that they are about.
        step: The measured steps of the window.

    Returns:
        The sentence, and the rule of the first finding; None for the rule where kernels alone limit the run, and where
        the capture cannot tell.
    """
    by_key = {section.key: section for section in sections}
    if "ledger" not in by_key:
        return "No GPU work was recorded: this says where the host's time went, not the GPU's.", None
    first = findings[0] if findings else None
    affected_ns = _affected(by_key.get("capture_check"))
    if affected_ns > max(first.lost_ns if first else 0, LIMIT_SHARE * window.length_ns):
        share = units.share(affected_ns / window.length_ns)
        return f"Cannot tell: the capture is incomplete, and up to {share} of the time may be wrong.", None
    if first is None or first.severity is Severity.NOTE:
        unexplained = sum(each.lost_ns for each in findings if each.rule in CANNOT_TELL)
        if unexplained >= LIMIT_SHARE * window.length_ns:
            share = units.share(unexplained / window.length_ns)
            return f"Cannot tell: the GPU is idle for {share} of the time and the capture does not show why.", None
        return _compute_bound(by_key["ledger"], window), None
    return f"{first.headline}{_per_step(first, window, step)}", first.rule


def _affected(check: Section | None) -> int:
    """Return how much of the window can be wrong because the capture is incomplete, in ns."""
    fact = check.fact("affected_ns") if check else None
    return int(fact.value) if fact and isinstance(fact.value, int | float) else 0


def _per_step(finding: Finding, window: Window, step: StepTimes) -> str:
    """Return what a step takes and what it would take if a finding were fixed; empty where there are no steps."""
    if not step.count or not step.median_ns:
        return ""
    # The median does not change where a few long steps get shorter.
    uneven = finding.rule == "steps/uneven"
    length, on_average = (window.length_ns // step.count, " on average") if uneven else (step.median_ns, "")
    now = f" A step takes {units.duration(length)}{on_average}"
    if finding.saving_low_ns is None or not finding.saving_high_ns:
        return f"{now}."
    savings = (finding.saving_high_ns, finding.saving_low_ns)
    low, high = (units.duration(max(length - saving // step.count, 0)) for saving in savings)
    return f"{now}; {low if low == high else f'{low} to {high}'} {IF_FIXED.get(finding.rule, 'if fixed')}."


def _compute_bound(ledger: Section, window: Window) -> str:
    """Return the verdict where no finding is worth a warning."""
    devices = ledger.tables["devices"]
    share = units.share(int(devices["compute_ns"].sum()) / int(devices["window_ns"].sum()))
    return f"Compute-bound: kernels run {share} of the time, in {window.label}."
