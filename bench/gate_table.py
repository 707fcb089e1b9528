# ruff: noqa: INP001, T201 - a program for the terminal, not a package
"""Print the tables of docs/gate.md: false alarms and slowdowns found, by the gate, a fixed 5 %, and Otava.

    python bench/gate_table.py --keep FILE FOLDER...    read the runs of bench/gate_runs.py, and keep their step times
    python bench/gate_table.py FILE [NAME...]           the tables of kept step times; bench/gate_runs.json is committed

NAME is a loop of the file, or "normal" for made noise; all without one.

Otava is one more column where it can be imported (`pip install apache-otava` into a folder on PYTHONPATH).
"""

import importlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nsyswrap.compare.run_noise import GPU_SPREAD
from nsyswrap.compare.step_times import step_times
from nsyswrap.gate import GateOutcome, TimedRun, judge
from nsyswrap.gate.noise import middle
from nsyswrap.gate.reports import NamedReport, timed_run
from nsyswrap.render.json_reader import read_report

Series = npt.NDArray[np.float64]
# Time per step, median step, and wait for a core a step of each run, in ns, shape (runs, 3); nan for an unknown wait.
Runs = npt.NDArray[np.float64]
Judge = Callable[[Runs, Runs], bool]

SEED = 15
DRAWS = 500
EARLIER = (10, 20)
NEW = (1, 2, 3)
PLANTED = (3, 5, 10)
BLOCK = 5
FIXED = 0.05
UNKNOWN_WAIT = np.array([[1.0, 1.0, np.nan]])
# Otava looks at these many runs at a time, and calls a change at this p-value: its defaults.
OTAVA_WINDOW, OTAVA_P = 50, 0.001


@dataclass(frozen=True)
class Loop:
    """All runs of one loop in order of time.

    Attributes:
        name: Its name.
        work: Work of each run in per cent of the unchanged loop, shape (n,).
        load: Load of the machine at the start of each run, shape (n,).
        times: Shape (n, 3).
    """

    name: str
    work: npt.NDArray[np.int64]
    load: Series
    times: Runs

    @property
    def unchanged(self) -> Runs:
        """Return the unchanged runs in order."""
        found: Runs = self.times[self.work == 100]  # noqa: PLR2004 - per cent
        return found


def by_gate(earlier: Runs, new: Runs) -> bool:
    """Return whether the gate calls the new runs slower."""
    sides = [
        [
            TimedRun(str(at), mean, median, waiting_ns=None if np.isnan(waits) else waits)
            for at, (mean, median, waits) in enumerate(runs.tolist())
        ]
        for runs in (earlier, new)
    ]
    return judge(sides[0], sides[1]).outcome is GateOutcome.REGRESSED


def by_fixed_limit(earlier: Runs, new: Runs) -> bool:
    """Return whether the time per step is more than 5 % above that of the earlier runs."""
    return middle(new[:, 0]) > (1 + FIXED) * float(np.median(earlier[:, 0]))


def by_otava(earlier: Runs, new: Runs) -> bool:
    """Return whether Otava finds a change to slower runs among the new ones, in the time per step."""
    found, _ = importlib.import_module("otava.analysis").compute_change_points(
        [float(one) for one in (*earlier[:, 0], *new[:, 0])], OTAVA_WINDOW, OTAVA_P, 0.0
    )
    return any(one.index >= len(earlier) and one.stats.mean_2 > one.stats.mean_1 for one in found)


def judges() -> dict[str, Judge]:
    """Return the judges by name; Otava only where it can be imported."""
    found: dict[str, Judge] = {"gate": by_gate, "5 %": by_fixed_limit}
    try:
        importlib.import_module("otava.analysis")
    except ImportError:
        return found
    return found | {"Otava": by_otava}


def consecutive(series: Runs, count: int) -> Iterator[Runs]:
    """Yield every interval of so many runs in a row."""
    for first in range(len(series) - count + 1):
        yield series[first : first + count]


