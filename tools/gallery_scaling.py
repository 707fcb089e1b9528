"""AlexNet on one GPU and on several, for docs/results.md: shares of NCCL, and how a step differs.

The reports are those of the sweep `alexnet`. Where there are none, the page has no such part.
"""

import json
import lzma
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SWEEP = Path(__file__).resolve().parent.parent / "reports" / "sweeps" / "alexnet"
PROGRAM = "alexnet_scaling.py"
# Published on Maxwell GPUs with nvprof, nn.DataParallel: GPUs, batch size, what is counted, its pattern, and its share.
BROADCAST, REDUCE, UPDATES, SENT = (
    r"(?i)nccl\w*Broadcast",
    r"(?i)nccl\w*_?Reduce",
    "multi_tensor_apply",
    "Host-to-Device",
)
PUBLISHED = (
    (4, 16, "NCCL broadcast", BROADCAST, "30.6 %, first (128 calls of 3.12 ms)"),
    (4, 16, "NCCL reduce", REDUCE, "6.5 %"),
    (4, 16, "host to device", SENT, "7.0 %"),
    (4, 128, "NCCL broadcast", BROADCAST, "16.7 %, first"),
    (4, 128, "NCCL reduce", REDUCE, "3.6 %"),
    (4, 128, "host to device", SENT, "10.9 %"),
    (1, 8, "NCCL", "(?i)nccl", "none"),
    (1, 8, "updates of the weights", UPDATES, "20.4 %, first"),
    (1, 32, "updates of the weights", UPDATES, "13.4 %, first"),
)
PARTS: Mapping[str, tuple[str, ...]] = {
    "compute": ("compute_ns",),
    "copies": ("copy_exposed_ns", "memset_exposed_ns"),
    "wait": ("communication_wait_ns",),
    "transfer": ("communication_transfer_ns",),
    "idle": ("idle_ns",),
}
HEAD = """## AlexNet on one GPU and on several

Source: Maxwell GPUs, nvprof, `nn.DataParallel`, shares of GPU time. The batch is that of all GPUs together.
"""
BESIDE = """\
GPU time is the sum of all kernels, copies and memsets of all GPUs in the measured steps. Kernels of NCCL that
wait for another GPU count as well, as with nvprof. The published shares, and those of the same batch here with
`nn.DataParallel`; "first" means that one of the kernels counted takes more time than any other activity:
"""
REMARK = """\
The runs on four GPUs were recorded on another machine of the same kind, several at a time, after thirty timed steps;
the others one by one, from the first step. All steps are under nsys.

On one GPU the updates of the weights take about the published share, and less as the batch grows. With
`nn.DataParallel` on four GPUs, broadcast and reduction take half of the GPU time with a batch of 16. With 128 it is
about half of that, as published. The reduction takes as long as the broadcast here, a fifth of it in the source.
Each further GPU makes a step longer, because one process launches for all of them: the GPUs are idle most of the time.
With DistributedDataParallel on four GPUs, small batches wait for the rank that launches last, and only a batch of 128
is faster than on one: {speedups}
"""
IDENTITY = """What a step on several GPUs takes longer than on one with the same batch, in ms, mean over GPUs, with
`nn.DataParallel` (DP) and DistributedDataParallel (DDP). The parts add up to the difference; what is left comes last:
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of the sweep.

    Attributes:
        batch: Batch size of all GPUs together.
        mode: "dp" or "ddp"; "one" for one GPU.
    """

    gpus: int
    batch: int
    mode: str
    report: Mapping[str, Any]

    @property
    def key(self) -> tuple[int, int, str]:
        """Return GPUs, batch and mode."""
        return self.gpus, self.batch, self.mode

    @property
    def name(self) -> str:
        kind = {"dp": "DP", "ddp": "DDP"}.get(self.mode)
        return f"{self.gpus} GPU{'s' if self.gpus > 1 else ''}, batch {self.batch}{f', {kind}' if kind else ''}"

    @property
    def steps(self) -> int:
        """Return the number of measured steps, at least 1: the ranks of a job make the same step together."""
        return int(self.report["step"]["count"] or 1)

    @property
    def step_ns(self) -> float:
        """Return the mean time of a step, mean over GPUs, in ns: each has its own part of the window."""
        devices = self.report["sections"]["ledger"]["tables"]["devices"]
        return float(sum(row["window_ns"] for row in devices)) / (len(devices) * self.steps)

    def parts(self) -> dict[str, float]:
        """Return the parts of a mean step, mean over GPUs, in ns."""
        devices = self.report["sections"]["ledger"]["tables"]["devices"]
        count = len(devices) * self.steps
        return {name: sum(row[each] for row in devices for each in rows) / count for name, rows in PARTS.items()}

    def activities(self) -> list[tuple[str, int, int]]:
        """Return name, calls and ns of all kernels, copies and memsets in the window, the longest first."""
        sections = self.report["sections"]
        kernels = [(row["name"], row["count"], row["total_ns"]) for row in sections["kernels"]["tables"]["summary"]]
        copies = [
            (f"[{row['kind']}]", row["count"], row["total_ns"]) for row in sections["copies"]["tables"]["summary"]
        ]
        return sorted(kernels + copies, key=lambda each: (-each[2], each[0]))

    def share(self, pattern: str) -> float:
        """Return the share of GPU time in activities whose name has a pattern."""
        every = self.activities()
        whole = sum(ns for *_, ns in every)
        return sum(ns for name, _, ns in every if re.search(pattern, name)) / max(whole, 1)


