"""How certain a change of step times is: intervals from a bootstrap that keeps neighbouring steps together.

Steps are not independent: a loader with eight workers is late at every eighth batch, clocks and caches drift, and one
long step fills the queue for the next. Drawing single steps would ignore this and make intervals too narrow. So blocks
of neighbouring steps are drawn, long enough to contain the dependence between steps.
"""

import math
from collections.abc import Callable, Iterator
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from nsyswrap.base.interval import Interval, around

Series = npt.NDArray[np.float64]
Statistic = Callable[[Series], Series]

SEED = 20_250_607
DRAWS = 2_000
# Most steps in one draw, and most steps in memory at a time.
MOST_STEPS = 2_000
_CHUNK = 1_000_000


def mean(rows: Series) -> Series:
    """Return the mean of each row, shape (..., n) to (...)."""
    result: Series = np.mean(rows, axis=-1)
    return result


def median(rows: Series) -> Series:
    """Return the median of each row, shape (..., n) to (...)."""
    result: Series = np.median(rows, axis=-1)
    return result


def log_ratio_interval(base: Series, new: Series, statistic: Statistic, confidence: float) -> Interval[float]:
    """Return ln(statistic(new) / statistic(base)) with its interval.

    The interval consists of percentiles of block draws. It is widened by Student's t over the normal quantile, with the
    number of blocks as degrees of freedom, and by the variance that draws of few blocks miss. Without this, intervals
    of short series are too narrow; docs/compare.md has the rates.

    Args:
        base: Positive times in order, shape (n,), n at least 2.
        new: Positive times in order, shape (m,), m at least 2.
        statistic: ``mean`` or ``median``.
        confidence: Share of such intervals that contain the true value, such as 0.95.

    Source:
        Circular block bootstrap: Politis and Romano, 1992. Blocks as degrees of freedom: batch means, Schmeiser, 1982.
    """
    drawn = [np.log(_draws(one, statistic, stream)) for stream, one in enumerate((base, new))]
    centre = float(np.log(statistic(new) / statistic(base)))
    return _widened_interval(base, new, centre, drawn[1] - drawn[0], confidence)


def difference_interval(base: Series, new: Series, confidence: float) -> Interval[float]:
    """Return mean(new) - mean(base) with its interval, computed like that of the ratio; times may be 0."""
    drawn = [_draws(one, mean, stream) for stream, one in enumerate((base, new))]
    return _widened_interval(base, new, float(mean(new) - mean(base)), drawn[1] - drawn[0], confidence)


def runs_interval(base: Series, new: Series, confidence: float, least_spread: float = 0.0) -> Interval[float]:
    """Return mean(new) - mean(base) over runs with its interval: Student's t with a pooled spread.

    Runs are independent of each other, even where the steps of a run are not.

    Args:
        base: One value for each run, shape (n,).
        new: The same, shape (m,); n + m at least 3.
        confidence: Share of such intervals that contain the true value, such as 0.95.
        least_spread: Spread that is known to be there, even where few runs agree by chance.
    """
    centre = float(new.mean() - base.mean())
    reach = student_limit((1 + confidence) / 2, len(base) + len(new) - 2) * runs_spread(base, new, least_spread)
    reach *= math.sqrt(1 / len(base) + 1 / len(new))
    return Interval(centre - reach, centre, centre + reach)


def runs_spread(base: Series, new: Series, least_spread: float = 0.0) -> float:
    """Return the pooled standard deviation of the runs of both sides, at least the one that is known."""
    squares = sum(float(((one - one.mean()) ** 2).sum()) for one in (base, new))
    return max(math.sqrt(squares / (len(base) + len(new) - 2)), least_spread)


def runs_needed(spread: float, reach: float, confidence: float, most: int) -> int | None:
    """Return how many runs of each side have an interval of this reach; None where more than ``most`` are needed."""
    for count in range(2, most + 1):
        if student_limit((1 + confidence) / 2, 2 * count - 2) * spread * math.sqrt(2 / count) < reach:
            return count
    return None


def standard_error(series: Series, statistic: Statistic) -> float:
    """Return the standard deviation of ln(statistic) over block draws of a series of positive times."""
    return float(np.log(_draws(series, statistic, 0)).std())


def normal_error(of_nine_in_ten: Interval[float]) -> float:
    """Return the standard error of a value whose interval holds the truth in nine of ten cases."""
    return of_nine_in_ten.width / 2 / NormalDist().inv_cdf(0.95)


