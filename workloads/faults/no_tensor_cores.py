"""Products of float32 matrices at full precision, PyTorch's default: they run on ordinary cores.

Fixed, torch.set_float32_matmul_precision("high") lets them use TF32 on tensor cores.
"""

import torch

from faults import training

SHAPE = "linear layers in float32 without TF32"
EXPECTS = {"": ("tensor_cores/not_used",), "--fixed": ()}

WIDTH, ROWS = 4096, 4096


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    if not run.fixed:
        torch.set_float32_matmul_precision("highest")
    width = run.size(WIDTH)
    model = training.network(run, width, WIDTH)
    optimizer = training.sgd(model, run)
    inputs = training.rows(run, run.size(ROWS), width)
    wanted = training.rows(run, run.size(ROWS), training.OUTPUTS)
    loss = training.train_all(run, model, optimizer, inputs, wanted)
    print(f"loss {loss.item():.4f} at precision {torch.get_float32_matmul_precision()}")


if __name__ == "__main__":
    main()
