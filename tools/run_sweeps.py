# ruff: noqa: INP001, T201 - a program for the terminal, not a package
"""Run sweeps of reports/sweeps on this machine within a hard limit, and pack what is committed of them.

    python tools/run_sweeps.py --out DIR --limit 460 alexnet
    python tools/run_sweeps.py --out DIR --limit 440 mnist-workers cifar-workers

Each DIR/NAME gets sweep.toml, sweep.json, and of each run CELL/report.json.xz and the end of its output. A sweep that
fails, or that the limit ends, leaves what it has, and the next one runs. With --tiny the programs are small enough for
a CPU.
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
from pathlib import Path

from gallery_results import cut

ROOT = Path(__file__).resolve().parent.parent
SWEEPS = ROOT / "reports" / "sweeps"
# Kept for packing, in seconds, and given to a sweep to end.
PACK_S, END_S = 5.0, 20.0
# What makes the programs small: a CPU only shows that they run.
TINY = {
    "--steps 30": "--steps 3",
    "--steps 60": "--steps 4",
    "[8, 16, 32, 128]": "[2, 4]",
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
            described.write_text('profile = "--trace nvtx"\n' * chosen.tiny + text, encoding="utf-8")
            argv = [sys.executable, "-m", "nsyswrap", "sweep", str(described), "--no-record", "-o", str(target)]
            call(name, argv, env, until)
            pack(target, chosen.out / name)
    print(f"results: {chosen.out}", flush=True)


if __name__ == "__main__":
    main()
