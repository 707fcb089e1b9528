"""Keep one GPU busy with products of matrices, as another program beside the training would, until it is stopped."""

import sys
import time

import torch

# Each product takes about a millisecond on an H200.
SIDE = 8192


def main(seconds: float) -> None:
    """Multiply matrices for some seconds."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    left = torch.rand(SIDE, SIDE, device=device, dtype=torch.bfloat16)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for _ in range(20):
            torch.mm(left, left)
        if device.type == "cuda":
            torch.cuda.synchronize()


if __name__ == "__main__":
    main(float(sys.argv[1]))