def block_length(series: Series) -> int:
    """Return how many neighbouring steps are drawn together.

    It is the best length for the variance of the mean, estimated from the autocorrelation of the series. It is at least
    the cube root of the number of steps, since an estimate from few steps is unreliable, and at most a third of it.

    Source:
        Politis and White, 2004, with the correction of Patton, Politis and White, 2009.
    """
    count = len(series)
    least, most = math.ceil(count ** (1 / 3)), max(count // 3, 1)
    return int(min(max(_best_length(series), least), most))


def _best_length(series: Series) -> int:
    covariance = _autocovariance(series)
    if covariance[0] <= 0:
        return 1
    lag = _last_lag(covariance / covariance[0], len(series))
    bandwidth = min(2 * lag, len(covariance) - 1)
    if bandwidth < 1:
        return 1
    lags = np.arange(1, bandwidth + 1)
    weight = np.minimum(1.0, 2 * (1 - lags / bandwidth))
    spectrum = float(covariance[0] + 2 * (weight * covariance[lags]).sum())
    slope = float(2 * (weight * lags * covariance[lags]).sum())
    if spectrum <= 0:
        return 1
    return math.ceil(math.cbrt(1.5 * slope**2 / spectrum**2 * len(series)))


def _autocovariance(series: Series) -> Series:
    """Return the autocovariance at lags 0, 1, ..., up to the last lag that the rule of Politis and White uses."""
    count = len(series)
    centred = series - series.mean()
    lags = min(math.ceil(math.sqrt(count)) + _run_length(count), count - 1)
    products = [float(centred[lag:] @ centred[: count - lag]) / count for lag in range(lags + 1)]
    return np.array(products)


def _last_lag(correlation: Series, count: int) -> int:
    """Return the lag after which several correlations in a row are insignificant."""
    small = np.abs(correlation[1:]) < 2 * math.sqrt(math.log10(count) / count)
    run = _run_length(count)
    for lag in range(len(small) - run + 1):
        if small[lag : lag + run].all():
            return lag
    large = np.flatnonzero(~small)
    return int(large[-1]) + 1 if len(large) else 0


def _run_length(count: int) -> int:
    return max(5, math.ceil(math.sqrt(math.log10(count))))


def _widened_interval(
    base: Series, new: Series, centre: float, differences: Series, confidence: float
) -> Interval[float]:
    """Return the percentiles of differences of draws, widened as in ``log_ratio_interval``."""
    quantile = (1 + confidence) / 2
    low, high = (float(end) - centre for end in np.quantile(differences, [1 - quantile, quantile]))
    parts = [block_length(one) / len(one) for one in (base, new)]
    freedom = max(sum(1 / part for part in parts) - 2, 1.0)
    factor = student_quantile(quantile, freedom) / NormalDist().inv_cdf(quantile) / math.sqrt(1 - max(parts))
    return around(centre, centre + low * factor, centre + high * factor)


def student_quantile(quantile: float, freedom: float) -> float:
    """Return a quantile of Student's t from its expansion at the normal quantile; accurate to 1 % from 3 degrees on.

    Source:
        Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5.
    """
    x = NormalDist().inv_cdf(quantile)
    terms = (
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
        (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92_160,
    )
    return x + sum(term / freedom ** (power + 1) for power, term in enumerate(terms))


def student_limit(quantile: float, freedom: int) -> float:
    """Return a quantile of Student's t, exact for 1 and 2 degrees of freedom, where the expansion is inaccurate."""
    if freedom == 1:
        return math.tan(math.pi * (quantile - 0.5))
    if freedom == 2:  # noqa: PLR2004 - degrees of freedom
        return (2 * quantile - 1) / math.sqrt(2 * quantile * (1 - quantile))
    return student_quantile(quantile, freedom)


def _draws(series: Series, statistic: Statistic, stream: int) -> Series:
    """Return the statistic of many series drawn from one in blocks; the result is the same every time.

    Each series of a comparison has its own stream of random numbers, so that their draws are independent. From a long
    series only ``MOST_STEPS`` steps are drawn, to save time. Such draws scatter more by the root of the ratio of the
    numbers of steps, and are scaled back by that factor.

    Source:
        m out of n bootstrap: Bickel, Goetze and van Zwet, 1997.
    """
    generator = np.random.default_rng([SEED, stream])
    count = min(len(series), MOST_STEPS)
    drawn = np.concatenate([statistic(rows) for rows in _drawn_rows(series, count, generator)])
    if count == len(series):
        return drawn
    centre = float(statistic(series))
    scaled: Series = centre + (drawn - centre) * math.sqrt(count / len(series))
    return scaled


def _drawn_rows(series: Series, count: int, generator: np.random.Generator) -> Iterator[Series]:
    """Yield draws of ``count`` steps each, in blocks, several draws at a time."""
    block = block_length(series)
    blocks = -(-count // block)
    at_once = max(_CHUNK // count, 1)
    for first in range(0, DRAWS, at_once):
        starts = generator.integers(0, len(series), (min(at_once, DRAWS - first), blocks, 1))
        places = (starts + np.arange(block)) % len(series)
        yield series[places.reshape(len(starts), -1)[:, :count]]
