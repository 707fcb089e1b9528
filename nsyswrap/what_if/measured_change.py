"""A change whose effect on some kernels was measured: alternatives of operators that ran on the same GPU.

The measured share of their time replaces the simulated one. What the change saves besides, such as launches, and what
was not measured, stays simulated.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nsyswrap.base import units
from nsyswrap.events.alternatives import MeasuredAlternative
from nsyswrap.what_if.saving import OPEN_ERROR, AlternativeKernels, WhatIf
from nsyswrap.what_if.simulate import Simulation

# A measured share of an operator's time and that in the changed program differ by as much. Source: seven products,
# three attentions and two chains of tools/judge_alternatives.py on an H100 and an H200 differ by -0.7 to +5.0 %.
BENCHMARK_ERROR = 0.05
# Alternatives in the evidence: as many as a reader takes in. Ours.
LISTED = 4


def with_measured(simulation: Simulation, what: WhatIf, candidates: Sequence[AlternativeKernels]) -> WhatIf:
    """Return a change with what was measured of its alternatives, and with those that can be.

    Args:
        simulation: The run as it was.
        what: The change as it is simulated.
        candidates: Its alternatives; no two are about one kernel.
    """
    context, measured = simulation.context, simulation.context.settings.alternatives
    what = replace(what, alternatives=tuple(candidates))
    known = {id(each): found for each in candidates if (found := measured.found.get(each.alternative)) is not None}
    if not known:
        return what
    factor = np.full(len(context.operations.start), np.nan)
    factor[what.change.operations] = what.change.factor
    error = np.where(np.isnan(factor), 0.0, OPEN_ERROR)
    is_measured = np.zeros(len(factor), np.bool_)
    for each in candidates:
        if (found := known.get(id(each))) is not None:
            rows = each.rows[np.isin(each.rows, simulation.operations)]
            factor[rows], error[rows], is_measured[rows] = found.ratio.point, _error(found), True
    changed = np.flatnonzero(~np.isnan(factor))
    length = (context.operations.end - context.operations.start)[changed]
    saved = np.abs(1 - factor[changed]) * length
    whole, open_to = float(saved.sum()) or 1.0, np.minimum(factor[changed] * length, saved)
    most = float(saved[is_measured[changed]].sum()) >= whole / 2
    return replace(
        what,
        change=replace(what.change, operations=changed, factor=factor[changed]),
        assumed=what.assumed if (~is_measured[changed]).any() else "",
        or_nothing=what.or_nothing and not most,
        method="benchmarked" if most else what.method,
        error=float((error[changed] * open_to).sum()) / (float(open_to.sum()) or 1.0),
        evidence=tuple(_said(each, known[id(each)]) for each in candidates if id(each) in known)[:LISTED],
    )


def _error(found: MeasuredAlternative) -> float:
    """Return how far an alternative's share may be from the truth, as a share of it or of what it saves, the less."""
    low, point, high = found.ratio.low, found.ratio.point, found.ratio.high
    least = max(min(point, abs(1 - point)), BENCHMARK_ERROR)
    return max(BENCHMARK_ERROR, max(high - point, point - low) / least)


def _said(candidate: AlternativeKernels, found: MeasuredAlternative) -> str:
    """Return what was measured, in words."""
    before, after = (units.duration(round(each * 1e6)) for each in (found.before_ms, found.after_ms))
    low, high = (units.share(each) for each in (found.ratio.low, found.ratio.high))
    return f"measured: {candidate.alternative.words} takes {after}, before {before}: {low} to {high} of the time"
