"""The part of docs/results.md on AlexNet on several GPUs, made from reports of a sweep."""

import json
import lzma
import re
from pathlib import Path
from typing import Any

import gallery_scaling as tool
import pytest

MS = 1_000_000
ROWS = ("compute_ns", "communication_wait_ns", "communication_transfer_ns", "copy_exposed_ns", "memset_exposed_ns")


def report(options: str, steps: int, step_ms: int, gpus: tuple[tuple[int, ...], ...], nccl: int) -> dict[str, Any]:
    """Return what the tool reads of a report.json; ``gpus`` has the rows of each ledger in ms of one step."""
    devices = []
    for parts in gpus:
        row = {name: part * MS * steps for name, part in zip(ROWS, parts, strict=True)}
        whole = step_ms * MS * steps
        devices.append({**row, "idle_ns": whole - sum(row.values()), "window_ns": whole})
    kernels = [{"name": "gemm", "count": 10, "total_ns": 6 * MS}]
    kernels += [{"name": "ncclDevKernel_Broadcast_RING_LL(args)", "count": 4, "total_ns": nccl}] if nccl else []
    return {
        "session": {"command": ["python", "workloads/alexnet_scaling.py", *options.split()]},
        "window": {"start_ns": 0, "end_ns": steps * step_ms * MS},
        "step": {"count": steps},
        "sections": {
            "ledger": {"tables": {"devices": devices}},
            "kernels": {"tables": {"summary": kernels}},
            "copies": {"tables": {"summary": [{"kind": "Host-to-Device", "count": 2, "total_ns": MS}]}},
        },
    }


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Return a folder with a run on one GPU, two of one cell on two, and one of another program."""
    runs = {
        "one": report("--batch-size 16", 10, 5, ((3, 0, 0, 1, 0),), 0),
        "two": report("--batch-size 16 --gpus 2 --mode dp", 20, 6, ((2, 1, 1, 1, 0), (2, 0, 1, 0, 0)), 3 * MS),
        "two.2": report("--batch-size 16 --gpus 2 --mode dp", 20, 9, ((2, 1, 1, 1, 0), (2, 0, 1, 0, 0)), 3 * MS),
    }
    runs["other"] = {**runs["one"], "session": {"command": ["python", "workloads/mnist.py"]}}
    for name, made in runs.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.json.xz").write_bytes(lzma.compress(json.dumps(made).encode()))
    return tmp_path


def test_cells_are_those_of_the_program(sweep: Path) -> None:
    """Of several runs of one cell the one of median length counts; of two, the shorter."""
    assert [cell.key for cell in tool.cells(sweep)] == [(1, 16, "one"), (2, 16, "dp")]
    assert tool.cells(sweep)[1].step_ns == 6 * MS


def test_what_several_gpus_add_to_a_step_is_explained_to_the_microsecond() -> None:
    """One, two and four GPUs, each batch, both modes: what is left is zero."""
    rows = [line.strip("|").split("|") for line in tool.part().splitlines() if re.match(r"\| [24] GPUs, batch", line)]
    assert len(rows) == 16
    assert {row[-1].strip() for row in rows} == {"0.000"}
