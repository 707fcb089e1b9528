"""How much time the data loader takes: a program compared with itself when it reuses its first batches.

Both run without nsys, and their own processes time their steps, which are compared by number. The section shows the
saving, and the time that the capture attributes to the loader.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base import units
from nsyswrap.compare.bootstrap import student_limit
from nsyswrap.loop.step_detection import Steps
from nsyswrap.model import Fact, Report, Section
from nsyswrap.rules import data
from nsyswrap.sections.spec import SectionHead
from nsyswrap.trace.tables import array

SECTION = SectionHead(
    key="counterfactual",
    title="Without the data loader",
    place=170,
    on_page_only=False,
    headings={
        "base_ns": "as it is",
        "without_loader_ns": "without the data loader",
        "of_loader": "part of the data loader",
    },
    facts={
        "loader_share": "data loader, share of a step",
        "loader_margin_share": "95 % interval, plus or minus",
        "attributed_share": "attributed to it in the capture",
        "mean_step_without_loader_ns": "mean step without the data loader",
        "steps_compared": "steps compared",
    },
)

# Rules, causes and phases of idle time that go away without the loader, since the batches are on the GPU already.
DATA_RULES = (data.WORKER_START.key,)
DATA_CAUSES = ("data_wait", "data_work")
DATA_PHASES = ("data", "copy")

BLOCKS = 20
FEWEST_STEPS = 10
# A saving and an attributed share agree within this difference, since two runs differ by as much.
AGREEMENT_SHARE = 0.02


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean length of the steps of one run, with its uncertainty.

    Attributes:
        blocks: Number of blocks of steps that the error comes from.
    """

    value_ns: float
    error_ns: float
    blocks: int
    count: int


def without_loader(base: Report, alone: Steps, cached: Steps, kept: int) -> Section:
    """Return the comparison of a program with itself without data loading.

    Args:
        base: The report of the program under nsys.
        alone: Its steps without nsys.
        cached: Those with a batch cache, too: each loader repeats its first batches.
        kept: Number of batches in the cache of each loader; the steps that load them are left out.

    Returns:
        A section: the loader's share of a step with its 95 % confidence interval, and the share that the capture
        attributes to it.
    """
    first, second = _common_steps(alone.measured, cached.measured, kept)
    if min(len(first), len(second)) < FEWEST_STEPS:
        found = f"the runs have {len(first)} and {len(second)} comparable steps, fewer than {FEWEST_STEPS}"
        return failed(base, found)
    before, after = mean_of(first), mean_of(second)
    share, margin = saving(before, after)
    attributed = attributed_share(base)
    facts = (
        Fact("loader_share", share, "share"),
        Fact("loader_margin_share", margin, "share"),
        Fact("attributed_share", attributed, "share"),
        Fact("mean_step_ns", before.value_ns, "ns"),
        Fact("mean_step_without_loader_ns", after.value_ns, "ns"),
        Fact("steps_compared", min(before.count, after.count), "count"),
    )
    notes = (headline(share, margin, before, after), agreement(share, margin, attributed))
    return Section(SECTION.key, SECTION.title, base.window, facts, notes=notes)


def failed(base: Report, reason: str) -> Section:
    """Return the section for a second run that failed."""
    why = f"The time of the data loader is unknown: {reason}."
    return Section(SECTION.key, SECTION.title, base.window, notes=(why,))


def mean_of(length_ns: npt.NDArray[np.int64]) -> Mean:
    """Return the mean length of steps with its standard error, from the means of blocks of successive steps.

    Where the loader limits the loop, steps come in bursts, so neighbours are not independent; blocks nearly are.

    Args:
        length_ns: Lengths in order, shape (n,).

    Source: batch means, Law and Kelton, Simulation Modeling and Analysis, section on steady-state output.
    """
    blocks = min(BLOCKS, len(length_ns) // 2)
    means = np.array([block.mean() for block in np.array_split(length_ns, blocks)])
    return Mean(float(length_ns.mean()), float(means.std(ddof=1) / np.sqrt(blocks)), blocks, len(length_ns))


def saving(before: Mean, after: Mean) -> tuple[float, float]:
    """Return the saved share of a step, and half of its 95 % confidence interval.

    Source: delta method for a ratio of independent means.
    """
    ratio = after.value_ns / before.value_ns
    spread = ratio * float(np.hypot(before.error_ns / before.value_ns, after.error_ns / after.value_ns))
    return 1 - ratio, student_limit(0.975, min(before.blocks, after.blocks) - 1) * spread


def attributed_share(report: Report) -> float | None:
    """Return the share of the window that a capture attributes to the data loader.

    It is idle GPU time that waits for a batch or lies in the phases data and copy, plus exposed copies, over all GPUs.
    Without a GPU it is the CPU's time in these phases. None where neither was recorded.
    """
    ledger, idle, phases = (report.section(key) for key in ("ledger", "idle", "phases"))
    if ledger is not None and idle is not None:
        devices, rows = ledger.tables["devices"], idle.tables["attribution"]
        of_loader = rows["rule"].isin(DATA_RULES) | rows["cause"].isin(DATA_CAUSES) | rows["phase"].isin(DATA_PHASES)
        attributed = int(rows["idle_ns"][of_loader].sum()) + int(devices["copy_exposed_ns"].sum())
        return attributed / int(devices["window_ns"].sum())
    if phases is None:
        return None
    frame = phases.tables["phases"]
    whole = int(frame["host_ns"].sum())
    return int(frame["host_ns"][frame["phase"].isin(DATA_PHASES)].sum()) / whole if whole else None


def headline(share: float, margin: float, before: Mean, after: Mean) -> str:
    """Return the result in one sentence."""
    return (
        f"The data loader takes {100 * share:.0f} % +- {max(round(100 * margin), 1)} of each step: "
        f"{units.duration(round(before.value_ns))} as it is, {units.duration(round(after.value_ns))} with batches that "
        f"are on the GPU already (95 % confidence, {before.count} and {units.counted(after.count, 'step')})."
    )


def agreement(share: float, margin: float, attributed: float | None) -> str:
    """Return a sentence that compares the saving with the attributed share.

    Args:
        share: The saved share of a step.
        margin: Half of its 95 % confidence interval.
        attributed: The share that the capture attributes to the loader; None where it cannot.
    """
    if attributed is None:
        return "The capture has neither GPU work nor phases, so the saving cannot be compared with it."
    start = f"The capture attributes {units.share(attributed)} to the data loader"
    if abs(share - attributed) <= max(margin, AGREEMENT_SHARE):
        return f"{start}, which agrees with the saving."
    if attributed > share:
        return f"{start}. The saving is smaller: other work was hidden by the wait, or nsys slowed down the loader."
    return f"{start}. The saving is larger: the loader also slows down other work."


def _common_steps(
    first: pd.DataFrame, second: pd.DataFrame, kept: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the lengths of the measured steps that both runs have by name, without those that fill the cache."""
    names = set(first["name"]) & set(second["name"][kept:])
    if names:
        first, second = (frame[frame["name"].isin(names)] for frame in (first, second))
    else:
        second = second.iloc[kept:]
    return array(first, "end") - array(first, "start"), array(second, "end") - array(second, "start")
