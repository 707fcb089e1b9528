# ruff: noqa: INP001, T201 - a program for the terminal, not a package
"""Run sweeps of reports/sweeps on this machine within a hard limit, and pack what is committed of them.

    python tools/run_sweeps.py --out DIR --limit 420 alexnet
    python tools/run_sweeps.py --out DIR --limit 440 mnist-workers cifar-workers

Each DIR/NAME gets sweep.toml, sweep.json, and of each run CELL/report.json.xz and the end of its output. A sweep that
fails, or that the limit ends, leaves what it has, and the next one runs. With --tiny the programs are small enough for
a CPU.

A sweep over GPUs starts the next run as soon as a program has done its steps, while its capture is exported. Runs with
the most GPUs come first; runs that fit on the GPUs together train at the same time. That needs about ten cores a GPU.
"""

import argparse
import json
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gallery_results import cut

from nsyswrap.cli.sweep_runs import PROFILE, RUNS, planned_seed
from nsyswrap.sweep.cells import Cell, cells_of
from nsyswrap.sweep.order import shuffled
from nsyswrap.sweep.spec import GPUS, SweepSpec, parse

ROOT = Path(__file__).resolve().parent.parent
SWEEPS = ROOT / "reports" / "sweeps"
# Kept for packing, in seconds, and given to a sweep to end.
PACK_S, END_S = 5.0, 20.0
# A run that begins later than this before the limit would not end in time, in seconds. Workloads print DONE at the end.
LAST_START_S, POLL_S, DONE = 45.0, 0.1, "(medians)"
# What makes the programs small: a CPU only shows that they run.
TINY = {
    "--steps 33:63": "--trace nvtx --steps 5:9",
    "--steps 66": "--steps 12",
    "--steps 30": "--steps 3",
    "--steps 60": "--steps 4",
    "[8, 16, 32, 128]": "[4, 8]",
    "[0, 1, 2, 4, 6, 8]": "[0, 1]",
    "[512]": "[8]",
    "alexnet_scaling.py": "alexnet_scaling.py --side 64",
    "repeats = 3": "repeats = 1",
    "time_s = 180": "time_s = 600",
    "time_s = 400": "time_s = 600",
}
# What takes long the first time: drawing data, and measuring what nsys adds to each call.
FIRST = {
    "mnist-workers": ["workloads/mnist.py", "--steps", "1", "--workers", "0"],
    "cifar-workers": ["workloads/cifar_files.py", "--steps", "1", "--workers", "0", "--batch-size", "8"],
}
_PROBE = "import torch; print(torch.cuda.device_count(), 'GPUs', torch.cuda.is_available() and torch.ones(1).cuda())"
_TAIL = 4000


def environment(folder: Path) -> dict[str, str]:
    """Return our environment, with this Python first on PATH as ``python``."""
    shim = folder / "bin" / "python"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    shim.chmod(0o755)
    module_path = f"{ROOT}:{os.environ.get('PYTHONPATH', '')}".rstrip(":")
    return {**os.environ, "PATH": f"{shim.parent}:{os.environ['PATH']}", "PYTHONPATH": module_path}


def call(what: str, argv: list[str], env: Mapping[str, str], until: float) -> None:
    """Run a command up to a moment, and print how it ended; what goes wrong does not end this program."""
    began = time.monotonic()
    print(f"== {what}", flush=True)
    process = subprocess.Popen(argv, env=env, cwd=ROOT)  # noqa: S603 - a command of this file
    try:
        code: object = process.wait(max(until - time.monotonic(), 1.0))
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(END_S)
        code = "the limit"
    print(f"== {what}: ended with {code} after {time.monotonic() - began:.0f} s", flush=True)


def prepare(names: list[str], env: Mapping[str, str], folder: Path, until: float, *, tiny: bool) -> None:
    """Draw the data that programs read, and let nsyswrap measure the machine, so that no cell pays for it."""
    drawing = [
        subprocess.Popen([sys.executable, *words], env=env, cwd=ROOT)  # noqa: S603 - a command of this file
        for name, words in FIRST.items()
        if name in names
    ]
    options = ["--trace", "nvtx"] if tiny else []
    profile = ["-m", "nsyswrap", "profile", "-q", "-o", str(folder / "first"), *options, "--", "python", "-c", _PROBE]
    call("prepare", [sys.executable, *profile], env, until)
    for process in drawing:
        try:
            process.wait(max(until - time.monotonic(), 1.0))
        except subprocess.TimeoutExpired:
            process.kill()


@dataclass
class Running:
    """A run that was started: its process, its cell, its GPUs, those of them that it still uses, and its output."""

    process: "subprocess.Popen[bytes]"
    cell: Cell
    gpus: frozenset[int]
    output: Path
    began_s: float
    trains: bool = True

    def still_trains(self) -> bool:
        """Return whether the program still does its steps."""
        words = self.cell.command
        ranks = int(words[words.index("--nproc-per-node") + 1]) if "--nproc-per-node" in words else 1
        said = self.output.read_text(encoding="utf-8", errors="replace").count(DONE)
        self.trains = self.trains and said < ranks and self.process.poll() is None
        return self.trains


