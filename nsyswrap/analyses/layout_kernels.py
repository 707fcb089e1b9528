"""How much time goes into turning tensors to the layout that tensor cores want, and back."""

import numpy as np
import pandas as pd

from nsyswrap import units
from nsyswrap.analyses.idle_findings import NOTE_SHARE, PROBLEM_SHARE, WARNING_SHARE
from nsyswrap.analyses.why_not_tensor import Launches
from nsyswrap.intervals import Window
from nsyswrap.model import Finding, Severity

# The name that the rules of kernel names give to kernels that move values and compute nothing, around a convolution.
LAYOUT = "layout"
DEAREST = 3


def findings(launches: Launches, window: Window) -> tuple[Finding, ...]:
    """Return one finding where kernels that turn layouts take 2 % of the window or more.

    Args:
        launches: The kernels of a window with what their names say.
        window: Stretch they are about.
    """
    turns = np.array([each.op == LAYOUT for each in launches.found], bool)
    mine = np.flatnonzero(turns[launches.code]) if len(launches.code) else np.empty(0, np.intp)
    cost = int(launches.duration[mine].sum())
    share = cost / window.length_ns
    if share < NOTE_SHARE:
        return ()
    frame = pd.DataFrame({"kind": launches.code[mine], "duration": launches.duration[mine]})
    summed = frame.groupby("kind")["duration"].agg(["sum", "size"]).sort_values("sum", ascending=False)
    grave = Severity.PROBLEM if share >= PROBLEM_SHARE else Severity.WARNING
    return (
        Finding(
            rule="tensor_cores/layout",
            severity=grave if share >= WARNING_SHARE else Severity.NOTE,
            headline=f"Kernels that only turn tensors into another layout take {units.share(share)} of the time.",
            cost_ns=cost,
            gain_low_ns=0,
            gain_high_ns=cost,
            advice="Keep images with channels last: model.to(memory_format=torch.channels_last), and the same for each "
            "batch, so that convolutions take them as they are.",
            evidence=tuple(
                f"{units.duration(int(time))} in {count} launches of {launches.found[int(str(kind))].name}"
                for kind, time, count in summed.head(DEAREST).itertuples()
            ),
            device_id=None,
            window=window,
        ),
    )
