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
from nsyswrap.what_if.affected_parts import before_launches
from nsyswrap.what_if.dependency_graph import Change
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


def memory_rate(context: TraceContext) -> float:
    """Return the bytes that the slowest GPU's memory moves in a ns at most, as measured or published; 0 if unknown."""
    measured, gpus = context.settings.product_rates, context.trace.gpus
    rates = [measured.peak(each, "memory") or each.memory_bytes_per_second or 0 for each in gpus]
    return min(rates, default=0) / 1e9


def costliest_places(joined: JoinedKernels, chosen: Flags) -> dict[Place, int]:
    """Return the time of some kernels by place, the most time first, in ns."""
    return time_by_place(joined.calls, joined.call[chosen], joined.own_ns[chosen])


def named(places: Iterable[Place]) -> str:
    """Return the first of some places in words, and how many more there are."""
    first, *others = dict.fromkeys(map(str, places)) or (UNKNOWN,)
    return f"{first} and {units.counted(len(others), 'other place')}" if others else first


def without(joined: JoinedKernels, chosen: Flags, assumed: str, simulation: Simulation) -> WhatIf:
    """Return the change "these kernels do not run", nor does the host launch them."""
    rows = joined.rows[chosen & np.isin(joined.rows, simulation.operations)]
    return WhatIf(Change(operations=rows, factor=0.0, host=before_launches(simulation, rows)), assumed)


def fewer(  # noqa: PLR0913 - what there is one of, what remains of it, and in words
    joined: JoinedKernels,
    group: npt.NDArray[np.intp],
    remain: Mapping[int, float],
    assumed: str,
    simulation: Simulation,
    *,
    or_nothing: bool = False,
) -> WhatIf:
    """Return the change "the kernels of each group are one": the costliest call stays, and takes what remains.

    Args:
        joined: The kernels.
        group: Group of each call; -1 for none.
        remain: The share of its time that remains, by group.
        assumed: The change in words.
        simulation: The run as it was.
        or_nothing: Whether it may save nothing.
    """
    calls = joined.call
    own = np.bincount(calls[calls >= 0], joined.own_ns[calls >= 0], len(group))
    factor = np.ones(len(group) + 1)
    for number, share in remain.items():
        mine = np.flatnonzero(group == number)
        if len(mine):
            stays = mine[np.argmax(own[mine])]
            factor[mine] = 0.0
            factor[stays] = share * own[mine].sum() / max(own[stays], 1.0)
    chosen = np.isin(joined.rows, simulation.operations) & joined.exact & (np.append(group, -1)[calls] >= 0)
    rows, factors = joined.rows[chosen], factor[calls[chosen]]
    change = Change(operations=rows, factor=factors, host=before_launches(simulation, rows[factors == 0]))
    return WhatIf(change, assumed, or_nothing)


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
    is_usual: bool = False,
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
        is_usual: Whether many programs lose some time so: then a small loss with a small sure saving is a note.
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
        usual_share=share if is_usual else None,
    )
    return (finding,)
