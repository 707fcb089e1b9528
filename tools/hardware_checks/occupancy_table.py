"""Compare nsyswrap's theoretical occupancy with Nsight Compute's, launch by launch: `occupancy_table.py RAW.csv...`.

RAW.csv is `ncu --import REPORT --csv --page raw --print-units base` of a report with the sections LaunchStats and
Occupancy. A Markdown table goes to stdout; the exit code is 1 where anything differs.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nsyswrap.hardware.occupancy_calculator import LIMITS, Limits, Shapes, block_limits, occupancy
from nsyswrap.sections.tensor_cores.hardware_proof import NcuLaunch, launches_in
from nsyswrap.sections.tensor_cores.name_agreement import function_of

# Limits in the order of nsyswrap's formula.
THEIRS = (
    "launch__occupancy_limit_warps",
    "launch__occupancy_limit_registers",
    "launch__occupancy_limit_shared_mem",
    "launch__occupancy_limit_blocks",
)
SHARE = "sm__maximum_warps_per_active_cycle_pct"
# Nsight Compute prints shares of 1 % to four decimals or so.
TOLERANCE = 1e-4
NAME_WIDTH = 48


@dataclass(frozen=True, slots=True)
class Compared:
    """One launch by both.

    Attributes:
        shape: Threads, registers, shared memory of a block, and shared memory configured by the driver, in bytes.
        ours: Blocks by warps, registers, shared memory and the SM's own limit.
        theirs: The same by Nsight Compute.
        their_share: The same by Nsight Compute.
    """

    function: str
    shape: tuple[int, int, int, int]
    ours: tuple[int, ...]
    theirs: tuple[int, ...]
    our_share: float
    their_share: float

    @property
    def is_equal(self) -> bool:
        """Whether blocks and occupancy are the same; a limit that is never reached has two spellings."""
        return min(self.ours) == min(self.theirs) and abs(self.our_share - self.their_share) < TOLERANCE


def compared(launch: NcuLaunch, limits: Limits) -> Compared:
    """Return one launch by both; its inputs are those that Nsight Compute names."""
    values = launch.values
    used = values["launch__shared_mem_per_block_static"] + values["launch__shared_mem_per_block_dynamic"]
    shape = (
        int(values["launch__block_size"]),
        int(values["launch__registers_per_thread"]),
        int(used),
        int(values.get("launch__shared_mem_config_size", 0)),
    )
    shapes = Shapes(*(np.array([each], np.int64) for each in shape))
    blocks = block_limits(limits, shapes)[:, 0]
    return Compared(
        function=function_of(launch.name).rpartition("::")[2],
        shape=shape,
        ours=tuple(int(each) for each in blocks),
        theirs=tuple(int(values[name]) for name in THEIRS),
        our_share=float(occupancy(limits, shapes)[1][0]),
        their_share=values[SHARE] / 100,
    )


def limits_for(launch: NcuLaunch) -> Limits:
    major, _, minor = launch.texts["CC"].partition(".")
    return LIMITS[int(major), int(minor)]


def table(rows: Sequence[Compared]) -> str:
    """Return the Markdown table: a row for each distinct function and shape."""
    distinct: Mapping[tuple[object, ...], Compared] = {(row.function, row.shape): row for row in rows}
    heads = (
        "kernel",
        "threads",
        "registers",
        "shared memory",
        "set aside",
        "blocks by warps, registers, shared memory, SM",
    )
    lines = [
        f"| {' | '.join(heads)} | Nsight Compute | occupancy | Nsight Compute | equal |",
        f"|{'---|' * (len(heads) + 4)}",
    ]
    for row in distinct.values():
        name = row.function if len(row.function) <= NAME_WIDTH else f"{row.function[: NAME_WIDTH - 1]}…"
        ours, theirs = (", ".join(_limit(each) for each in limits) for limits in (row.ours, row.theirs))
        shape = " | ".join(f"{each:,}" for each in row.shape)
        shares = f"{row.our_share:.2%} | {row.their_share:.2%}"
        lines.append(f"| `{name}` | {shape} | {ours} | {theirs} | {shares} | {'yes' if row.is_equal else '**no**'} |")
    equal = sum(row.is_equal for row in distinct.values())
    return "\n".join([*lines, "", f"Equal: {equal} of {len(distinct)}."])


def main(files: Sequence[str]) -> int:
    launches = [each for file in files for each in launches_in(Path(file).read_text(encoding="utf-8"))]
    rows = [compared(each, limits_for(each)) for each in launches if SHARE in each.values]
    print(table(rows))
    return int(not rows or not all(row.is_equal for row in rows))


def _limit(blocks: int) -> str:
    """Return a number of blocks; what does not limit is a dash."""
    return str(blocks) if blocks < 1 << 16 else "-"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
