"""A library's loop over recordings whose first value is left out, so that each frame begins beside a full load.

Fixed, the value that is left out is the last one.
"""

import torch

from faults import lightning_loop, training

SHAPE = "a linear encoder over a slice of recordings in bfloat16, in the library's loop"
LIBRARY = "Lightning"
EXPECTS = {"": ("compute/older_kernel",), "--fixed": ()}

FRAMES, WIDTH, SPARE = 32768, 2048, 8


def main(arguments: list[str] | None = None) -> None:
    """Train, and print how many steps were done."""
    run = training.started(__doc__, arguments)
    width = run.size(WIDTH)
    network = training.network(run, width, 2 * WIDTH, 1).to(torch.bfloat16)
    recordings = training.rows(run, run.size(FRAMES), width + SPARE).to(torch.bfloat16)
    inputs = recordings[:, :width] if run.fixed else recordings[:, 1 : width + 1]
    wanted = torch.zeros(len(inputs), training.OUTPUTS, device=run.device, dtype=torch.bfloat16)
    lightning_loop.fit(run, lightning_loop.Module(run, network), lightning_loop.repeated(run, [inputs, wanted]))
    print(f"{run.steps} steps")


if __name__ == "__main__":
    main()
