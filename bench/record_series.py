"""Record the step times of small training programs, each run a process of its own, without nsys.

    python bench/record_series.py FILE.json.xz [--device cpu|cuda] [--seconds 220] [--rounds 24] [--ahead 0]

Each round runs each program once. FILE holds, for each program, its runs in order: the time of each step from start to
start in ns, how long the thread that waited longest waited for a core, the load of the machine, and the time of the
start. `bench/decisions.py` makes the table of docs/compare.md and docs/gate.md from such files. On a GPU, the first run
of each program also records for how much of a step kernels run.
"""

import argparse
import hashlib
import itertools
import json
import lzma
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

Step = Callable[[], None]

STEPS, WARM_UP_S = 60, 0.4
PROFILED_STEPS = 10
CPU = ("hash", "objects", "mlp", "conv", "loader")
CUDA = ("products", "launches", "transformer", "conv", "loader")
LONGEST_RUN_S = 60.0


def hash_step(_device: str) -> Step:
    """Return a step of one library call after another, whose time depends on nothing but the core."""
    state, block = hashlib.sha256(), bytes(128 * 1024)

    def step() -> None:
        for _ in range(50):
            state.update(block)

    return step


def objects_step(_device: str) -> Step:
    """Return a step of Python alone: objects are made, written as text, and read back."""

    def step() -> None:
        rows = [{"id": at, "name": f"row {at}", "values": list(range(at % 7))} for at in range(900)]
        sum(len(row["values"]) for row in json.loads(json.dumps(rows)))

    return step


def products_step(device: str) -> Step:
    """Return a step of large matrix products, during which the host waits."""
    import torch  # noqa: PLC0415 - programs without torch start at once

    one, other = (torch.rand(2048, 2048, device=device) / 2048 for _ in range(2))

    def step() -> None:
        result = one
        for _ in range(40):
            result = result @ other
        result[0, 0].item()

    return step


def _training(device: str, model: Any, batch: Any, target: Any, *, amp: bool = False) -> Step:  # noqa: ANN401 - torch
    import torch  # noqa: PLC0415 - as above

    model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batch, target = batch.to(device), target.to(device)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=amp):
            loss = torch.nn.functional.mse_loss(model(batch).float(), target)
        loss.backward()
        optimizer.step()
        loss.item()

    return step


def mlp_step(device: str) -> Step:
    """Return a step of training a small network."""
    import torch  # noqa: PLC0415 - as above

    layers = [each for _ in range(4) for each in (torch.nn.Linear(256, 256), torch.nn.ReLU())]
    return _training(device, torch.nn.Sequential(*layers), torch.rand(128, 256), torch.rand(128, 256))


def launches_step(device: str) -> Step:
    """Return a step of many kernels that are shorter than their launches."""
    import torch  # noqa: PLC0415 - as above

    layers = [each for _ in range(40) for each in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
    return _training(device, torch.nn.Sequential(*layers), torch.rand(32, 64), torch.rand(32, 64))


def _pictures() -> Any:  # noqa: ANN401 - torch
    import torch  # noqa: PLC0415 - as above

    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.BatchNorm2d(32), torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 10),
    )  # fmt: skip


def conv_step(device: str) -> Step:
    """Return a step of training a network on pictures."""
    import torch  # noqa: PLC0415 - as above

    count = 1024 if device == "cuda" else 8
    size = 64 if device == "cuda" else 32
    return _training(device, _pictures(), torch.rand(count, 3, size, size), torch.rand(count, 10), amp=device == "cuda")


def transformer_step(device: str) -> Step:
    """Return a step of training two layers of a transformer."""
    import torch  # noqa: PLC0415 - as above

    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return _training(device, model, torch.rand(32, 256, 512), torch.rand(32, 256, 512), amp=True)


class Pictures:
    """Pictures, each made when the loader wants it."""

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, at: int) -> Any:  # noqa: ANN401 - torch
        """Return one picture, flipped and scaled as loaders do."""
        import torch  # noqa: PLC0415 - as above

        picture = torch.full((3, 48, 48), float(at % 7))
        return torch.nn.functional.interpolate(picture.flip(-1)[None], 32, mode="bilinear")[0]


def loader_step(device: str) -> Step:
    """Return a step that takes its batch from the workers of a loader."""
    import torch  # noqa: PLC0415 - as above

    workers, size = (4, 64) if device == "cuda" else (1, 8)
    batches = iter(torch.utils.data.DataLoader(Pictures(), size, num_workers=workers))
    model = _pictures().to(device)

    def step() -> None:
        model(next(batches).to(device)).sum().backward()
        model[0].weight.grad[0, 0, 0, 0].item()

    return step


MAKERS: dict[str, Callable[[str], Step]] = {
    "hash": hash_step,
    "objects": objects_step,
    "products": products_step,
    "mlp": mlp_step,
    "launches": launches_step,
    "conv": conv_step,
    "transformer": transformer_step,
    "loader": loader_step,
}


