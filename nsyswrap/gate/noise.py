"""How far the newest runs may lie from earlier ones when nothing changed: measured on the earlier runs.

Two limits are taken, and the larger one counts. The first is Student's: right for noise that is normal and independent.
The second asks the earlier runs themselves. Each interval of as many runs in a row as there are new ones plays the new
runs, against the rest::

    earlier runs    o o o[o o]o o o o o      middle of the interval - middle of the rest: one difference
                    o o o o[o o]o o o o      the next one, and so on

Nothing changed, so all of these differences are noise. Load that lasts for several runs, outliers, drift and shifts of
the machine are all in them, with no assumption about their kind.

Both limits go beyond what few runs show, so they assume something about the tail. Ten runs may hold none of the long
ones that come now and then. So the order must show a slowdown as well: how often would chance put the new runs as far
behind the earlier ones? This needs no assumption, but three new runs against ten, or two against twenty. With fewer,
the difference has to exceed a limit with a far heavier tail.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nsyswrap.base import units
from nsyswrap.compare.bootstrap import Series, student_limit
from nsyswrap.gate.timed_runs import PartChange, TimedRun

# Fewer runs than this do not show how much runs differ.
FEWEST = 3
# Some tens of runs do not show whether a higher correlation is 1.
MOST_CORRELATED = 0.9
# Most runs that an answer asks for; beyond it the runs have to be made more alike instead.
MOST = 60
# Tail indices: the heaviest tail that has a variance, and the heaviest that has a mean.
WITH_VARIANCE, WITH_MEAN = 2.0, 1.0


# Parts that make less than this share of the slowdown are not named, and at most so many are.
LEAST_SHARE = 0.1
MOST_NAMED = 3


def middle(runs: Series) -> float:
    """Return the middle of runs: the median, the smaller of the two in the middle where their number is even.

    A single disturbed run is longer than the others, so it does not move the middle of two runs or more.
    """
    return float(np.sort(runs)[(len(runs) - 1) // 2])


def limit(earlier: Series, new_count: int, false_alarms: float) -> float:
    """Return how far the middle of new runs may lie above that of earlier runs when nothing changed.

    Args:
        earlier: One number for each earlier run in order, such as the logarithm of its step time, shape (n,), n >= 3.
        new_count: Number of new runs, at least 1.
        false_alarms: Share of unchanged programs whose new runs lie farther above.

    Source:
        Differences of intervals are a placebo test, Abadie, Diamond and Hainmueller, 2010, with intervals of the series
        itself. Their tail is extended as in Weissman, 1978, with index 2, the heaviest that has a variance.
    """
    spread = float(earlier.std(ddof=1))
    student = student_limit(1 - false_alarms, len(earlier) - 1) * spread
    normal = student * math.sqrt(_variance(new_count) + _variance(len(earlier)))
    return max(normal, _placebo(earlier, new_count, false_alarms, WITH_VARIANCE))


def is_certain(earlier: Series, new: Series, false_alarms: float) -> bool:
    """Return whether new runs beyond ``limit`` are slower, or too few to know.

    Args:
        earlier: One number for each earlier run in order, shape (n,), n >= 3.
        new: One for each new run.
        false_alarms: Share of unchanged programs whose new runs may be called slower.
    """
    # Where runs depend on each other, the order says less; the limit holds that.
    if order_share(earlier, new) <= false_alarms:
        return True
    # Single runs: the middle of three jumps where two of three are long, which few intervals show.
    return middle(new) - float(np.median(earlier)) > _placebo(earlier, 1, false_alarms, WITH_MEAN)


def order_share(earlier: Series, new: Series) -> float:
    """Return in what share of all orders of the runs the new ones are longer than as many of the earlier ones.

    Source:
        Mann and Whitney, 1947. The number of orders is the coefficient of a Gaussian binomial.
    """
    count, its = len(earlier), len(new)
    longer = int((new[:, None] > earlier[None, :]).sum())
    shares = np.zeros(count * its + 1)
    shares[0] = 1.0
    for each in range(1, its + 1):
        # Times (1 - q^(count + each)) / (1 - q^each), which is 1 + q^each + ..., so a sum in steps of ``each``.
        shares[count + each :] -= shares[: -(count + each)].copy()
        for first in range(each):
            shares[first::each] = np.cumsum(shares[first::each])
        shares *= each / (count + each)
    return float(shares[longer:].sum())


def fewest_new(earlier_count: int, false_alarms: float) -> int:
    """Return how many new runs can be so far behind the earlier ones that chance does not explain it."""
    count = 1
    while math.comb(earlier_count + count, count) < 1 / false_alarms:
        count += 1
    return count


def _variance(count: int) -> float:
    """Return the variance of the middle of normal numbers with variance 1; exact for one, an upper bound for others."""
    return 1.0 if count == 1 else math.pi / 2 / count


def _placebo(earlier: Series, length: int, false_alarms: float, tail_index: float) -> float:
    """Return the limit that intervals of the earlier runs give.

    One more difference exceeds the largest of n with a probability of 1 / (n + 1), n counted as independent ones. Where
    this is more than the share that is allowed, the largest is multiplied: with tail index a, a factor of f divides the
    probability by f^a.
    """
    differences = np.sort(np.abs(interval_differences(earlier, length)))
    if not len(differences):
        return 0.0
    allowed = false_alarms * (len(differences) + 1) / dependence(earlier)
    if allowed >= 1:
        return float(differences[-int(allowed)])
    return float(differences[-1] / allowed ** (1 / tail_index))


def dependence(runs: Series) -> float:
    """Return how many runs in a row say as much as one independent run, at least 1: load that lasts makes it more.

    It comes from the correlation of the ranks of neighbouring runs, corrected for its bias in short series.

    Source:
        Effective sample size: Bayley and Hammersley, 1946, for a series in which each run depends on the one before it.
    """
    _, places, counts = np.unique(runs, return_inverse=True, return_counts=True)
    if len(counts) == 1:
        return 1.0
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    centred = ranks - ranks.mean()
    correlation = float(centred[1:] @ centred[:-1]) / float(centred @ centred) + 1 / len(runs)
    bounded = min(max(correlation, 0.0), MOST_CORRELATED)
    return (1 + bounded) / (1 - bounded)


def interval_differences(runs: Series, length: int) -> Series:
    """Return the middle of each interval of runs less that of all others, shape (n - length + 1,); empty if too few."""
    count = len(runs) - length + 1
    if len(runs) < length + 2:
        return np.empty(0)
    # By size, so that a middle is where so many of an interval, or of the others, have come.
    order = np.argsort(runs, kind="stable")
    first = np.arange(count)[:, None]
    inside = np.cumsum((order >= first) & (order < first + length), axis=1)
    outside = np.arange(1, len(runs) + 1) - inside
    places = (
        (each > (size - 1) // 2).argmax(axis=1) for each, size in ((inside, length), (outside, len(runs) - length))
    )
    of_interval, of_others = (runs[order[place]] for place in places)
    differences: npt.NDArray[np.float64] = of_interval - of_others
    return differences


def runs_needed(earlier: Series, difference: float, false_alarms: float) -> int | None:
    """Return how many new runs show a difference by limit and order; None where more than ``MOST`` are needed.

    Up to half of the earlier runs this is measured. Beyond, the last measured limit shrinks with the root of the number
    of runs, which needs as many earlier runs, and no load that outlasts them.
    """
    last, measured, fewest = 0.0, max(len(earlier) // 2, 1), fewest_new(len(earlier), false_alarms)
    for count in range(1, measured + 1):
        last = limit(earlier, count, false_alarms)
        if last < difference:
            return max(count, fewest)
    if difference <= 0 or not math.isfinite(last):
        return None
    needed = max(math.ceil(measured * (last / difference) ** 2), fewest)
    return needed if needed <= MOST else None


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
