"""Lightning's loop, which prepares each batch itself, on float32 products at full precision.

Fixed, twelve loader processes prepare the batches, and products of matrices use TF32.
"""

from typing import TYPE_CHECKING

import torch
from faults import lightning_loop, samples, training

from combined import switches

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

SHAPE = "linear layers in the library's loop, behind a loader without processes"
LIBRARY = "Lightning"
FAULTS = {"workers": "idle/data_work", "tf32": "tensor_cores/not_used"}

OCTAVES, STEPS = 8, 20


def main(arguments: list[str] | None = None) -> None:
    """Train, and print how many steps."""
    run, fixed = switches.started(__doc__, arguments, FAULTS, STEPS)
    if "tf32" not in fixed:
        torch.set_float32_matmul_precision("highest")
    workers = run.size(12, 2) if "workers" in fixed else 0
    waves = samples.Waves(run.steps * samples.BATCH, OCTAVES if run.device.type == "cuda" else 1)
    batches: DataLoader[list[torch.Tensor]] = samples.loader(waves, workers, run)
    network = training.network(run, samples.FEATURES)
    lightning_loop.fit(run, lightning_loop.Module(run, network), batches)
    print(f"trained {run.steps} steps with {', '.join(sorted(fixed)) or 'nothing'} fixed")


if __name__ == "__main__":
    main()
