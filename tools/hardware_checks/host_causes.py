# ruff: noqa: INP001, T201 - a program for the terminal, not a package
"""Profile the faults of the host on a GPU, and measure what sampling costs: `host_causes.py captures|costs FOLDER`.

`captures` profiles each program of workloads/faults that plants a fault of the host, with the fault and without it, and
prints the first findings of each. `costs` times a loop that the host bounds and one that the GPU bounds: alone, under
nsys, under nsys with Python sampling, and beside the sampling of the host and the GPU clocks.
"""

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = (
    *("collected_each_step", "shared_core", "saved_each_step", "logged_to_disk"),
    *("files_one_by_one", "tokenized_in_the_step", "checkpoints"),
)
FORMS = ("", "--fixed")
FREQUENCIES = (0, 1000, 100)
REPEATS = 2
SHOWN = 3
LONGEST_S = 40
BLOCKS, BLOCK_S = 6, 0.5


def captures(folder: Path, until_s: float) -> None:
    """Capture one program after another, while earlier captures are analyzed; print the findings of each."""
    began, running = time.monotonic(), []
    for name in PROGRAMS:
        for form in FORMS:
            if time.monotonic() - began > until_s:
                print(f"left out: {name}{form}", flush=True)
                continue
            target = folder / f"{name}{form}"
            words = ["-m", "nsyswrap", "profile", "-q", "-o", str(target), "--timeout", str(LONGEST_S)]
            words += ["--", sys.executable, "-m", f"faults.{name}", *form.split()]
            started = time.monotonic()
            process = subprocess.Popen([sys.executable, *words], cwd=ROOT / "workloads", env=_environment())  # noqa: S603
            running.append((target, process))
            _until_exported(target, process, started + LONGEST_S)
            print(f"{target.name}: captured in {time.monotonic() - started:.1f} s", flush=True)
    for target, process in running:
        code = process.wait()
        print(f"{target.name}: {_summary(target) if (target / 'report.json').is_file() else f'exit code {code}'}")


def _environment() -> dict[str, str]:
    path = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{path}"}


def _until_exported(target: Path, process: "subprocess.Popen[bytes]", deadline: float) -> None:
    while process.poll() is None and time.monotonic() < deadline and not (target / "run.json").is_file():
        time.sleep(0.1)


def _summary(target: Path) -> str:
    report = json.loads((target / "report.json").read_text())
    lines = [report["verdict"]]
    for each in report["findings"][:SHOWN]:
        saving = each["saving"] and [round(ns / 1e6, 2) for ns in each["saving"].values()]
        lines.append(f"  {each['severity']} {each['rule']} lost {each['lost_ns'] / 1e6:.2f} ms, saving {saving}")
        lines += [f"      {line}" for line in each["evidence"][:5]]
    machine = report["sections"].get("machine", {})
    lines.append(f"  facts { ({name: fact['value'] for name, fact in machine.get('facts', {}).items()}) }")
    lines.append(f"  gpus {machine.get('tables', {}).get('gpus')}")
    return "\n".join(lines)


def loops() -> dict[str, Callable[[], None]]:
    """Return one step of a loop that the host bounds, and one of a loop that the GPU bounds."""
    import torch  # noqa: PLC0415 - only the timed process needs it

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    small = torch.nn.LSTMCell(64, 64, device=device)
    rows = torch.rand(8, 64, device=device)
    size = 8192 if device.type == "cuda" else 256
    large = torch.rand(size, size, device=device, dtype=torch.bfloat16)

    def host() -> None:
        hidden, cell = small(rows)
        for _ in range(200):
            hidden, cell = small(rows, (hidden, cell))
        hidden.sum().item()

    def gpu() -> None:
        for _ in range(4):
            large @ large
        large[0, 0].item()

    return {"host-bound": host, "GPU-bound": gpu}


def timed(step: Callable[[], None], seconds: float) -> list[float]:
    """Return the length of each step in an interval, in ms."""
    found, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter()
        step()
        found.append((time.perf_counter() - began) * 1e3)
    return found


def spin() -> None:
    """Print the median step of both loops, in ms, as JSON."""
    found = {}
    for name, step in loops().items():
        timed(step, 1.0)
        found[name] = statistics.median(timed(step, 2.0))
    print("SPIN", json.dumps(found), flush=True)


def costs(folder: Path) -> None:
    """Print the median steps alone, under nsys, with Python sampling, and beside the sampling of the host."""
    beside()
    command = [sys.executable, str(Path(__file__).resolve()), "spin", str(folder)]
    for turn in range(REPEATS):
        for label, words in _modes(folder, turn):
            began = time.monotonic()
            done = subprocess.run([*words, *command], capture_output=True, text=True, check=False)  # noqa: S603
            spun = [line for line in done.stdout.splitlines() if line.startswith("SPIN")]
            print(f"{label}: {spun or done.stderr[-300:]} ({time.monotonic() - began:.1f} s)", flush=True)


def _modes(folder: Path, turn: int) -> Iterator[tuple[str, list[str]]]:
    yield "alone", []
    for frequency in FREQUENCIES:
        words = ["nsys", "profile", "-t", "cuda,nvtx,osrt", "-s", "none", "--cpuctxsw=none", "-f", "true"]
        words += ["-o", str(folder / f"spin-{frequency}-{turn}")]
        if frequency:
            words += ["--python-sampling=true", f"--python-sampling-frequency={frequency}"]
        yield f"nsys, Python sampling {frequency} Hz", words


def beside() -> None:
    """Print the median step with and without a monitor of the host in another process, in turns."""
    for name, step in loops().items():
        timed(step, 1.0)
        found: dict[str, list[float]] = {"without": [], "with": []}
        for block in range(2 * BLOCKS):
            watching = block % 2 == 1
            process = _watcher() if watching else None
            time.sleep(0.4)
            found["with" if watching else "without"] += timed(step, BLOCK_S)
            if process is not None:
                process.terminate()
                process.wait()
        medians = {label: f"{statistics.median(steps):.4f} ms" for label, steps in found.items()}
        print(f"monitor of the host, {name}: {medians}", flush=True)


def _watcher() -> "subprocess.Popen[bytes]":
    """Start a process that samples this one."""
    command = [sys.executable, __file__, "watch", str(os.getpid())]
    return subprocess.Popen(command, env=_environment())  # noqa: S603 - this file


def watch(pid: int) -> None:
    """Sample a process until this one is ended."""
    from nsyswrap.capture.host_monitor import HostMonitor  # noqa: PLC0415 - only this process needs it

    HostMonitor().start(pid)
    threading.Event().wait(60)


def main() -> None:
    """Run the part that the command line names."""
    what, where = sys.argv[1:3]
    if what == "watch":
        watch(int(where))
    elif what == "spin":
        spin()
    else:
        folder = Path(where)
        folder.mkdir(parents=True, exist_ok=True)
        costs(folder) if what == "costs" else captures(folder, float(sys.argv[3]) if len(sys.argv) > 3 else 150.0)  # noqa: PLR2004


if __name__ == "__main__":
    main()
