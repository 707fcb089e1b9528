"""Which parts of a step explain a slowdown: those that take longer than their own noise between runs explains."""

from collections.abc import Sequence

import numpy as np

from nsyswrap.base import units
from nsyswrap.gate.noise import limit, middle
from nsyswrap.gate.timed_runs import PartChange, TimedRun

# Parts that make less than this share of the slowdown are not named, and at most so many are.
LEAST_SHARE = 0.1
MOST_NAMED = 3


def blamed(earlier: Sequence[TimedRun], new: Sequence[TimedRun], false_alarms: float) -> tuple[PartChange, ...]:
    """Return the parts that explain a slowdown, the largest first.

    Args:
        earlier: The earlier runs, at least three.
        new: The new runs.
        false_alarms: How often a part that did not change may be named, as a share.
    """
    whole = float(np.median([run.mean_ns for run in earlier]))
    slowdown = middle(np.array([run.mean_ns for run in new])) - whole
    names = dict.fromkeys(name for run in (*earlier, *new) for name in run.parts)
    changes = []
    for name in names:
        before, now = (np.array([run.parts.get(name, 0.0) for run in runs]) for runs in (earlier, new))
        delta = middle(now) - float(np.median(before))
        if delta > max(LEAST_SHARE * slowdown, limit(before, len(now), false_alarms)):
            changes.append(PartChange(name, delta, delta / whole))
    return tuple(sorted(changes, key=lambda one: (-one.delta_ns, one.words))[:MOST_NAMED])


def blame_words(parts: Sequence[PartChange]) -> str:
    """Return a clause that names the parts in percentage points of a step: ``: 3.6 of it compute``."""
    if not parts:
        return ""
    listed = ", ".join(
        f"{units.change(one.share).removeprefix('+').removesuffix(' %')} {'of it ' if not at else ''}{one.words}"
        for at, one in enumerate(parts)
    )
    return f": {listed}"
