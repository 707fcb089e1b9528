"""What the data loader really costs: a run, and the same run with its first batches given again and again.

The steps of the two runs are compared by number, and what the first run's capture blames the loader for is set beside
what was gained. Where the two disagree, the section says where the time went instead.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import units
from nsyswrap.model import Fact, Report, Section

KEY, TITLE = "counterfactual", "Without the loader"

# Causes and phases of idle time that go away with the loader: its batches are on the device already.
DATA_CAUSES = ("data_wait", "data_work")
DATA_PHASES = ("data", "copy")

BLOCKS = 20
FEWEST_STEPS = 10
# Below this difference a gain and a starvation agree, whatever the spread: a run differs from the next by as much.
AGREEMENT_SHARE = 0.02
_NORMAL_97_5 = 1.959964


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean length of some steps.

    Attributes:
        value_ns: The mean.
        error_ns: Its standard error.
        blocks: How many blocks of steps the error comes from.
        count: How many steps there are.
    """

    value_ns: float
    error_ns: float
    blocks: int
    count: int


def without_loader(base: Report, replayed: Report, kept: int) -> Section:
    """Compare a run with the same run whose loaders cost nothing.

    Args:
        base: The run as it is.
        replayed: The same program, each loader giving its first batches again and again.
        kept: How many batches each loader kept; the steps in which they were loaded are left out.

    Returns:
        A section: the loader's share of a step with its 95 % confidence interval, the share that the first capture
        blames it for, and idle time a step by cause in both runs.
    """
    first, second = _common_steps(base, replayed, kept)
    if min(len(first), len(second)) < FEWEST_STEPS:
        found = f"{len(first)} and {len(second)} measured steps to compare, fewer than {FEWEST_STEPS}"
        return _cannot_tell(base, f"The loader's cost cannot be told: there are {found}.")
    before, after = mean_of(first), mean_of(second)
    share, margin = saving(before, after)
    causes = _by_cause(base, replayed)
    blamed = blamed_share(base)
    facts = (
        Fact("loader_share", share, "share"),
        Fact("loader_margin_share", margin, "share"),
        Fact("blamed_share", blamed, "share"),
        Fact("mean_step_ns", before.value_ns, "ns"),
        Fact("mean_step_without_loader_ns", after.value_ns, "ns"),
        Fact("steps_compared", min(before.count, after.count), "count"),
    )
    notes = (headline(share, margin, before, after), agreement(share, margin, blamed, causes))
    return Section(KEY, TITLE, base.window, facts, {"causes": causes}, notes=notes)


def failed(base: Report, reason: str) -> Section:
    """Say that the second run came to nothing, and why."""
    return _cannot_tell(base, f"The loader's cost cannot be told: {reason}.")


