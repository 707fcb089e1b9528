"""Advice on communication between GPUs that no kernel hides."""

from functools import partial

import numpy as np
import pandas as pd

from nsyswrap import tables, units
from nsyswrap.events.operations import COMMUNICATION
from nsyswrap.intervals import Spans, Window, covered, total
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Finding, Severity
from nsyswrap.sections.idle_findings import NOTE_SHARE, PROBLEM_SHARE, WARNING_SHARE
from nsyswrap.sections.optimizer_kernels import PHASE as OPTIMIZER
from nsyswrap.tables import array
from nsyswrap.what_if.changes import Gains, gains
from nsyswrap.what_if.communication_overlap import PHASE as BACKWARD
from nsyswrap.what_if.communication_overlap import beside_backward

DEAREST = 3
FORWARD, TRAINING = "forward", {BACKWARD, OPTIMIZER}
ADVICE = (
    "Let communication run beside the backward pass: DistributedDataParallel instead of all_reduce after it, smaller "
    "buckets (bucket_cap_mb), and gradients in bfloat16 (bf16_compress_hook)."
)
FORWARD_ADVICE = (
    "There is no backward pass to hide it behind. Communicate less: split the model over fewer GPUs and the batches "
    "over the rest, and send bfloat16. Or take two halves of a batch in turn: one computes while the other is sent."
)
NOT_ESTIMATED = Gains(None, None, ("no gain is given: the forward pass needs what it sends at once",))


def findings(context: TraceContext, window: Window) -> tuple[Finding, ...]:
    """Return a finding for each device that does nothing but communicate for 2 % of the window or more."""
    found = []
    forward = _is_forward_only(context)
    for device in context.operations.devices:
        exposed = context.operations.exclusive(device, window)[COMMUNICATION]
        cost = total(exposed)
        share = cost / window.length_ns
        if share < NOTE_SHARE:
            continue
        grave = Severity.PROBLEM if share >= PROBLEM_SHARE else Severity.WARNING
        gained = NOT_ESTIMATED if forward else gains(context, window, partial(beside_backward, device=device))
        found.append(
            Finding(
                rule="communication/exposed",
                severity=grave if share >= WARNING_SHARE else Severity.NOTE,
                headline=f"The GPU communicates and computes nothing for {units.share(share)} of the time.",
                lost_ns=cost,
                saving_low_ns=gained.low_ns,
                saving_high_ns=gained.high_ns,
                advice=FORWARD_ADVICE if forward else ADVICE,
                evidence=(*_dearest(context, exposed, device, window), *gained.said),
                device_id=device,
                window=window,
            )
        )
    return tuple(found)


def _is_forward_only(context: TraceContext) -> bool:
    """Return whether the phases of the program are known, and it trains nothing."""
    seen = {context.phases.name(code) for code in np.unique(context.phases.ranges["phase"]).tolist()}
    return FORWARD in seen and not seen & TRAINING


def _dearest(context: TraceContext, exposed: Spans, device: int, window: Window) -> tuple[str, ...]:
    """Return a line for each of the collectives that are exposed longest."""
    operations = context.operations
    rows = operations.on(device)
    inside = (operations.start[rows] < window.end_ns) & (operations.end[rows] > window.start_ns)
    rows = rows[inside & (operations.kind[rows] == COMMUNICATION)]
    names = array(context.trace[tables.KERNELS], "name_id")[operations.row[rows]]
    frame = pd.DataFrame(
        {
            "name": names,
            "whole": np.minimum(operations.end[rows], window.end_ns)
            - np.maximum(operations.start[rows], window.start_ns),
            "exposed": covered(exposed, operations.start[rows], operations.end[rows]),
        }
    )
    summed = frame.groupby("name").agg(count=("whole", "size"), whole=("whole", "sum"), exposed=("exposed", "sum"))
    dearest = summed.sort_values(["exposed", "whole"], ascending=False).head(DEAREST)
    return tuple(
        f"{units.duration(int(hidden))} of {units.duration(int(whole))} in {count} launches of "
        f"{context.trace.text(int(str(name)))}"
        for name, count, whole, hidden in dearest.itertuples()
    )
