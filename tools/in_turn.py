"""Run a program when it is its turn: load PyTorch, wait for a file, then run it: ``in_turn.py FILE PROGRAM.py ARGS``.

Loading takes seconds and uses no GPU, so the next job does it while one before it is still measured.
"""

import runpy
import sys
import time
from pathlib import Path

import torch.distributed
import torch.utils.data  # noqa: F401 - loaded for the program

POLL_S = 0.02


def main(turn: Path, program: str, *arguments: str) -> None:
    """Wait for a file, then run a program as if it had been started with its arguments."""
    while not turn.exists():
        time.sleep(POLL_S)
    sys.argv, sys.path[0] = [program, *arguments], str(Path(program).parent)
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
