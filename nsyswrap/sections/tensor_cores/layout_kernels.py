"""How much time goes into turning tensors to the layout that tensor cores want, and back."""

import numpy as np
import pandas as pd

from nsyswrap import units
from nsyswrap.intervals import Indices, Window
from nsyswrap.model import Finding
from nsyswrap.sections.severity import make_finding, worth_printing
from nsyswrap.sections.tensor_cores.eligibility import ClassifiedKernels
from nsyswrap.what_if.changes import HALF, faster, predict
from nsyswrap.what_if.simulate import Simulation

# The rule and the library of the kernels that cuDNN puts around a convolution. Other kernels that move values, such as
# those of torch.cat, and transposes for other products, go on with any layout of images.
RULE, LIBRARY = "layout", "cudnn"
# What a convolution and the kernels around it are called.
CONVOLUTION = "conv"
LISTED = 3


def find_findings(
    simulation: Simulation, launches: ClassifiedKernels, rows: Indices, window: Window
) -> tuple[Finding, ...]:
    """Return one finding where kernels that turn layouts for convolutions take 2 % of the window or more.

    Args:
        simulation: The run as it was.
        launches: The kernels of a window with what their names say.
        rows: The same as rows of the context's operations.
        window: Stretch they are about.
    """
    if not any(each.op.startswith(CONVOLUTION) for each in launches.found):
        return ()
    turns = np.array([each.rule == RULE and each.library == LIBRARY for each in launches.found], bool)
    mine = np.flatnonzero(turns[launches.code]) if len(launches.code) else np.empty(0, np.intp)
    lost = int(launches.duration[mine].sum())
    if not worth_printing(lost, window):
        return ()
    frame = pd.DataFrame({"kind": launches.code[mine], "duration": launches.duration[mine]})
    summed = frame.groupby("kind")["duration"].agg(["sum", "size"]).sort_values("sum", ascending=False)
    share = units.share(lost / window.length_ns)
    change = faster(rows[mine], HALF, 0.0, "half of those kernels are left out, or all of them")
    return (
        make_finding(
            rule="tensor_cores/layout",
            headline=f"Kernels that only turn tensors into another layout take {share} of the time.",
            lost_ns=lost,
            saving=predict(simulation, lambda _: change),
            advice="Keep images with channels last: model.to(memory_format=torch.channels_last), and the same for each "
            "batch, so that convolutions take them as they are.",
            evidence=_costliest(launches, summed),
            device_id=None,
            window=window,
        ),
    )


def _costliest(launches: ClassifiedKernels, summed: pd.DataFrame) -> tuple[str, ...]:
    """Return a line for each of the kernels that take most time."""
    return tuple(
        f"{units.duration(int(time))} in {count} launches of {launches.found[int(str(kind))].name}"
        for kind, time, count in summed.head(LISTED).itertuples()
    )