def run_beside(spec: SweepSpec, folder: Path, env: Mapping[str, str], until: float) -> None:
    """Run the cells of a sweep over GPUs in a folder, as `nsyswrap sweep` would, several at a time where GPUs are free.

    `nsyswrap sweep` then finds each run that has its report, and runs what is missing.
    """
    axis = spec.axis(GPUS)
    free = set(range(max(int(each.number or 1) for each in axis.values) if axis else 1))
    waiting = sorted(shuffled(cells_of(spec), planned_seed(spec, folder), 1), key=lambda cell: -(cell.gpus or 1))
    running: list[Running] = []
    while (waiting or running) and time.monotonic() < until:
        for each in running:
            if each.trains and not each.still_trains():
                free |= each.gpus
                print(f"   {each.cell.label}: trained after {time.monotonic() - each.began_s:.0f} s", flush=True)
            if time.monotonic() - each.began_s > spec.budget.run_time_s:
                each.process.terminate()
        for each in [one for one in running if one.process.poll() is not None]:
            running.remove(each)
            ending = f"exit code {each.process.returncode} after {time.monotonic() - each.began_s:.0f} s"
            print(f"   {each.cell.label}: {ending}", flush=True)
        if waiting and (waiting[0].gpus or 1) <= len(free) and time.monotonic() < until - LAST_START_S:
            cell = waiting.pop(0)
            gpus = frozenset(sorted(free)[: cell.gpus or 1])
            free -= gpus
            port = {"PET_MASTER_PORT": str(29500 + len(waiting))}
            visible = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, sorted(gpus)))}
            place = folder / RUNS / cell.key / "run-1"
            place.parent.mkdir(parents=True)
            argv = [*PROFILE, "-o", str(place), *spec.options, "--", *cell.command]
            output = place.with_suffix(".txt")
            with output.open("wb") as out:
                process = subprocess.Popen(  # noqa: S603 - nsyswrap itself
                    argv, env={**env, **cell.environment, **visible, **port}, cwd=ROOT, stdout=out, stderr=out
                )
            running.append(Running(process, cell, gpus, output, time.monotonic()))
        elif not running:
            break
        time.sleep(POLL_S)
    for each in running:
        each.process.terminate()
    for each in running:
        each.process.wait(END_S)


def pack(source: Path, target: Path) -> None:
    """Copy what is committed of a sweep: its result, and of each run the output and the report, cut and packed.

    The folder that the sweep ran in is taken out of both.
    """
    target.mkdir(parents=True, exist_ok=True)
    place = f"{source.parent}/"
    for name in ("sweep.toml", "plan.json", "sweep.json"):
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)
    for output in sorted(source.glob("runs/*/run-*.txt")):
        cell, run = output.parent.name, output.stem.removeprefix("run-")
        folder = target / (cell if run == "1" else f"{cell}.{run}")
        folder.mkdir(exist_ok=True)
        said = output.read_text(encoding="utf-8", errors="replace").replace(place, "")
        (folder / "output.txt").write_text(said[-_TAIL:], encoding="utf-8")
        report = output.with_suffix("") / "report.json"
        if report.is_file():
            tree = cut(json.loads(report.read_text(encoding="utf-8")))
            tree["session"]["hostname"] = ""
            text = json.dumps(tree, ensure_ascii=False).replace(f"{place}bin/", "").replace(place, "")
            packed = lzma.compress(text.encode(), preset=9)
            (folder / "report.json.xz").write_bytes(packed)


def main() -> None:
    """Run the sweeps one after another."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("names", nargs="+", choices=sorted(each.name for each in SWEEPS.iterdir() if each.is_dir()))
    options.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the results go")
    options.add_argument("--limit", type=float, default=240.0, metavar="S", help="seconds for all (%(default)s)")
    options.add_argument("--tiny", action="store_true", help="small programs, for a try on a CPU")
    chosen = options.parse_args()
    until = time.monotonic() + chosen.limit - PACK_S - END_S
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        env = environment(folder)
        prepare(chosen.names, env, folder, until, tiny=chosen.tiny)
        for name in chosen.names:
            text = (SWEEPS / name / "sweep.toml").read_text(encoding="utf-8")
            for old, new in TINY.items() if chosen.tiny else ():
                text = text.replace(old, new)
            described, target = folder / f"{name}.toml", folder / name
            if chosen.tiny and "profile =" not in text:
                text = f'profile = "--trace nvtx"\n{text}'
            described.write_text(text, encoding="utf-8")
            spec = parse(text, name)
            if spec.axis(GPUS) is not None:
                run_beside(spec, target, env, until)
            argv = [sys.executable, "-m", "nsyswrap", "sweep", str(described), "--no-record", "-o", str(target)]
            call(name, argv, env, until)
            pack(target, chosen.out / name)
    print(f"results: {chosen.out}", flush=True)


if __name__ == "__main__":
    main()
