"""How much time the data loader takes: a run compared with the same run that reuses its first batches.

The steps of both runs are compared by number. The section shows the saving, and the time that the first capture
attributes to the loader. Where the two differ, a note says which part of the step explains the difference.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import units
from nsyswrap.model import Fact, Report, Section
from nsyswrap.rule_names import rule_name

KEY, TITLE = "counterfactual", "Without the data loader"

# Rules, causes and phases of idle time that go away without the loader, since the batches are on the GPU already.
DATA_RULES = ("data/worker_start",)
DATA_CAUSES = ("data_wait", "data_work")
DATA_PHASES = ("data", "copy")
_LOADER_RULES = (*DATA_RULES, *(f"idle/{cause}" for cause in DATA_CAUSES))

BLOCKS = 20
FEWEST_STEPS = 10
# A saving and an attributed share agree within this difference, since two runs differ by as much.
AGREEMENT_SHARE = 0.02
_NORMAL_97_5 = 1.959964


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean length of some steps.

    Attributes:
        value_ns: The mean.
        error_ns: Its standard error.
        blocks: Number of blocks of steps that the error comes from.
        count: Number of steps.
    """

    value_ns: float
    error_ns: float
    blocks: int
    count: int


def without_loader(base: Report, cached: Report, kept: int) -> Section:
    """Return the comparison of a run with the same run without data loading.

    Args:
        base: The unchanged run.
        cached: The same program with a batch cache: each loader repeats its first batches.
        kept: Number of batches in the cache of each loader; the steps that load them are left out.

    Returns:
        A section: the loader's share of a step with its 95 % confidence interval, the share that the first capture
        attributes to it, and the parts of the mean step in both runs.
    """
    first, second = _common_steps(base, cached, kept)
    if min(len(first), len(second)) < FEWEST_STEPS:
        found = f"the runs have {len(first)} and {len(second)} comparable steps, fewer than {FEWEST_STEPS}"
        return _cannot_tell(base, f"The time of the data loader is unknown: {found}.")
    before, after = mean_of(first), mean_of(second)
    share, margin = saving(before, after)
    parts = _changed_parts(base, cached)
    attributed = attributed_share(base)
    facts = (
        Fact("loader_share", share, "share"),
        Fact("loader_margin_share", margin, "share"),
        Fact("attributed_share", attributed, "share"),
        Fact("mean_step_ns", before.value_ns, "ns"),
        Fact("mean_step_without_loader_ns", after.value_ns, "ns"),
        Fact("steps_compared", min(before.count, after.count), "count"),
    )
    notes = (headline(share, margin, before, after), agreement(share, margin, attributed, parts))
    return Section(KEY, TITLE, base.window, facts, {"parts": parts}, notes=notes)


def failed(base: Report, reason: str) -> Section:
    """Return the section for a second run that failed."""
    return _cannot_tell(base, f"The time of the data loader is unknown: {reason}.")


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

    Source: delta method for a ratio of independent means; Student's t by Abramowitz and Stegun 26.7.5.
    """
    ratio = after.value_ns / before.value_ns
    spread = ratio * float(np.hypot(before.error_ns / before.value_ns, after.error_ns / after.value_ns))
    freedom, z = min(before.blocks, after.blocks) - 1, _NORMAL_97_5
    t = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    return 1 - ratio, t * spread


def attributed_share(report: Report) -> float | None:
    """Return the share of the window that a capture attributes to the data loader.

    It is idle GPU time that waits for a batch or lies in the phases data and copy, plus exposed copies, over all GPUs.
    Without a GPU it is the CPU's time in these phases. None where neither was recorded.
    """
    ledger, idle, phases = (report.section(key) for key in ("ledger", "idle", "phases"))
    if ledger is not None and idle is not None:
        devices, rows = ledger.tables["devices"], idle.tables["attribution"]
        attributed = int(rows["idle_ns"][_of_loader(rows)].sum()) + int(devices["copy_exposed_ns"].sum())
        return attributed / int(devices["window_ns"].sum())
    if phases is None:
        return None
    frame = phases.tables["phases"]
    whole = int(frame["host_ns"].sum())
    return int(frame["host_ns"][frame["phase"].isin(DATA_PHASES)].sum()) / whole if whole else None


def _of_loader(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Return which rows of the attribution go away without the data loader."""
    return rows["rule"].isin(DATA_RULES) | rows["cause"].isin(DATA_CAUSES) | rows["phase"].isin(DATA_PHASES)


