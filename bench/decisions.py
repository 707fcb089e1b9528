"""Print how often `compare` and `gate` are wrong, and what they find: the tables of docs/compare.md and docs/gate.md.

    python bench/decisions.py                the series in bench/series, with each program
    python bench/decisions.py --docs         writes the rows of all programs into docs/compare.md and docs/gate.md, too
    python bench/decisions.py FILE...        others that bench/record_series.py made

Each series has the runs of several programs in order of time. Nothing changed between the runs of a program, so any
claim is false. Slowdowns are planted: the step times of the new runs are multiplied. Windows are runs in a row, so
that load that lasts stays together, and runs drawn without order.
"""

import argparse
import itertools
import json
import lzma
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from nsyswrap.compare import estimates
from nsyswrap.compare.bootstrap import Series as Times
from nsyswrap.compare.bootstrap import Statistic, standard_error
from nsyswrap.compare.comparison import FIND, Outcome
from nsyswrap.compare.estimates import decide, estimate_changes
from nsyswrap.compare.step_times import KERNEL_ROWS, MeasuredSteps
from nsyswrap.gate.decision import judge
from nsyswrap.gate.timed_runs import GateOutcome, TimedRun

# Series, program, its runs, and the spread between their times per step.
Series = tuple[str, str, list[MeasuredSteps], float]
Counts = list[int]

SERIES = Path(__file__).parent / "series"
DOCS = Path(__file__).parent.parent / "docs"
BEGIN, END = "<!-- table of bench/decisions.py -->", "<!-- end of the table -->"
SIDES = (1, 2, 3, 5)
SEED, DRAWS = 15, 40
EARLIER, NEW = (10, 15), 3
PLANTED = 0.05
HIDDEN = 0.025
"""A change that "no difference" must exclude: a little more than the 2 % that `compare` looks for."""


def steps_of(run: dict[str, Any], share: float | None) -> MeasuredSteps:
    """Return the steps of a recorded run; kernels run for a share of them, None without a GPU."""
    times = np.array(run["steps_ns"], np.float64)
    busy = times * (share or 0.0)
    parts = {} if share is None else {row: busy if row == KERNEL_ROWS[0] else 0 * busy for row in KERNEL_ROWS}
    return MeasuredSteps(times, times, parts, waiting_ns=float(run["waiting_ns"]))


def slower(run: MeasuredSteps, share: float) -> MeasuredSteps:
    """Return a run whose steps take longer by a share; its waits for a core are as they were."""
    return replace(run, length=run.length * (1 + share), period=run.period * (1 + share))


def windows(runs: Sequence[MeasuredSteps], count: int) -> Iterator[list[MeasuredSteps]]:
    """Yield runs in a row, then runs drawn without order."""
    for first in range(len(runs) - count + 1):
        yield list(runs[first : first + count])
    generator = np.random.default_rng(SEED)
    for _ in range(DRAWS if len(runs) >= count else 0):
        yield [runs[at] for at in generator.permutation(len(runs))[:count]]


def compared(base: Sequence[MeasuredSteps], new: Sequence[MeasuredSteps]) -> Outcome:
    """Return what `compare` says about two sides."""
    return decide(estimate_changes(base, new, FIND), base, new, FIND).outcome


def gated(earlier: Sequence[MeasuredSteps], new: Sequence[MeasuredSteps]) -> GateOutcome:
    """Return what `gate` says about new runs."""
    sides = [
        [TimedRun(str(at), float(one.period.mean()), float(np.median(one.length)), waiting_ns=one.waiting_ns)
         for at, one in enumerate(runs)]
        for runs in (earlier, new)
    ]  # fmt: skip
    return judge(sides[0], sides[1]).outcome


def compare_counts(runs: Sequence[MeasuredSteps]) -> Iterator[tuple[int, Counts]]:
    """Yield each number of runs a side, with the windows, false claims, and so on as the table has them."""
    for count in SIDES:
        every = [(one[:count], one[count:]) for one in windows(runs, 2 * count)]
        said = Counter(compared(base, new) for base, new in every)
        longer = [compared(base, [slower(run, PLANTED) for run in new]) for base, new in every]
        hidden = [compared(base, [slower(run, HIDDEN) for run in new]) for base, new in every]
        wrong, same = said[Outcome.FASTER] + said[Outcome.SLOWER], said[Outcome.NO_DIFFERENCE]
        yield count, [len(every), wrong, same, hidden.count(Outcome.NO_DIFFERENCE), longer.count(Outcome.SLOWER)]


