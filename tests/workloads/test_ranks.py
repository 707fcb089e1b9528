"""The program in which one rank is late: with each fault it trains on a CPU with one rank."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "workloads" / "ranks" / "one_late_rank.py"
ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}


@pytest.mark.parametrize("fault", ["uneven_input", "checkpoints"])
def test_the_program_trains(fault: str) -> None:
    command = [sys.executable, str(PROGRAM), "--fault", fault, "--steps", "4"]
    done = subprocess.run(command, env={**os.environ, **ALONE}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout.startswith("rank 0: ")
