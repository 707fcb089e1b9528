"""The finding on kernels of one kind that could take less time: when there is one, and how severe it is."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from nsyswrap.base import units
from nsyswrap.base.intervals import Window
from nsyswrap.model import Finding, Severity
from nsyswrap.sections.compute.kernel_groups import GroupedKernels
from nsyswrap.sections.places import place_lines
from nsyswrap.sections.severity import NOTE_SHARE, make_finding
from nsyswrap.what_if.saving import Saving, WhatIf, predict
from nsyswrap.what_if.simulate import Simulation

Flags = npt.NDArray[np.bool_]


def find_if_costly(  # noqa: PLR0913 - the parts of a finding that differ
    *,
    rule: str,
    headline: str,
    lost_ns: int,
    change: Callable[[Simulation], WhatIf],
    advice: str,
    evidence: Callable[[], tuple[str, ...]],
    simulation: Simulation,
    kernels: GroupedKernels,
    window: Window,
    unknown: str = "",
    words: Mapping[str, str] = MappingProxyType({}),
    chosen: Flags | None = None,
) -> tuple[Finding, ...]:
    """Return the finding where the kernels take enough of the window: a note, and a warning from a fifth of it on.

    Args:
        rule: Key of the rule.
        headline: One sentence with ``{share}``, the share of the window.
        lost_ns: Time of the kernels in the window, summed over the GPUs.
        change: Returns the change that is simulated.
        advice: The change to make.
        evidence: Returns the numbers that support it.
        simulation: The run as it was.
        kernels: All compute kernels of the window.
        window: Window of the kernels.
        unknown: Why no saving is predicted; empty where one is.
        words: The texts for other fields of the headline.
        chosen: Which kernels it is about, to say where the program launches them; None where the evidence says it.
    """
    if (share := kernels.share_of(lost_ns, window)) < NOTE_SHARE:
        return ()
    mine = np.zeros(len(kernels.rows), np.bool_) if chosen is None else chosen
    places = place_lines(simulation.context, kernels.rows[mine], kernels.inside[mine])
    finding = make_finding(
        rule=rule,
        headline=headline.format(share=units.share(share), **words),
        lost_ns=kernels.per_gpu(lost_ns),
        saving=Saving(None, None, (unknown,)) if unknown else predict(simulation, change),
        advice=advice,
        evidence=(*evidence(), *places),
        device_id=None,
        window=window,
        usual_share=share,
        worst=Severity.WARNING,
    )
    return (finding,)
