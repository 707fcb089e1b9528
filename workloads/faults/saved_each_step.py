"""Each fourth step saves the model: the host copies, packs and writes it while the GPU has nothing to do.

Fixed, the model is saved once, after the last step.
"""

import tempfile
from pathlib import Path

import torch

from faults import training

SHAPE = "linear layers; each fourth step saves the weights with torch.save"
EXPECTS = {"": ("host/checkpoint",), "--fixed": ()}

WIDTH, ROWS, EVERY = 2048, 8192, 4


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    width = run.size(WIDTH)
    model = training.network(run, width, WIDTH)
    optimizer = training.sgd(model, run)
    inputs = training.rows(run, run.size(ROWS), width)
    wanted = training.rows(run, run.size(ROWS), training.OUTPUTS)
    loss = torch.zeros(())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.pt"
        for number in training.steps(run):
            loss = training.train(model, optimizer, inputs, wanted)
            if not run.fixed and number % EVERY == EVERY - 1:
                torch.save(model.state_dict(), file)
        torch.save(model.state_dict(), file)
        size = file.stat().st_size
    print(f"loss {loss.item():.4f}, {size} bytes saved")


if __name__ == "__main__":
    main()
