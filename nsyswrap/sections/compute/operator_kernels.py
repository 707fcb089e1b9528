"""The compute kernels with the operators that launched them, for findings that name a module and a line."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from nsyswrap.base import units
from nsyswrap.base.intervals import Window
from nsyswrap.events.xray_record import ITEM_BYTES, Tensor, tensors_of
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Finding, Severity
from nsyswrap.operators.join import JoinedKernels, has_operators, join_kernels
from nsyswrap.operators.observed_calls import OperatorCall
from nsyswrap.operators.work import ADDS, plain
from nsyswrap.sections.compute.kernel_groups import GroupedKernels
from nsyswrap.sections.places import Place, time_by_place
from nsyswrap.sections.severity import NOTE_SHARE, make_finding
from nsyswrap.what_if.saving import WhatIf, predict
from nsyswrap.what_if.simulate import Simulation

UNKNOWN = "an unknown module"
Flags = npt.NDArray[np.bool_]


def find_operators(context: TraceContext, kernels: GroupedKernels) -> JoinedKernels | None:
    """Return the kernels with their operators; None where the capture does not show them."""
    if not has_operators(context):
        return None
    return join_kernels(context, kernels.rows, np.asarray(kernels.inside))


def of_calls(joined: JoinedKernels, wanted: Callable[[OperatorCall], bool]) -> Flags:
    """Return which kernels wanted calls of operators launched."""
    return np.append([wanted(each) for each in joined.calls], False)[joined.call].astype(bool)


def inputs(call: OperatorCall) -> tuple[Tensor, ...]:
    """Return the tensors that a call took."""
    return () if call.operator is None else tuple(tensors_of(call.operator.inputs))


def outputs(call: OperatorCall) -> tuple[Tensor, ...]:
    """Return the tensors that a call returned."""
    return () if call.operator is None else tuple(tensors_of(call.operator.outputs))


def all_tensors(call: OperatorCall) -> tuple[Tensor, ...]:
    """Return the tensors that a call took and returned."""
    return (*inputs(call), *outputs(call))


def factors(call: OperatorCall) -> tuple[Tensor, ...]:
    """Return the two matrices, or batches of them, that a product multiplies."""
    return inputs(call)[1:3] if plain(call.name) in ADDS else inputs(call)[:2]


def item_bytes(tensor: Tensor) -> int:
    """Return the bytes of an element; 0 for an unknown type."""
    return ITEM_BYTES.get(tensor.dtype, 0)


def costliest_places(joined: JoinedKernels, chosen: Flags) -> dict[Place, int]:
    """Return the time of some kernels by place, the most time first, in ns."""
    return time_by_place(joined.calls, joined.call[chosen], joined.own_ns[chosen])


def named(places: Iterable[Place]) -> str:
    """Return the first of some places in words, and how many more there are."""
    first, *others = dict.fromkeys(map(str, places)) or (UNKNOWN,)
    return f"{first} and {units.counted(len(others), 'other place')}" if others else first


def find_if_costly(  # noqa: PLR0913 - the parts of a finding that differ
    *,
    rule: str,
    headline: str,
    words: Mapping[str, str],
    lost_ns: int,
    change: Callable[[Simulation], WhatIf],
    advice: str,
    evidence: tuple[str, ...],
    simulation: Simulation,
    kernels: GroupedKernels,
    window: Window,
    worst: Severity = Severity.PROBLEM,
) -> tuple[Finding, ...]:
    """Return the finding where the kernels take enough of the window, or the fix saves as much with their launches.

    Args:
        rule: Key of the rule.
        headline: One sentence with ``{share}``, the share of the window, and other fields.
        words: The texts for those fields.
        lost_ns: Time of the kernels in the window, summed over the GPUs.
        change: Returns the change that is simulated.
        advice: The change to make.
        evidence: The numbers that support it.
        simulation: The run as it was.
        kernels: All compute kernels of the window.
        window: Window of the kernels.
        worst: The highest severity that it can have.
    """
    share, saving = kernels.share_of(lost_ns, window), predict(simulation, change)
    saved = saving.time.point if saving.time else 0
    if max(share, saved / window.length_ns) < NOTE_SHARE:
        return ()
    finding = make_finding(
        rule=rule,
        headline=headline.format(share=units.share(share), **words),
        lost_ns=kernels.per_gpu(lost_ns),
        saving=saving,
        advice=advice,
        evidence=evidence,
        device_id=None,
        window=window,
        worst=worst,
    )
    return (finding,)