def cells(folder: Path = SWEEP) -> list[Cell]:
    """Return the runs of a sweep, by GPUs, mode and batch; of several runs of one cell the one of median length."""
    found: dict[tuple[int, int, str], list[Cell]] = {}
    for path in sorted(folder.glob("*/report.json.xz")):
        report = json.loads(lzma.decompress(path.read_bytes()))
        cell = _cell(report)
        if cell is not None:
            found.setdefault(cell.key, []).append(cell)
    chosen = [sorted(each, key=lambda cell: cell.step_ns)[(len(each) - 1) // 2] for each in found.values()]
    return sorted(chosen, key=lambda cell: (cell.gpus, cell.mode, cell.batch))


def _cell(report: Mapping[str, Any]) -> Cell | None:
    """Return the cell of a report, from the options of its program; None for another program, or without GPU work."""
    words = list(report["session"]["command"])
    if not any(word.endswith(PROGRAM) for word in words) or not report["sections"].get("ledger", {}).get("tables"):
        return None
    given = {word: words[at + 1] for at, word in enumerate(words[:-1]) if word.startswith("--")}
    gpus = int(given.get("--gpus", 1))
    return Cell(gpus, int(given.get("--batch-size", 32)), given.get("--mode", "dp") if gpus > 1 else "one", report)


def part(folder: Path = SWEEP) -> str:
    """Return this part of the page; an empty text without reports."""
    found = cells(folder)
    return "\n".join([HEAD, *_published(found), *_identity(found)]) if found else ""


def _published(found: Sequence[Cell]) -> Iterator[str]:
    """Yield the published shares, each with ours of the same batch on as many GPUs, or on the most that there were."""
    most = max(cell.gpus for cell in found)
    ours = {(cell.gpus, cell.batch): cell for cell in found if cell.mode != "ddp"}
    head = ("batch", "activity", "published", "on GPUs", "here", "on GPUs")
    yield from (BESIDE, _line(head), "|---:|---|---|---:|---|---:|")
    for gpus, batch, activity, pattern, said in PUBLISHED:
        cell = ours.get((min(gpus, most), batch))
        if cell is not None:
            first = ", first" if re.search(pattern, cell.activities()[0][0]) else ""
            here = f"{_percent(cell.share(pattern))}{first}"
            yield _line((str(batch), activity, said, str(gpus), here, str(cell.gpus)))
    yield from ("", REMARK.format(speedups=_speedups(found)))


def _speedups(found: Sequence[Cell]) -> str:
    """Return how many times the work the most GPUs do with DistributedDataParallel, by batch."""
    alone = {cell.batch: cell.step_ns for cell in found if cell.gpus == 1}
    most = max(cell.gpus for cell in found)
    ranks = [cell for cell in found if cell.gpus == most and cell.mode == "ddp" and cell.batch in alone]
    each = [f"{alone[cell.batch] / cell.step_ns:.2f} with {cell.batch}" for cell in ranks]
    return f"{most} GPUs do {', '.join(each)} times the work of one." if each else "not measured."


def _identity(found: Sequence[Cell]) -> Iterator[str]:
    """Yield the table of what several GPUs add to a step; nothing where no batch ran on one GPU as well."""
    alone = {cell.batch: cell for cell in found if cell.gpus == 1}
    several = [cell for cell in found if cell.gpus > 1 and cell.batch in alone]
    if not several:
        return
    head = ("GPUs, batch, mode", "step on one", "step", "difference", *PARTS, "left")
    yield from (IDENTITY, _line(head), "|---|" + "---:|" * (len(head) - 1))
    for cell in several:
        base = alone[cell.batch]
        before, now = base.parts(), cell.parts()
        added = {name: now[name] - before[name] for name in PARTS}
        difference = cell.step_ns - base.step_ns
        numbers = [base.step_ns, cell.step_ns, difference, *added.values(), difference - sum(added.values())]
        yield _line((cell.name, *(f"{each / 1e6 + 0.0:.3f}" for each in (round(one, 3) for one in numbers))))
    yield ""


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _line(parts: Sequence[str]) -> str:
    return f"| {' | '.join(parts)} |"
