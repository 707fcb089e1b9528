"""The compute kernels of a window as rules on kernels of one kind get them, and the finding on some of them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nsyswrap.base import units
from nsyswrap.base.intervals import Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Finding, Severity
from nsyswrap.rules.rule import Rule
from nsyswrap.sections.compute.kernel_groups import GroupedKernels
from nsyswrap.sections.places import place_lines
from nsyswrap.sections.severity import NOTE_SHARE, make_finding
from nsyswrap.what_if.saving import Saving, WhatIf, predict
from nsyswrap.what_if.simulate import Simulation

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class KernelWindow:
    """The compute kernels of a window, as rules on kernels get them."""

    simulation: Simulation
    kernels: GroupedKernels
    window: Window

    @property
    def context(self) -> TraceContext:
        """Return the trace, its events and its loop."""
        return self.simulation.context

    def finding_on(
        self,
        rule: Rule,
        chosen: Flags,
        change: Callable[[Simulation], WhatIf],
        evidence: Callable[[], tuple[str, ...]],
        unknown: str = "",
    ) -> tuple[Finding, ...]:
        """Return the finding where the chosen kernels take enough of the window: a note, and a warning from a fifth on.

        ``unknown`` says why no saving is predicted; empty where one is.
        """
        kernels, lost_ns = self.kernels, int(self.kernels.inside[chosen].sum())
        if (share := kernels.share_of(lost_ns, self.window)) < NOTE_SHARE:
            return ()
        finding = make_finding(
            rule=rule,
            headline=rule.headline.format(share=units.share(share)),
            lost_ns=kernels.per_gpu(lost_ns),
            saving=Saving(None, None, (unknown,)) if unknown else predict(self.simulation, change),
            evidence=(*evidence(), *place_lines(self.context, kernels.rows[chosen], kernels.inside[chosen])),
            window=self.window,
            usual_share=share,
            worst=Severity.WARNING,
        )
        return (finding,)
