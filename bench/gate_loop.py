# ruff: noqa: INP001 - a program to profile, not a package
"""A training loop without a GPU: steps with NVTX ranges that do a fixed amount of work.

    python bench/gate_loop.py [PER_CENT]      100 is the loop as it is, 105 does 5 % more work in each step

`bench/gate_runs.py` profiles it many times.
"""

import hashlib
import sys

import nvtx

STEPS = 60
# One unit of work is one hash of a block: its time does not depend on values, memory or other libraries.
BLOCK = bytes(128 * 1024)


def train(units: int) -> bytes:
    """Return a hash of all steps; each step hashes a block ``units`` times."""
    state = hashlib.sha256()
    for step in range(STEPS):
        with nvtx.annotate(f"step {step}"):
            with nvtx.annotate("data"):
                block = bytearray(BLOCK)
            with nvtx.annotate("forward"):
                for _ in range(units):
                    state.update(block)
    return state.digest()


if __name__ == "__main__":
    train(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
