"""The compute kernels with the operators that launched them, for findings that name a module and a line."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from nsyswrap.base import units
from nsyswrap.base.intervals import Indices, Times
from nsyswrap.events.xray_record import ITEM_BYTES, Tensor, tensors_of
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Finding, Severity
from nsyswrap.operators.join import JoinedKernels, has_operators, join_kernels
from nsyswrap.operators.observed_calls import OperatorCall
from nsyswrap.operators.work import ADDS, plain
from nsyswrap.rules.rule import Advice, Rule
from nsyswrap.sections.compute.kernel_findings import Flags, KernelWindow
from nsyswrap.sections.places import Place, lines_of, time_by_place
from nsyswrap.sections.severity import NOTE_SHARE, make_finding
from nsyswrap.what_if.affected_parts import before_launches
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.saving import WhatIf, predict
from nsyswrap.what_if.simulate import Simulation

UNKNOWN = "an unknown module"
# Share of the memory's peak, or of one that was not measured, that work reaches which is done in another way. Source:
# Nsight Compute's rules call a kernel bounded by a unit from 60 % of its peak on.
USUAL_SHARE = 0.60


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


def is_inside(module: str, outer: str) -> bool:
    """Return whether a module is another one or inside of it, as all are of the model itself, whose name is empty."""
    return module == outer or module.startswith(f"{outer}.") or not outer


def item_bytes(tensor: Tensor) -> int:
    """Return the bytes of an element; 0 for an unknown type."""
    return ITEM_BYTES.get(tensor.dtype, 0)


def memory_rate(context: TraceContext) -> float:
    """Return the bytes that the slowest GPU's memory moves in a ns at most, as measured or published; 0 if unknown."""
    measured, gpus = context.settings.product_rates, context.trace.gpus
    rates = [measured.peak(each, "memory") or each.memory_bytes_per_second or 0 for each in gpus]
    return min(rates, default=0) / 1e9


def named(places: Iterable[Place]) -> str:
    """Return the first of some places in words, and how many more there are."""
    first, *others = dict.fromkeys(map(str, places)) or (UNKNOWN,)
    return f"{first} and {units.counted(len(others), 'other place')}" if others else first


def without(joined: JoinedKernels, chosen: Flags, assumed: str, simulation: Simulation) -> WhatIf:
    """Return the change "these kernels do not run", nor does the host launch them."""
    rows = joined.rows[chosen & np.isin(joined.rows, simulation.operations)]
    return WhatIf(Change(operations=rows, factor=0.0, host=before_launches(simulation, rows)), assumed)


def shortened(
    simulation: Simulation, rows: Indices, factor: npt.NDArray[np.float64], assumed: str, *, or_nothing: bool = False
) -> WhatIf:
    """Return the change "operations take these factors of their time"; the host does not launch those with 0."""
    launches = before_launches(simulation, rows[factor == 0])
    return WhatIf(Change(operations=rows, factor=factor, host=launches), assumed, or_nothing)


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

    ``group`` is that of each call, -1 for none; ``remain`` the share of its time that remains, by group.
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
    return shortened(simulation, joined.rows[chosen], factor[calls[chosen]], assumed, or_nothing=or_nothing)


@dataclass(frozen=True, eq=False)
class OperatorWindow(KernelWindow):
    """The compute kernels of a window with their operators, as rules on operators get them."""

    joined: JoinedKernels

    def costliest_places(self, chosen: Flags) -> dict[Place, int]:
        """Return the time of some kernels by place, the most time first, in ns."""
        return time_by_place(self.joined.calls, self.joined.call[chosen], self.joined.own_ns[chosen])

    def finding(  # noqa: PLR0913 - the parts of a finding that differ
        self,
        rule: Rule,
        chosen: Flags,
        change: Callable[[Simulation], WhatIf],
        *,
        case: Advice | None = None,
        words: Mapping[str, str] = MappingProxyType({}),
        advice: str = "",
        evidence: tuple[str, ...] = (),
        places: Iterable[Place] = (),
        own_ns: Times | None = None,
        worst: Severity = Severity.PROBLEM,
        is_usual: bool = False,
        if_measured: bool = False,
    ) -> tuple[Finding, ...]:
        """Return the finding on some kernels where they take enough of the window, or the fix saves as much.

        Args:
            rule: The rule.
            chosen: Which kernels it is about.
            change: Returns the change that is simulated.
            case: What the finding says; None for the rule itself.
            words: The texts for the headline's fields, besides ``{share}`` and ``{place}``.
            advice: The change to make; empty for that of the case.
            evidence: What follows the lines of the program.
            places: The places for the headline; empty for the costliest ones.
            own_ns: Time of each kernel that counts; None for all of it.
            worst: The highest severity that it can have.
            is_usual: Whether many programs lose some time so: then a small loss with a small sure saving is a note.
            if_measured: Whether it is a note unless most of what it saves was measured.
        """
        if not chosen.any():
            return ()
        joined, kernels, case = self.joined, self.kernels, case or rule
        own = joined.own_ns if own_ns is None else own_ns
        lost_ns, costliest = int(own[chosen].sum()), time_by_place(joined.calls, joined.call[chosen], own[chosen])
        share, saving = kernels.share_of(lost_ns, self.window), predict(self.simulation, change)
        saved = saving.time.point if saving.time else 0
        if max(share, saved / self.window.length_ns) < NOTE_SHARE:
            return ()
        finding = make_finding(
            rule=rule,
            headline=case.headline.format(share=units.share(share), place=named(places or costliest), **words),
            lost_ns=kernels.per_gpu(lost_ns),
            saving=saving,
            advice=advice or case.advice or rule.advice,
            evidence=(*lines_of(costliest, lost_ns), *evidence),
            window=self.window,
            worst=worst,
            usual_share=share if is_usual else None,
            is_note=if_measured and saving.method != "benchmarked",
        )
        return (finding,)


def find_operators(found: KernelWindow) -> OperatorWindow | None:
    """Return the kernels of a window with their operators; None where the capture does not show them."""
    if not has_operators(found.context):
        return None
    joined = join_kernels(found.context, found.kernels.rows, np.asarray(found.kernels.inside))
    return OperatorWindow(found.simulation, found.kernels, found.window, joined)