def headline(share: float, margin: float, before: Mean, after: Mean) -> str:
    """Return the result in one sentence."""
    return (
        f"The data loader takes {100 * share:.0f} % +- {max(round(100 * margin), 1)} of each step: "
        f"{units.duration(round(before.value_ns))} as it is, {units.duration(round(after.value_ns))} with batches that "
        f"are on the GPU already (95 % confidence, {before.count} and {units.counted(after.count, 'step')})."
    )


def agreement(share: float, margin: float, attributed: float | None, parts: pd.DataFrame) -> str:
    """Return a sentence that compares the saving with the attributed share, and explains a difference.

    Args:
        share: The saved share of a step.
        margin: Half of its 95 % confidence interval.
        attributed: The share that the first capture attributes to the loader; None where it cannot.
        parts: The parts of the mean step in both runs.
    """
    if attributed is None:
        return "The first capture has neither GPU work nor phases, so the saving cannot be compared with it."
    start = f"The first capture attributes {units.share(attributed)} to the data loader"
    if abs(share - attributed) <= max(margin, AGREEMENT_SHARE):
        return f"{start}, which agrees with the saving."
    others = parts[~parts["of_loader"].astype(bool)]
    if not len(others):
        return f"{start}, which differs from the saving; the captures do not show why."
    change = (others["without_loader_ns"] - others["base_ns"]).to_numpy(np.int64)
    row = others.iloc[int(change.argmax() if attributed > share else change.argmin())]
    largest = f"{row['part']} took {units.duration(int(row['base_ns']))} of a step and takes "
    largest += f"{units.duration(int(row['without_loader_ns']))} without the loader"
    if attributed > share:
        return f"{start}. The saving is smaller, since other work was hidden by the wait. Most of it: {largest}."
    return f"{start}. The saving is larger, since the loader also slowed down other work. Most of it: {largest}."


def _common_steps(base: Report, cached: Report, kept: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the lengths of the measured steps that both runs have by name, without those that fill the cache."""
    first, second = _measured(base), _measured(cached)
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


def _changed_parts(base: Report, cached: Report) -> pd.DataFrame:
    """Return the parts of the mean step in both runs, largest change first."""
    first, second = _parts(base), _parts(cached)
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
    """Return the time of each part of a step, a mean over steps and GPUs, and whether it goes away with the loader."""
    ledger, idle, phases = (report.section(key) for key in ("ledger", "idle", "phases"))
    # Ranks take the same steps at the same time: steps of one process count.
    steps = report.step.count or max(len(_measured(report)), 1)
    if ledger is None or idle is None:
        frame = phases.tables["phases"] if phases is not None else pd.DataFrame({"phase": [], "host_ns": []})
        return {
            f"CPU in {phase}": (host / steps, phase in DATA_PHASES)
            for phase, host in zip(frame["phase"], frame["host_ns"], strict=True)
        }
    devices, rows = ledger.tables["devices"], idle.tables["attribution"]
    each = steps * max(len(devices), 1)
    found: dict[str, tuple[float, bool]] = {
        row.removesuffix("_ns").replace("_", " "): (int(devices[row].sum()) / each, row == "copy_exposed_ns")
        for row in devices.columns
        if row.endswith("_ns") and row not in {"window_ns", "idle_ns"}
    }
    marked = rows.assign(of_loader=_of_loader(rows))
    sums = marked.groupby(["rule", "phase", "of_loader"], observed=True, as_index=False)["idle_ns"].sum()
    columns = (sums[name] for name in ("rule", "phase", "of_loader", "idle_ns"))
    for rule, phase, of_loader, total in zip(*columns, strict=True):
        # Loading may be only a part of the idle time of a rule and phase; it is then listed on its own.
        whole = phase in DATA_PHASES or rule in _LOADER_RULES
        part = f"idle: {rule_name(str(rule))} in {phase}" + (" (loading)" if of_loader and not whole else "")
        found[part] = (int(total) / each, bool(of_loader))
    return found


def _cannot_tell(base: Report, why: str) -> Section:
    return Section(KEY, TITLE, base.window, notes=(why,))
