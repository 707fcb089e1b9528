"""Captures whose step takes far longer or shorter than that of others of one command, on one host and like GPUs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import NamedTuple

from nsyswrap.many.capture_sums import CaptureSums

# A value with a modified z-score above 3.5 is an outlier, with these factors for the median and the mean absolute
# deviation. Source: Iglewicz and Hoaglin, How to Detect and Handle Outliers, ASQC 1993, section 3.3; the mean is for
# the case where more than half of the values are equal.
MOST_SCORE = 3.5
MEDIAN_FACTOR = 1.4826
MEAN_FACTOR = 1.2533
# Fewer captures do not show what is usual. Source: ours; the deviation of four has two values on each side of it.
FEWEST = 5
# A smaller change of the step is not called one. Ours: a reader looks at the large ones.
LEAST_SHARE = 0.03


@dataclass(frozen=True, slots=True)
class StepAccount:
    """What a step of one capture is spent on.

    Attributes:
        like: Program, arguments and GPUs: captures of one kind do the same work.
        host: The machine: outliers are those of one, since a slow machine makes all of its captures slow.
        parts: Time of a step by part: a row of the ledger without idle time, or the rule of idle time; ns a GPU.
    """

    name: str
    like: tuple[str, str, tuple[str, ...]]
    host: str
    step_ns: int
    parts: Mapping[str, float]

    @classmethod
    def of(cls, name: str, sums: CaptureSums) -> "StepAccount":
        """Return the account of a capture with steps and GPUs."""
        steps = (sums.step_count or 1) * len(sums.gpus)
        busy = {row: total / steps for row, total in sums.ledger.items() if row != "idle_ns"}
        idle = {rule: total / steps for rule, total in sums.idle.items()}
        like = sums.program, sums.arguments, sums.gpus
        return cls(name, like, sums.host, sums.step_ns or 0, busy | idle)


class Outlier(NamedTuple):
    """A capture whose step is far from the usual one.

    Attributes:
        usual_ns: The median of the steps of all captures of this command on this host and such GPUs.
        share: Step by usual step.
        score: Modified z-score of the step.
        part: Row of the ledger, or rule of idle time, that changed most in this direction; empty where none did.
    """

    name: str
    program: str
    step_ns: int
    usual_ns: float
    share: float
    score: float
    among: int
    part: str
    part_ns: int


def usual_steps(accounts: Iterable[StepAccount]) -> dict[str, float]:
    """Return the step of each capture as a share of that of its like on all hosts, by name, where there are others."""
    shares = {}
    for its in _alike(accounts, lambda each: each.like):
        usual = median(each.step_ns for each in its)
        shares.update({each.name: each.step_ns / usual for each in its if len(its) > 1})
    return shares


def find_outliers(accounts: Iterable[StepAccount]) -> tuple[Outlier, ...]:
    """Return the captures whose step is far from the usual one, the largest change first."""
    groups = _alike(accounts, lambda each: (each.like, each.host))
    outliers = [outlier for its in groups if len(its) >= FEWEST for outlier in _outliers_among(its)]
    return tuple(sorted(outliers, key=lambda each: (-abs(each.share - 1), each.name)))


def _alike(accounts: Iterable[StepAccount], kind: Callable[[StepAccount], object]) -> list[list[StepAccount]]:
    kinds: dict[object, list[StepAccount]] = {}
    for each in accounts:
        kinds.setdefault(kind(each), []).append(each)
    return list(kinds.values())


def _outliers_among(its: Sequence[StepAccount]) -> list[Outlier]:
    steps = [each.step_ns for each in its]
    usual = median(steps)
    scores = modified_scores(steps)
    parts = sorted({part for each in its for part in each.parts})
    middle = {part: median(each.parts.get(part, 0.0) for each in its) for part in parts}
    outliers = []
    for each, score in zip(its, scores, strict=True):
        share = each.step_ns / usual
        if abs(score) <= MOST_SCORE or abs(share - 1) < LEAST_SHARE:
            continue
        part, part_ns = _most_changed_part(each, middle, longer=share > 1)
        command = f"{each.like[0]} {each.like[1]}".strip()
        outliers.append(Outlier(each.name, command, each.step_ns, usual, share, score, len(its), part, part_ns))
    return outliers


def modified_scores(values: Sequence[float]) -> list[float]:
    """Return the modified z-score of each value; all are 0 where all values are equal."""
    middle = median(values)
    off = [abs(value - middle) for value in values]
    scale = MEDIAN_FACTOR * median(off) or MEAN_FACTOR * fmean(off)
    return [(value - middle) / scale if scale else 0.0 for value in values]


def _most_changed_part(one: StepAccount, usual: Mapping[str, float], *, longer: bool) -> tuple[str, int]:
    """Return the part of a step that is most longer, or shorter, than the usual one, and by how much."""
    changes = {part: one.parts.get(part, 0.0) - its for part, its in usual.items()}
    sign = 1 if longer else -1
    part = max(changes, key=lambda each: sign * changes[each], default="")
    return (part, round(changes[part])) if part and sign * changes[part] > 0 else ("", 0)