def in_blocks(series: Runs, count: int) -> Iterator[Runs]:
    """Yield series drawn in blocks of five runs in a row, so that load that lasts stays together."""
    generator = np.random.default_rng(SEED)
    for _ in range(DRAWS):
        starts = generator.integers(0, len(series) - BLOCK + 1, -(-count // BLOCK))
        places = (starts[:, None] + np.arange(BLOCK)).ravel()[:count]
        yield series[places]


def in_random_order(series: Runs, count: int) -> Iterator[Runs]:
    """Yield runs drawn without repetition in random order: noise as it is, without its order."""
    generator = np.random.default_rng(SEED)
    for _ in range(DRAWS):
        yield generator.permutation(series)[:count]


def normal(spread: float) -> Callable[[Runs, int], Iterator[Runs]]:
    """Return a function that yields series of normal noise; the argument that it takes is not used."""

    def draw(_series: Runs, count: int) -> Iterator[Runs]:
        generator = np.random.default_rng(SEED)
        for _ in range(DRAWS):
            yield 1e7 * np.exp(spread * generator.standard_normal((count, 1))) * UNKNOWN_WAIT

    return draw


def scaled(series: Runs, spread: float) -> Runs:
    """Return a real series with its noise made as large as that of another program, its shape and order kept."""
    logarithms = np.log(series[:, 0])
    centred = logarithms - np.median(logarithms)
    found: Runs = 1e7 * np.exp(centred * (spread / centred.std(ddof=1)))[:, None] * UNKNOWN_WAIT
    return found


def share(flags: Sequence[bool]) -> str:
    """Return a share in per cent, and of how many."""
    return f"{100 * sum(flags) / len(flags):.1f}" if flags else "-"


def false_alarms(series: Runs, draw: Callable[[Runs, int], Iterator[Runs]]) -> Iterator[str]:
    """Yield rows: how often an unchanged program is called slower, for each number of new runs."""
    for earlier in EARLIER:
        cells = []
        for judge_runs in judges().values():
            by_count = []
            for new in NEW:
                windows = draw(series, earlier + new)
                by_count.append(share([judge_runs(one[:earlier], one[earlier:]) for one in windows]))
            cells.append(" / ".join(by_count))
        yield f"| {earlier} | {' | '.join(cells)} |"


def found(windows: Iterator[Runs], earlier: int, factor: float) -> list[str]:
    """Return the share of series whose slowdown is found by one, two or three new runs, for each judge."""
    series = [np.concatenate([one[:earlier], factor * one[earlier:]]) for one in windows]
    return [
        share(
            [any(each(one[:earlier], one[earlier : earlier + new]) for new in NEW if len(one) >= earlier + new)
             for one in series]
        )
        for each in judges().values()
    ]  # fmt: skip


def planted_by_number(series: Runs, draw: Callable[[Runs, int], Iterator[Runs]]) -> Iterator[str]:
    """Yield rows: slowdowns put into the numbers of a series, found within three runs."""
    for percent in (0, *PLANTED):
        for earlier in EARLIER:
            cells = found(draw(series, earlier + max(NEW)), earlier, 1 + percent / 100)
            yield f"| {percent} % | {earlier} | {' | '.join(cells)} |"


def planted_by_work(loop: Loop) -> Iterator[str]:
    """Yield rows: real runs that do more work, after real unchanged ones; the order of time is kept."""
    places = np.flatnonzero(loop.work == 100)  # noqa: PLR2004 - per cent
    for percent in PLANTED:
        slower = np.flatnonzero(loop.work == 100 + percent)
        for earlier in EARLIER:
            series = []
            for first in range(len(places) - earlier + 1):
                after = slower[slower > places[first + earlier - 1]][: max(NEW)]
                if len(after) == max(NEW):
                    series.append(np.concatenate([loop.times[places[first : first + earlier]], loop.times[after]]))
            cells = found(iter(series), earlier, 1.0)
            yield f"| {percent} % | {earlier} | {len(series)} | {' | '.join(cells)} |"


def planted_in_random_order(loop: Loop) -> Iterator[str]:
    """Yield rows: real runs that do more work after real unchanged ones, both drawn without repetition."""
    generator = np.random.default_rng(SEED)
    for percent in PLANTED:
        slower = loop.times[loop.work == 100 + percent]
        for earlier in EARLIER:
            if len(loop.unchanged) < earlier or len(slower) < max(NEW):
                continue
            draws = (
                np.concatenate(
                    [generator.permutation(loop.unchanged)[:earlier], generator.permutation(slower)[: max(NEW)]]
                )
                for _ in range(DRAWS)
            )
            cells = found(draws, earlier, 1.0)
            yield f"| {percent} % | {earlier} | {len(slower)} | {' | '.join(cells)} |"


def describe(loop: Loop) -> str:
    """Return a sentence about a series."""
    noise = np.log(loop.unchanged[:, 0])
    return (
        f"{loop.name}: {len(loop.unchanged)} unchanged runs of {len(loop.work)}, load {loop.load.min():.1f} to "
        f"{loop.load.max():.1f}, time per step {np.median(loop.unchanged[:, 0]) / 1e6:.2f} ms, spread between runs "
        f"{100 * noise.std(ddof=1):.1f} %, correlation with the run before "
        f"{np.corrcoef(noise[1:], noise[:-1])[0, 1]:.2f}"
    )


def read(folder: Path) -> Loop:
    """Return the runs of a folder that bench/gate_runs.py made."""
    notes = json.loads((folder / "runs.json").read_text())
    times = []
    for one in notes:
        report = read_report(folder / f"run-{one['run']:03d}" / "report.json")
        run = timed_run(NamedReport(report, ""), step_times(report))
        times.append((run.mean_ns, run.median_ns, np.nan if run.waiting_ns is None else run.waiting_ns))
    work, load = (np.array([one[key] for one in notes]) for key in ("work", "load"))
    return Loop(folder.name, work, load, np.array(times))


def keep(loops: Sequence[Loop], target: Path) -> None:
    """Write the step times of loops to a file, one line a run."""
    written = {
        loop.name: [
            {
                "work": int(work),
                "load": float(load),
                "mean_ns": round(mean),
                "median_ns": round(median),
                "waiting_ns": None if np.isnan(waits) else round(waits),
            }
            for work, load, (mean, median, waits) in zip(loop.work, loop.load, loop.times, strict=True)
        ]
        for loop in loops
    }
    lines = [
        f" {json.dumps(name)}: [\n  " + ",\n  ".join(map(json.dumps, runs)) + "\n ]" for name, runs in written.items()
    ]
    target.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def kept(source: Path) -> list[Loop]:
    """Return the loops of a file that ``keep`` wrote."""
    return [
        Loop(
            name,
            np.array([one["work"] for one in runs]),
            np.array([one["load"] for one in runs]),
            np.array([(one["mean_ns"], one["median_ns"], one["waiting_ns"]) for one in runs], np.float64),
        )
        for name, runs in json.loads(source.read_text()).items()
    ]


def show(title: str, heads: Sequence[str], rows: Iterator[str]) -> None:
    """Print a table."""
    names = list(judges())
    print(f"\n{title}\n\n| {' | '.join([*heads, *names])} |\n|{'---|' * (len(heads) + len(names))}", flush=True)
    for row in rows:
        print(row, flush=True)


def show_loop(loop: Loop) -> None:
    """Print the tables of one loop."""
    ways = {"consecutive": consecutive, "blocks of 5": in_blocks, "random order": in_random_order}
    print(f"\n{describe(loop)}")
    for way, draw in ways.items():
        show(f"{loop.name}, {way}: false alarms of 1 / 2 / 3 new runs", ["OLD"], false_alarms(loop.unchanged, draw))
    show(f"{loop.name}: more work, found within three runs", ["slower", "OLD", "series"], planted_by_work(loop))
    heads = ["slower", "OLD", "slower runs"]
    show(f"{loop.name}: more work in random order, found within three runs", heads, planted_in_random_order(loop))
    shaped = scaled(loop.unchanged, GPU_SPREAD)
    show(f"noise of {loop.name} scaled, blocks of 5", ["slower", "OLD"], planted_by_number(shaped, in_blocks))


def show_normal() -> None:
    """Print the tables of normal noise."""
    none, draw = np.empty((0, 3)), normal(GPU_SPREAD)
    show("normal noise: false alarms of 1 / 2 / 3 new runs", ["OLD"], false_alarms(none, draw))
    show("normal noise: found within three runs", ["slower", "OLD"], planted_by_number(none, draw))


def main(source: Path, names: Sequence[str]) -> None:
    """Print all tables, or those of some loops."""
    for loop in kept(source):
        if not names or loop.name in names:
            show_loop(loop)
    if not names or "normal" in names:
        show_normal()


if __name__ == "__main__":
    if sys.argv[1] == "--keep":
        keep([read(Path(folder)) for folder in sys.argv[3:]], Path(sys.argv[2]))
    else:
        main(Path(sys.argv[1]), sys.argv[2:])
