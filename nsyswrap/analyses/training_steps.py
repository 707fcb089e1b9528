"""The steps of the training loop: found from ranges whose text ends in a number, with warm-up told apart."""

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables
from nsyswrap.analyses.injected import without_doubtful_steps
from nsyswrap.errors import UsageError
from nsyswrap.intervals import Window
from nsyswrap.tables import Trace, array

STEP_TEXT = re.compile(r"(?:batch|step|iteration|iter)[\s_#:=\-\[(]*\d+[\])]?$", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")

# The first two steps always allocate, tune and compile; later ones count as warm-up while they take this many
# times the median of the steps after them. At most half of all steps are warm-up.
WARM_UP_STEPS = 2
WARM_UP_FACTOR = 2.0


@dataclass(frozen=True)
class Steps:
    """The steps of all processes, by process and start.

    Attributes:
        frame: One row a step: process, thread (int64 ids), name, start, end (ns), warm_up (bool).
    """

    frame: pd.DataFrame

    def steady_window(self) -> Window | None:
        """Return the stretch in which every process is past its warm-up; None without steps.

        It lasts from the start of the first steady step to the end of the last, whatever lies between steps
        included. Where processes never overlap, it spans them all.
        """
        steady = self.frame[~self.frame["warm_up"]]
        if not len(steady):
            return None
        bounds = steady.groupby("process").agg(start=("start", "min"), end=("end", "max"))
        start, end = int(bounds["start"].max()), int(bounds["end"].min())
        if end <= start:
            start, end = int(bounds["start"].min()), int(bounds["end"].max())
        if end <= start:
            return None
        return Window(start, end, self._label(steady), "steps")

    def steady_inside(self, window: Window) -> pd.DataFrame:
        """Return the steps that lie inside the window and are no warm-up."""
        inside = (self.frame["start"] >= window.start_ns) & (self.frame["end"] <= window.end_ns)
        return self.frame[inside & ~self.frame["warm_up"]]

    @property
    def steady_count(self) -> int:
        """Return the steady steps of one process, since ranks take the same steps side by side."""
        steady = self.frame[~self.frame["warm_up"]]
        return len(steady) // max(steady["process"].nunique(), 1)

    def _label(self, steady: pd.DataFrame) -> str:
        first, last = steady.iloc[0], steady.iloc[-1]
        skipped = int(self.frame["warm_up"].sum())
        processes = steady["process"].nunique()
        count = self.steady_count
        name = f"{first['name']} to {last['name']}" if count > 1 else str(first["name"])
        aside = f", {_counted(skipped // processes, 'warm-up step')} left out" if skipped else ""
        return f"{_counted(count, 'steady step')} ({name}{aside})"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def find_steps(trace: Trace, pattern: str = "") -> Steps:
    """Return the steps of a trace.

    Args:
        trace: The tables of one export.
        pattern: Regular expression searched in the text of ranges; empty for "batch", "step" or "iteration"
            followed by a number at the end.

    Raises:
        UsageError: The pattern is no regular expression.
    """
    ranges = trace[tables.RANGES]
    matcher = step_matcher(pattern)
    wanted = np.array([matcher.search(str(text)) is not None for text in ranges["text"].cat.categories], bool)
    found = ranges[without_doubtful_steps(ranges, text_flags(ranges, wanted))]
    frame = pd.DataFrame(
        {
            "process": tables.process_of(array(found, "thread")),
            "thread": array(found, "thread"),
            "name": found["text"].astype(str).to_numpy(),
            "start": array(found, "start"),
            "end": array(found, "end"),
        }
    )
    frame = pd.concat([_one_family(group) for _, group in frame.groupby("process")]) if len(frame) else frame
    frame = frame.sort_values(["process", "start"], kind="stable", ignore_index=True)
    flags = [warm_up(array(group, "end") - array(group, "start")) for _, group in frame.groupby("process")]
    frame["warm_up"] = np.concatenate(flags) if flags else np.empty(0, bool)
    return Steps(frame)


def text_flags(ranges: pd.DataFrame, wanted: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return for each range whether its text, one of the column's categories, is wanted."""
    codes = ranges["text"].cat.codes.to_numpy()
    return wanted[codes] if len(wanted) else np.zeros(len(codes), bool)


def step_matcher(pattern: str) -> re.Pattern[str]:
    """Return what tells a step from its text: the user's pattern, or the usual spellings where it is empty.

    Raises:
        UsageError: The pattern is no regular expression.
    """
    if not pattern:
        return STEP_TEXT
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"--step-range {pattern!r} is no regular expression: {error}", hint="write it as --step-range '^iteration'"
        ) from error


def _one_family(steps: pd.DataFrame) -> pd.DataFrame:
    """Keep one thread and one spelling: where "step 3" holds "batch 12", the ranges that cover most time win."""
    family = steps["name"].map(lambda name: _NUMBER.sub("#", name))
    time = (steps["end"] - steps["start"]).groupby([steps["thread"], family]).sum()
    thread, name = max(time.index, key=lambda key: (int(time[key]), str(key[1])))
    kept: pd.DataFrame = steps[(steps["thread"] == thread) & (family == name)]
    return kept


def warm_up(duration: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which steps of one process are warm-up.

    Args:
        duration: Length of each step in ns, in order, shape (n,).

    Returns:
        True for the first two steps, and for those after them as long as they take more than twice the median of
        all later steps; never for more than half of the steps.
    """
    count = len(duration)
    most = count // 2
    leading = min(WARM_UP_STEPS, most)
    while leading < most and duration[leading] > WARM_UP_FACTOR * np.median(duration[leading + 1 :]):
        leading += 1
    return np.arange(count) < leading
