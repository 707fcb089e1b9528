"""Each step writes its features to a file and waits until the disk has them, between forward pass and optimizer.

Fixed, they stay in memory until the end.
"""

import os
import tempfile

import torch

from faults import training

SHAPE = "linear layers; each step writes a file and waits for the disk"
EXPECTS = {"": ("idle/file_io",), "--fixed": ()}

WIDTH, ROWS, BYTES = 4096, 4096, 16 << 20


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    step = training.usual_step(run, WIDTH, ROWS)
    loss, features = torch.zeros(()), bytes(run.size(BYTES, 1000))
    kept = 0
    with tempfile.TemporaryFile() as file:
        for _ in training.steps(run):
            loss = step()
            if run.fixed:
                kept += len(features)
                continue
            file.seek(0)
            kept += file.write(features)
            file.flush()
            os.fsync(file.fileno())
    print(f"loss {loss.item():.4f}, {kept} bytes")


if __name__ == "__main__":
    main()
