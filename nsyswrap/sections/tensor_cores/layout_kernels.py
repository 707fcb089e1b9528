"""How much time goes into turning tensors to the layout that tensor cores want, and back."""

import numpy as np
import pandas as pd

from nsyswrap import units
from nsyswrap.intervals import Indices, Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Finding, Severity
from nsyswrap.sections.idle_findings import NOTE_SHARE, PROBLEM_SHARE, WARNING_SHARE
from nsyswrap.sections.tensor_cores.eligibility import ClassifiedKernels
from nsyswrap.what_if.changes import HALF, faster, gains

# The rule and the library of the kernels that cuDNN puts around a convolution. Other kernels that move values, such as
# those of torch.cat, and transposes for other products, go on with any layout of images.
RULE, LIBRARY = "layout", "cudnn"
# What a convolution and the kernels around it are called.
CONVOLUTION = "conv"
DEAREST = 3


def findings(context: TraceContext, launches: ClassifiedKernels, rows: Indices, window: Window) -> tuple[Finding, ...]:
    """Return one finding where kernels that turn layouts for convolutions take 2 % of the window or more.

    Args:
        context: The trace and its operations.
        launches: The kernels of a window with what their names say.
        rows: The same as rows of the context's operations.
        window: Stretch they are about.
    """
    if not any(each.op.startswith(CONVOLUTION) for each in launches.found):
        return ()
    turns = np.array([each.rule == RULE and each.library == LIBRARY for each in launches.found], bool)
    mine = np.flatnonzero(turns[launches.code]) if len(launches.code) else np.empty(0, np.intp)
    cost = int(launches.duration[mine].sum())
    share = cost / window.length_ns
    if share < NOTE_SHARE:
        return ()
    gained = gains(
        context, window, lambda *_: faster(rows[mine], HALF, 0.0, "half of those kernels are left out, or all of them")
    )
    frame = pd.DataFrame({"kind": launches.code[mine], "duration": launches.duration[mine]})
    summed = frame.groupby("kind")["duration"].agg(["sum", "size"]).sort_values("sum", ascending=False)
    grave = Severity.PROBLEM if share >= PROBLEM_SHARE else Severity.WARNING
    return (
        Finding(
            rule="tensor_cores/layout",
            severity=grave if share >= WARNING_SHARE else Severity.NOTE,
            headline=f"Kernels that only turn tensors into another layout take {units.share(share)} of the time.",
            lost_ns=cost,
            saving_low_ns=gained.low_ns,
            saving_high_ns=gained.high_ns,
            advice="Keep images with channels last: model.to(memory_format=torch.channels_last), and the same for each "
            "batch, so that convolutions take them as they are.",
            evidence=(*_dearest(launches, summed), *gained.said),
            device_id=None,
            window=window,
        ),
    )


def _dearest(launches: ClassifiedKernels, summed: pd.DataFrame) -> tuple[str, ...]:
    """Return a line for each of the kernels that take most time."""
    return tuple(
        f"{units.duration(int(time))} in {count} launches of {launches.found[int(str(kind))].name}"
        for kind, time, count in summed.head(DEAREST).itertuples()
    )