def gate_counts(runs: Sequence[MeasuredSteps]) -> Iterator[tuple[int, Counts]]:
    """Yield each number of earlier runs, with the windows, false alarms, and so on as the table has them."""
    for earlier in EARLIER:
        every = [(one[:earlier], one[earlier:]) for one in windows(runs, earlier + NEW)]
        said = Counter(gated(base, new) for base, new in every)
        longer = Counter(gated(base, [slower(run, PLANTED) for run in new]) for base, new in every)
        passed, found = longer[GateOutcome.PASSES], longer[GateOutcome.REGRESSED]
        yield earlier, [len(every), said[GateOutcome.REGRESSED], said[GateOutcome.PASSES], passed, found]


def programs_of(file: Path) -> Iterator[tuple[str, list[MeasuredSteps], float]]:
    """Yield the programs of a file: name, runs, and the spread between their times per step."""
    for name, runs in json.loads(lzma.decompress(file.read_bytes())).items():
        share = next((run["kernel_share"] for run in runs if "kernel_share" in run), None)
        found = [steps_of(run, share) for run in runs]
        yield name, found, float(np.log([run.period.mean() for run in found]).std(ddof=1))


def remembered(error: Callable[[Times, Statistic], float]) -> Callable[[Times, Statistic], float]:
    """Return the function with a memory: a run is in many windows, and its standard error takes 2,000 draws."""
    known: dict[tuple[bytes, Statistic], float] = {}

    def kept(times: Times, statistic: Statistic) -> float:
        key = times.tobytes(), statistic
        if key not in known:
            known[key] = error(times, statistic)
        return known[key]

    return kept


def table(
    heads: Sequence[str], series: Sequence[Series], counts: Callable[[Sequence[MeasuredSteps]], Iterator[Any]], one: int
) -> str:
    """Return a table of shares in per cent: of each program at one number of runs, and of all programs at each."""
    lines = [f"| series | program | spread | {' | '.join(heads)} |", "|---" * (len(heads) + 3) + "|"]
    for name, group in itertools.groupby(series, key=itemgetter(0)):
        whole: dict[int, Counts] = {}
        for _, program, runs, spread in group:
            for number, found in counts(runs):
                whole[number] = [sum(pair) for pair in zip(whole.get(number, [0] * len(found)), found, strict=True)]
                if number == one:
                    lines.append(row(name, program, f"{100 * spread:.1f} %", number, found))
        lines += [row(name, "all", "", number, found) for number, found in whole.items()]
    return "\n".join(lines)


def row(name: str, program: str, spread: str, number: int, found: Counts) -> str:
    """Return a row: the counts of a window as shares of the number of windows, in per cent."""
    shares = [f"{100 * one / found[0]:.1f}" if found[0] else "-" for one in found[1:]]
    return f"| {' | '.join([name, program, spread, str(number), str(found[0]), *shares])} |"


def without_programs(text: str) -> str:
    """Return a table without its rows of single programs, and without their columns."""
    heads, line, *rows = text.splitlines()
    return "\n".join(
        [
            heads.replace(" program | spread |", ""),
            line[8:],
            *(row.replace(" all |  |", "") for row in rows if " all |  |" in row),
        ]
    )


def main() -> None:
    """Print both tables, and write them into the documentation where that is wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--docs", action="store_true", help="Write the tables into the documentation, too.")
    chosen = parser.parse_args()
    series = [
        (file.name.partition(".")[0], *one)
        for file in chosen.files or sorted(SERIES.glob("*.json.xz"))
        for one in programs_of(file)
    ]
    compare = ["a side", "windows", "false claims", "no difference", "no difference, 2.5 % slower", "5 % slower found"]
    gate = ["earlier", "windows", "false alarms", "passes", "passes, 5 % slower", "5 % slower found"]
    for name, heads, counts, one in (("compare", compare, compare_counts, 3), ("gate", gate, gate_counts, 10)):
        with patch.object(estimates, "standard_error", remembered(standard_error)):
            text = table(heads, series, counts, one)
        print(f"{name}, per cent of windows\n\n{text}\n", flush=True)
        if chosen.docs:
            page = DOCS / f"{name}.md"
            before, _, rest = page.read_text().partition(BEGIN)
            page.write_text(f"{before}{BEGIN}\n\n{without_programs(text)}\n\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
