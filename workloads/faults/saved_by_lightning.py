"""Lightning's own callback writes a checkpoint every second step: ModelCheckpoint(every_n_train_steps=2).

Fixed, the trainer saves once, after the last step.
"""

import tempfile
from pathlib import Path

import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn

from faults import lightning_loop, training

SHAPE = "linear layers with norms in the library's loop; its callback writes a checkpoint every second step"
LIBRARY = "Lightning"
GPUS = 0
EXPECTS = {"": ("host/checkpoint",), "--fixed": ()}

WIDTH, ROWS, LAYERS, EVERY = 2048, 8192, 4, 2


def main(arguments: list[str] | None = None) -> None:
    """Train, and print how large the checkpoint is."""
    run = training.started(__doc__, arguments)
    width = run.size(WIDTH, 2 * training.ON_CPU)
    layers = [part for _ in range(LAYERS) for part in (nn.Linear(width, width), nn.LayerNorm(width), nn.SiLU())]
    batch = [torch.rand(run.size(ROWS, 128), width), torch.zeros(run.size(ROWS, 128), width)]
    with tempfile.TemporaryDirectory() as folder:
        every = run.steps if run.fixed else EVERY
        saving = ModelCheckpoint(folder, "weights", save_top_k=1, every_n_train_steps=every, save_weights_only=True)
        module = lightning_loop.Module(run, nn.Sequential(*layers))
        batches = lightning_loop.repeated(run, [each.to(run.device) for each in batch])
        callbacks = [lightning_loop.Marks(run), saving]
        lightning_loop.fit(run, module, batches, callbacks=callbacks, enable_checkpointing=True)
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
    print(f"{size} bytes saved")


if __name__ == "__main__":
    main()
