"""Linear layers over all columns of a table but the first: each row begins beside a place for a full load.

Fixed, the column that is left out is the last one.
"""

import torch

from faults import training

SHAPE = "linear layers over a slice of a table in bfloat16, without its first column"
EXPECTS = {"": ("compute/older_kernel",), "--fixed": ()}

ROWS, WIDTH, LAYERS, SPARE = 16384, 4096, 1, 8


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    width = run.size(WIDTH)
    model = training.network(run, width, WIDTH, LAYERS).to(torch.bfloat16)
    optimizer = training.sgd(model, run)
    table = training.rows(run, run.size(ROWS), width + SPARE).to(torch.bfloat16)
    inputs = table[:, :width] if run.fixed else table[:, 1 : width + 1]
    wanted = torch.zeros(len(table), training.OUTPUTS, device=run.device, dtype=torch.bfloat16)
    loss = training.train_all(run, model, optimizer, inputs, wanted)
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