def waits_ns() -> dict[str, int]:
    """Return how long each thread of this process has waited for a core.

    Source: https://docs.kernel.org/scheduler/sched-stats.html, the second number of /proc/<pid>/schedstat.
    """
    files = Path("/proc/self/task").glob("*/schedstat")
    return {file.parent.name: int(file.read_text().split()[1]) for file in files}


def kernel_share(step: Step) -> float:
    """Return for how much of a step kernels run: their time in the trace of PyTorch by the time of steps without it."""
    import torch  # noqa: PLC0415 - as above

    began = time.perf_counter_ns()
    for _ in range(PROFILED_STEPS):
        step()
    alone = time.perf_counter_ns() - began
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(PROFILED_STEPS):
            step()
    kernels = sum(event.self_device_time_total for event in profile.key_averages())
    return float(min(1000 * kernels / alone, 1.0))


def run_one(name: str, device: str, *, with_kernels: bool) -> None:
    """Run a program when a line comes on stdin, and print what was measured."""
    if name not in ("hash", "objects"):
        import torch  # noqa: PLC0415 - as above

        torch.set_num_threads(1)
    step = MAKERS[name](device)
    sys.stdin.readline()
    end = time.monotonic() + WARM_UP_S
    while time.monotonic() < end:
        step()
    before, at = waits_ns(), [time.perf_counter_ns()]
    for _ in range(STEPS):
        step()
        at.append(time.perf_counter_ns())
    waited = max(ns - before.get(thread, 0) for thread, ns in waits_ns().items())
    result: dict[str, Any] = {
        "steps_ns": [end - start for start, end in itertools.pairwise(at)],
        "waiting_ns": waited // STEPS,
    }
    if with_kernels:
        result["kernel_share"] = round(kernel_share(step), 3)
    print(json.dumps(result), flush=True)
    sys.stdin.readline()


def started(name: str, device: str, *, with_kernels: bool) -> subprocess.Popen[str]:
    """Start the process of a run, which waits for its turn."""
    words = [sys.executable, __file__, "--one", name, "--device", device, *(["--kernels"] if with_kernels else [])]
    return subprocess.Popen(  # noqa: S603 - ourselves
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def record(names: tuple[str, ...], device: str, rounds: int, ahead: int, end: float) -> dict[str, list[dict[str, Any]]]:
    """Return the runs of each program; the process of the next runs is started ahead, so that it has loaded torch."""
    order: Iterator[tuple[str, bool]] = (
        (name, device == "cuda" and not number) for number in range(rounds) for name in names
    )
    waiting: deque[tuple[str, subprocess.Popen[str]]] = deque()
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    while time.monotonic() < end:
        while len(waiting) <= ahead and (one := next(order, None)) is not None:
            waiting.append((one[0], started(one[0], device, with_kernels=one[1])))
        if not waiting:
            break
        name, process = waiting.popleft()
        load, began = os.getloadavg()[0], time.time()
        try:
            runs[name].append({"started": round(began, 1), "load": round(load, 2), **json.loads(answer_of(process))})
        except (OSError, json.JSONDecodeError) as error:
            print(f"{name}: {error!r}", file=sys.stderr, flush=True)
    for _, process in waiting:
        end_all(process)
    return runs


def answer_of(process: subprocess.Popen[str]) -> str:
    """Let a process run, and return the line that it prints; empty where that takes too long."""
    if process.stdin is None or process.stdout is None:
        return ""
    limit = threading.Timer(LONGEST_RUN_S, end_all, [process])
    limit.start()
    try:
        process.stdin.write("go\n")
        process.stdin.flush()
        return process.stdout.readline()
    finally:
        limit.cancel()
        end_all(process)


def end_all(process: subprocess.Popen[str]) -> None:
    """End a process with the workers of its loader, which would disturb the next run."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def main() -> None:
    """Record the series."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--seconds", type=float, default=220, help="No run begins after this time.")
    parser.add_argument("--rounds", type=int, default=24, help="Runs of each program.")
    parser.add_argument("--ahead", type=int, default=0, help="Processes that load torch while another one runs.")
    parser.add_argument("--one", choices=tuple(MAKERS), help="Run one program when a line comes on stdin.")
    parser.add_argument("--kernels", action="store_true", help="With --one: measure the time of kernels, too.")
    chosen = parser.parse_args()
    if chosen.one:
        run_one(chosen.one, chosen.device, with_kernels=chosen.kernels)
    names = CUDA if chosen.device == "cuda" else CPU
    runs = record(names, chosen.device, chosen.rounds, chosen.ahead, time.monotonic() + chosen.seconds)
    chosen.file.write_bytes(lzma.compress(json.dumps(runs, separators=(",", ":")).encode(), preset=9))
    print(", ".join(f"{name} {len(found)}" for name, found in runs.items()), flush=True)


if __name__ == "__main__":
    main()
