"""Time spent on converting tensors to the layout that tensor cores need, and back."""

import re

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base import units
from nsyswrap.base.intervals import Indices, Window
from nsyswrap.events.xray_record import tensors_of
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Finding
from nsyswrap.operators.candidates import channels_last, with_alternatives
from nsyswrap.operators.join import find_launchers
from nsyswrap.operators.observed_calls import OperatorCall
from nsyswrap.operators.work import plain
from nsyswrap.rules import tensor_cores
from nsyswrap.rules.program_kind import Wording
from nsyswrap.sections.places import LISTED, place_lines
from nsyswrap.sections.severity import make_finding, worth_printing
from nsyswrap.sections.tensor_cores.eligibility import ClassifiedKernels
from nsyswrap.what_if.saving import WhatIf, faster, predict
from nsyswrap.what_if.simulate import Simulation

# The name rule and the library of the kernels that cuDNN runs around a convolution. Other kernels that move values,
# such as those of torch.cat or transposes for other products, do not depend on the layout of images.
RULE, LIBRARY = "layout", "cudnn"
# Names of convolutions begin with this.
CONVOLUTION = "conv"
# Copies of images between both layouts: the channels go behind the places, or before them.
COPY, IMAGES, MOVED = "copy_", 4, frozenset({(0, 2, 3, 1), (0, 3, 1, 2)})
# Kernels of PyTorch's group norm. On a GPU it copies images to channels-first layout. Source: group_norm.cpp; a U-Net
# with group norms on an H200 took 16.4 ms a step, and 22.4 ms with channels last.
GROUP_NORM = re.compile(r"Compute(?:Internal|BackwardFused)\w*CUDAKernel|ComputeFusedParamsCUDAKernel|GroupNorm")
TIME_BOTH = Wording(
    " Time both layouts: PyTorch's group norm copies each image back to channels first, so a network with group norms "
    "can be slower.",
    "",
)


def find_findings(
    simulation: Simulation, kernels: ClassifiedKernels, rows: Indices, gpus: int, window: Window
) -> tuple[Finding, ...]:
    """Return a finding where kernels that convert layouts for convolutions take enough of the window of their GPUs."""
    if not any(each.op.startswith(CONVOLUTION) for each in kernels.classifications):
        return ()
    by_library = np.array([each.rule == RULE and each.library == LIBRARY for each in kernels.classifications], bool)
    converts = by_library[kernels.code] | _copies(simulation.context, rows)
    mine = np.flatnonzero(converts)
    lost = round(int(kernels.duration[mine].sum()) / gpus)
    if not worth_printing(lost, window):
        return ()
    frame = pd.DataFrame({"kind": kernels.code[mine], "duration": kernels.duration[mine]})
    summed = frame.groupby("kind")["duration"].agg(["sum", "size"]).sort_values("sum", ascending=False)
    share = units.share(lost / window.length_ns)
    converts_back = any(GROUP_NORM.search(each.name) for each in kernels.classifications)
    change = faster(rows[mine], 0.0, "those kernels are left out", or_nothing=converts_back)

    def what(run: Simulation) -> WhatIf:
        return with_alternatives(run, change, rows, kernels.duration, converts, channels_last)

    named = kernels.classifications
    costliest = tuple(
        f"{units.duration(int(time))} in {units.counted(count, 'launch')} of {named[int(str(kind))].name}"
        for kind, time, count in summed.head(LISTED).itertuples()
    )
    return (
        make_finding(
            rule=tensor_cores.LAYOUT,
            headline=tensor_cores.LAYOUT.headline.format(share=share),
            lost_ns=lost,
            saving=predict(simulation, what),
            advice=tensor_cores.LAYOUT.advice + (TIME_BOTH if converts_back else ""),
            evidence=(
                *costliest,
                *place_lines(simulation.context, rows[mine], kernels.duration[mine]),
            ),
            window=window,
            is_note=converts_back,
        ),
    )


def _copies(context: TraceContext, rows: Indices) -> npt.NDArray[np.bool_]:
    """Return which kernels copy images between both layouts, where the X-ray step shows it."""
    if context.xray is None:
        return np.zeros(len(rows), np.bool_)
    found = find_launchers(context)
    copies = np.append([_moves_channels(each) for each in found.calls], False).astype(np.bool_)
    return copies[found.call[rows]] & found.exact[rows]


def _moves_channels(call: OperatorCall) -> bool:
    """Return whether a copy moves the channels of images before or behind their places in memory.

    Heads of attention, which other copies move, swap two sizes.
    """
    tensors = [] if call.operator is None else list(tensors_of(call.operator.inputs))[:2]
    if plain(call.name) != COPY or len(tensors) <= 1 or tensors[0].dtype != tensors[1].dtype:
        return False
    (target, source), order = tensors, range(IMAGES)
    to, of = target.strides, source.strides
    if to is None or of is None or len(to) != IMAGES or min(target.shape[1:]) <= 1:
        return False
    before, after = sorted(order, key=lambda at: -of[at]), sorted(order, key=lambda at: -to[at])
    return tuple(before.index(each) for each in after) in MOVED
