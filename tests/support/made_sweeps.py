"""Sweeps made by hand: runs with parts of a step that add up."""

from collections.abc import Iterable, Mapping

from nsyswrap.sweep.cells import cells_of
from nsyswrap.sweep.endings import Ending
from nsyswrap.sweep.results import CellRun, StepPart, Sweep, sweep_of
from nsyswrap.sweep.spec import SweepSpec, parse

MS = 1_000_000.0

WORKERS = """
name = "Workers"
command = "python train.py --workers {workers}"
[axes]
workers = [0, 1, 2, 4, 8]
batch = [64]
"""

GPUS = """
name = "GPUs"
command = "{mode} --gpus {gpus} --batch-size {batch}"
batch_of = "all GPUs"
[axes]
gpus = [1, 2]
batch = [8, 16, 32]
mode = [{name = "dp", words = "python train.py"}, {name = "ddp", words = "torchrun --nproc-per-node {gpus} train.py"}]
[environment]
CUDA_VISIBLE_DEVICES = "{visible_gpus}"
[[same]]
where = {gpus = 1, mode = "ddp"}
as = {mode = "dp"}
"""


def made_run(cell: str, step_ms: float, number: int = 1, *, loader_ms: float = 0.0, host_ms: float = 0.0) -> CellRun:
    """Return a run on a GPU: data loader, host, and the rest of the step in kernels."""
    compute = step_ms - loader_ms - host_ms
    idle = (("idle/data_wait", loader_ms), ("launches/launch_bound", host_ms))
    parts = (StepPart("compute_ns", "", compute * MS), *(StepPart("idle_ns", rule, ms * MS) for rule, ms in idle if ms))
    return CellRun(
        cell=cell,
        number=number,
        ending=Ending.MEASURED,
        wall_s=10.0,
        folder=f"runs/{cell}/run-{number}",
        mean_ns=step_ms * MS,
        median_ns=step_ms * MS,
        step_count=28,
        cpu_share=1 - compute / step_ms,
        parts=parts,
        verdict="A verdict.",
        rule="idle/data_wait" if loader_ms else "",
        machine={"GPU": "NVIDIA H200", "GPUs": "1"},
        started_utc=f"2026-11-22T08:00:{number:02}Z",
    )


def failed_run(cell: str, ending: Ending = Ending.MEMORY, reason: str = "CUDA out of memory.") -> CellRun:
    return CellRun(cell, 1, ending, reason, wall_s=5.0, started_utc="2026-11-22T09:00:00Z")


def spec_of(text: str = WORKERS) -> SweepSpec:
    """Return the sweep that a TOML text describes."""
    return parse(text, "made.toml")


def keys_of(text: str) -> list[str]:
    """Return the keys of the cells of a sweep."""
    return [cell.key for cell in cells_of(spec_of(text))]


def workers_sweep(runs: int = 1) -> Sweep:
    """Return a sweep in which four workers are enough, the host limits after that, and one cell is out of memory."""
    loader = {"0": (40.0, 30.0), "1": (30.0, 20.0), "2": (16.0, 6.0), "4": (10.2, 0.2)}
    found = [
        made_run(f"workers-{name}_batch-64", step + 0.01 * number, number, loader_ms=wait, host_ms=7.0)
        for name, (step, wait) in loader.items()
        for number in range(1, runs + 1)
    ]
    return sweep_of(spec_of(), 7, [*found, failed_run("workers-8_batch-64")])


def gpus_sweep(step_ms: Mapping[str, float] | None = None, skipped: Iterable[str] = ()) -> Sweep:
    """Return a sweep over GPUs whose steps are 8 ms and 1 ms for each sample of a GPU, half of it on the host."""
    spec = spec_of(GPUS)
    runs = []
    for cell in cells_of(spec):
        if cell.same_as or cell.key in skipped:
            continue
        step = (step_ms or {}).get(cell.key, 8.0 + (cell.batch or 0) / (cell.gpus or 1))
        runs.append(made_run(cell.key, step, host_ms=4.0))
    return sweep_of(spec, 7, runs)