def mean_of(length_ns: npt.NDArray[np.int64]) -> Mean:
    """Return the mean length of steps with its standard error, from the means of blocks of successive steps.

    Steps of a loop that its loader bounds come in bursts, so that neighbours are not independent; blocks nearly are.

    Args:
        length_ns: Lengths in order, shape (n,).

    Source: batch means, Law and Kelton, Simulation Modeling and SectionSpec, section on measured-state output.
    """
    blocks = min(BLOCKS, len(length_ns) // 2)
    means = np.array([block.mean() for block in np.array_split(length_ns, blocks)])
    return Mean(float(length_ns.mean()), float(means.std(ddof=1) / np.sqrt(blocks)), blocks, len(length_ns))


def saving(before: Mean, after: Mean) -> tuple[float, float]:
    """Return which share of a step is saved, and half its 95 % confidence interval.

    Source: delta method for a ratio of independent means; Student's t by Abramowitz and Stegun 26.7.5.
    """
    ratio = after.value_ns / before.value_ns
    spread = ratio * float(np.hypot(before.error_ns / before.value_ns, after.error_ns / after.value_ns))
    freedom, z = min(before.blocks, after.blocks) - 1, _NORMAL_97_5
    t = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    return 1 - ratio, t * spread


def blamed_share(report: Report) -> float | None:
    """Return the share of the window for which a capture blames the loader.

    It is idle GPU time that waits for a batch, or that lies in the phases data and copy, and exposed copies, over all
    GPUs; without a GPU, the host's time in these phases. None where neither was recorded.
    """
    ledger, idle, phases = (report.section(key) for key in ("ledger", "idle", "phases"))
    if ledger is not None and idle is not None:
        devices, causes = ledger.tables["devices"], idle.tables["causes"]
        data = causes["cause"].isin(DATA_CAUSES) | causes["phase"].isin(DATA_PHASES)
        blamed = int(causes["idle_ns"][data].sum()) + int(devices["copy_exposed_ns"].sum())
        return blamed / int(devices["window_ns"].sum())
    if phases is None:
        return None
    frame = phases.tables["phases"]
    whole = int(frame["host_ns"].sum())
    return int(frame["host_ns"][frame["phase"].isin(DATA_PHASES)].sum()) / whole if whole else None


def headline(share: float, margin: float, before: Mean, after: Mean) -> str:
    """Return the result in one sentence."""
    return (
        f"The loader costs {100 * share:.0f} % +- {max(round(100 * margin), 1)} of each step: "
        f"{units.duration(round(before.value_ns))} as it is, {units.duration(round(after.value_ns))} with batches that "
        f"are on the device already (95 % confidence, {before.count} and {after.count} steps)."
    )


def agreement(share: float, margin: float, blamed: float | None, causes: pd.DataFrame) -> str:
    """Say whether the gain is what the first capture blames the loader for, and if not, where the rest went."""
    if blamed is None:
        return "The first capture has neither GPU work nor phases, so there is nothing to compare the gain with."
    said = f"The first capture blames the loader for {units.share(blamed)}"
    if abs(share - blamed) <= max(margin, AGREEMENT_SHARE):
        return f"{said}: the two agree."
    others = causes[~causes["of_loader"].astype(bool)]
    if not len(others):
        return f"{said}: the two do not agree, and the captures do not show why."
    change = (others["without_loader_ns"] - others["base_ns"]).to_numpy(np.int64)
    row = others.iloc[int(change.argmax() if blamed > share else change.argmin())]
    told = f"{row['part']} took {units.duration(int(row['base_ns']))} of a step and takes "
    told += f"{units.duration(int(row['without_loader_ns']))} without the loader"
    if blamed > share:
        return f"{said}: less was gained, since other work was behind the wait. Most of it: {told}."
    return f"{said}: more was gained, since the loader also slowed down other work. Most of it: {told}."


def _common_steps(base: Report, replayed: Report, kept: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the lengths of the measured steps of both runs that have the same names, without those that load batches."""
    first, second = _measured(base), _measured(replayed)
    names = set(first["name"]) & set(second["name"][kept:])
    both = [frame[frame["name"].isin(names)] for frame in (first, second)]
    first, second = (both[0], both[1]) if len(names) else (first, second.iloc[kept:])
    return _length(first), _length(second)


def _measured(report: Report) -> pd.DataFrame:
    section = report.section("steps")
    if section is None or "steps" not in section.tables:
        return pd.DataFrame({"name": [], "start_ns": [], "end_ns": []})
    frame = section.tables["steps"].drop_duplicates(["start_ns", "end_ns"])
    return frame[~frame["warm_up"].astype(bool)]


def _length(steps: pd.DataFrame) -> npt.NDArray[np.int64]:
    return (steps["end_ns"] - steps["start_ns"]).to_numpy(np.int64)


def _by_cause(base: Report, replayed: Report) -> pd.DataFrame:
    """Return the mean step of both runs by what it was spent on, largest change first."""
    first, second = _parts(base), _parts(replayed)
    rows = [
        {
            "part": part,
            "base_ns": round(first.get(part, (0.0, False))[0]),
            "without_loader_ns": round(second.get(part, (0.0, False))[0]),
            "of_loader": first.get(part, second.get(part, (0.0, False)))[1],
        }
        for part in sorted(first.keys() | second.keys())
    ]
    frame = pd.DataFrame(rows, columns=["part", "base_ns", "without_loader_ns", "of_loader"])
    order = (frame["without_loader_ns"] - frame["base_ns"]).abs().sort_values(ascending=False, kind="stable").index
    return frame.loc[order].reset_index(drop=True)


def _parts(report: Report) -> dict[str, tuple[float, bool]]:
    """Return the time of each part of a step, a mean over steps and GPUs, and whether it is the loader's."""
    ledger, idle, phases = (report.section(key) for key in ("ledger", "idle", "phases"))
    steps = max(len(_measured(report)), 1)
    if ledger is None or idle is None:
        frame = phases.tables["phases"] if phases is not None else pd.DataFrame({"phase": [], "host_ns": []})
        return {
            f"host in {phase}": (host / steps, phase in DATA_PHASES)
            for phase, host in zip(frame["phase"], frame["host_ns"], strict=True)
        }
    devices, causes = ledger.tables["devices"], idle.tables["causes"]
    each = steps * max(len(devices), 1)
    found: dict[str, tuple[float, bool]] = {
        row.removesuffix("_ns").replace("_", " "): (int(devices[row].sum()) / each, row == "copy_exposed_ns")
        for row in devices.columns
        if row.endswith("_ns") and row not in {"window_ns", "idle_ns"}
    }
    sums = causes.groupby(["cause", "phase"], observed=True, as_index=False)["idle_ns"].sum()
    for cause, phase, total in zip(sums["cause"], sums["phase"], sums["idle_ns"], strict=True):
        of_loader = cause in DATA_CAUSES or phase in DATA_PHASES
        found[f"idle: {cause} in {phase}"] = (int(total) / each, of_loader)
    return found


def _cannot_tell(base: Report, why: str) -> Section:
    return Section(KEY, TITLE, base.window, notes=(why,))
