"""Compare the work that names and grids show with tensors of known sizes: `known_table.py EXPORT OUTPUT RAW.csv`.

EXPORT is a capture of `known_work.py`, OUTPUT what it printed, and RAW.csv what ncu counted in its measured parts, with
`--times 1`, `--csv --page raw --print-units base` and the metrics of ``READ`` and ``WRITTEN``. Operators of one kernel
are compared: a Markdown table goes to stdout, the exit code is 1 where a number lies outside of its bounds. With --json
the numbers go to stdout instead.
"""

import argparse
import csv
import json
import sqlite3
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from nsyswrap.hardware.kernel_work import LaunchWork, element_work, is_newer, launch_work

READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
CASE, MEASURED = "case ", "measured"
RANGES = """select n.start, n.end, coalesce(n.text, s.value) from NVTX_EVENTS n left join StringIds s on s.id = n.textId
    where n.end is not null order by n.start"""
KERNELS = """select r.start, k.end - k.start, s.value, k.gridX * k.gridY * k.gridZ, k.blockX * k.blockY * k.blockZ
    from CUPTI_ACTIVITY_KIND_KERNEL k join StringIds s on s.id = k.demangledName
    join CUPTI_ACTIVITY_KIND_RUNTIME r on r.correlationId = k.correlationId order by k.start"""
CACHE = "select l2CacheSize from TARGET_INFO_GPU limit 1"
# Counters include a little of what else the GPU does, such as its page tables.
MORE = 1.02


@dataclass(frozen=True, slots=True)
class Known:
    """One operator that is one kernel.

    Attributes:
        bytes: Bytes of the tensors that it reads and writes.
        memory_bytes: Bytes that Nsight Compute counted in the memory.
    """

    case: str
    kernel: str
    blocks: int
    threads: int
    elements: int
    bytes: int
    memory_bytes: float
    length_ns: float


def measured(export: Path) -> list[tuple[str, list[tuple[int, str, int, int]]]]:
    """Return the operators in order, each with length, name, blocks and threads of its kernels."""
    with closing(sqlite3.connect(export)) as database:
        ranges = [(start, end, text.lstrip(":")) for start, end, text in database.execute(RANGES) if text]
        kernels = database.execute(KERNELS).fetchall()
    cases = [(start, end, text.removeprefix(CASE)) for start, end, text in ranges if text.startswith(CASE)]
    found = []
    for start, end, text in ranges:
        if text == MEASURED:
            case = next(name for since, until, name in cases if since <= start and end <= until)
            found.append((case, [tuple(each[1:]) for each in kernels if start <= each[0] <= end]))
    return found


def counted(raw: Path) -> list[float]:
    """Return the bytes that Nsight Compute counted in the memory for each launch."""
    lines = [line for line in raw.read_text().splitlines() if not line.startswith("==")]
    units, *rows = csv.DictReader(lines)
    factors = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
    return [sum(float(row[each].replace(",", "")) * factors[units[each]] for each in (READ, WRITTEN)) for row in rows]


def joined(export: Path, output: str, raw: Path) -> list[Known]:
    """Return the operators of one kernel, as far as Nsight Compute measured them."""
    truths = {each["name"]: each for line in output.splitlines() if line.startswith("[{") for each in json.loads(line)}
    memory, found = counted(raw), []
    for case, kernels in measured(export):
        alike = dict.fromkeys(each[1:] for each in kernels)
        # ncu measured the operator once. nsys recorded as many runs of it as launches of its costliest kernel.
        launches = sum(1 for each in kernels if each[1:] == kernels[0][1:]) if kernels else 1
        taken, memory = memory[: len(kernels) // launches], memory[len(kernels) // launches :]
        if len(alike) == 1 == len(taken):
            truth, (name, blocks, threads) = truths[case], next(iter(alike))
            moved, length = truth["read"] + truth["written"], median(each[0] for each in kernels)
            found.append(Known(case, name, blocks, threads, truth["elements"], moved, taken[0], length))
    return found


def works(known: Sequence[Known]) -> list[LaunchWork | None]:
    """Return the work that each operator's name and grid show; None where they show none."""
    newer = any(is_newer(each.kernel) for each in known)
    found = [element_work(each.kernel, newer=newer) for each in known]
    return [
        launch_work(work, each.blocks, each.threads) if work else None for work, each in zip(found, known, strict=True)
    ]


def is_held(known: Known, work: LaunchWork, cache_bytes: int) -> bool:
    """Return whether true and counted numbers lie within the bounds; the cache may hold some before and after."""
    held = work.elements_low <= known.elements <= work.elements_high
    if work.bytes_low is None or work.bytes_high is None:
        return held
    true = work.bytes_low <= known.bytes <= work.bytes_high
    return held and true and work.bytes_low - 2 * cache_bytes <= known.memory_bytes <= MORE * work.bytes_high


def table(known: Iterable[Known], found: Iterable[LaunchWork | None]) -> str:
    """Return the operators as Markdown, in MB."""
    lines = ["| operator | bytes | inferred | memory, by Nsight Compute | time, us |", "|---|---|---|---|---|"]
    for each, work in zip(known, found, strict=True):
        bounds = "unknown"
        if work is not None and work.bytes_low is not None and work.bytes_high is not None:
            bounds = f"{work.bytes_low / 1e6:.1f} to {work.bytes_high / 1e6:.1f}"
        numbers = f"{each.bytes / 1e6:.1f} | {bounds} | {each.memory_bytes / 1e6:.1f} | {each.length_ns / 1e3:.1f}"
        lines.append(f"| `{each.case}` | {numbers} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Compare; 1 where a number lies outside of its bounds."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("export", type=Path)
    options.add_argument("output", type=Path)
    options.add_argument("raw", type=Path)
    options.add_argument("--json", action="store_true", help="print the numbers instead")
    chosen = options.parse_args(arguments)
    known = joined(chosen.export, chosen.output.read_text(), chosen.raw)
    found = works(known)
    with closing(sqlite3.connect(chosen.export)) as database:
        (cache,) = database.execute(CACHE).fetchone()
    print(json.dumps([asdict(each) for each in known], indent=1) if chosen.json else table(known, found))
    return 0 if all(work is None or is_held(each, work, cache) for each, work in zip(known, found, strict=True)) else 1


if __name__ == "__main__":
    sys.exit(main())
