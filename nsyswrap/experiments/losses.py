"""Whether changes alter the losses of a program by more than they imply.

All runs have the same seed and the same order of data, so the losses of the same steps can be compared. Runs of the
program as it is show how well it repeats itself.
"""

from collections.abc import Sequence
from typing import NamedTuple

from nsyswrap.base import units
from nsyswrap.experiments.request import Answer
from nsyswrap.experiments.tried.experiment import MATHEMATICS, NOTHING, RANDOM

# Losses that differ by more than this share are not the same within rounding: TF32 keeps 11 bits of a factor, and
# errors grow in the steps that are compared. Source: ours.
ROUNDING_SHARE = 0.05
# A program whose own runs differ by so many times less than the changed one repeats itself well enough.
_TIMES = 4.0


class LossCheck(NamedTuple):
    """What the losses say.

    Attributes:
        agree: Whether they are the same within what the changes imply; None where that cannot be compared.
        words: The same as a sentence.
    """

    agree: bool | None
    words: str


def compare_losses(base: Sequence[Answer], new: Sequence[Answer], alters: str) -> LossCheck:
    """Compare the losses of the same steps.

    Args:
        base: Runs of the program as it is.
        new: Runs with the changes.
        alters: What the changes may alter of the results.
    """
    sides = [[each.losses for each in side if each.losses] for side in (base, new)]
    if not all(sides):
        return LossCheck(
            agree=None, words="The losses cannot be compared: the program makes no backward pass of a loss."
        )
    own, other = (max(_difference(sides[0][0], each) for each in side) for side in sides)
    count = units.counted(min(len(each) for side in sides for each in side), "step")
    start, differ = f"The losses of the first {count}", f"differ by up to {units.share(other)}"
    if other == 0:
        return LossCheck(agree=True, words=f"{start} are the same, bit for bit.")
    if alters in {MATHEMATICS, RANDOM}:
        return LossCheck(agree=None, words=f"{start} {differ}: the changes alter {alters}. Compare a whole training.")
    if other <= _TIMES * own:
        return LossCheck(agree=None, words=f"{start} {differ}, as much as those of the program itself.")
    if alters != NOTHING and other <= ROUNDING_SHARE:
        return LossCheck(agree=True, words=f"{start} {differ}: rounding.")
    return LossCheck(agree=False, words=f"{start} {differ}.")


def _difference(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the largest difference of two losses of the same step, as a share of the largest loss."""
    largest = max(map(abs, one), default=0.0)
    return max((abs(a - b) for a, b in zip(one, other, strict=False)), default=0.0) / (largest or 1.0)
