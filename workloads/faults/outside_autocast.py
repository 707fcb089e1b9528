"""Mixed precision that does not reach a part of the model: it casts to float32 and leaves autocast.

Fixed, the whole model computes in bfloat16.
"""

from functools import partial

import torch
from torch import Tensor, nn

from faults import training

SHAPE = "linear layers under autocast; one part of the step lies outside it"
EXPECTS = {"": ("tensor_cores/not_used",), "--fixed": ()}

WIDTH, ROWS = 4096, 4096


def mixed(first: nn.Module, last: nn.Module, inputs: Tensor, *, reach: bool) -> Tensor:
    """Return the float32 output of two parts of a network; autocast covers the last part or leaves it out."""
    kind = inputs.device.type
    with torch.autocast(kind, dtype=torch.bfloat16):
        hidden = first(inputs)
        with torch.autocast(kind, dtype=torch.bfloat16, enabled=reach):
            outputs: Tensor = last(hidden if reach else hidden.float())
    return outputs.float()


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    torch.set_float32_matmul_precision("highest")
    width = run.size(WIDTH)
    first = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()).to(run.device)
    last = training.network(run, width, WIDTH, 1)
    model = partial(mixed, first, last, reach=run.fixed)
    optimizer = training.sgd(nn.ModuleList([first, last]), run)
    inputs = training.rows(run, run.size(ROWS), width)
    wanted = training.rows(run, run.size(ROWS), training.OUTPUTS)
    loss = training.train_all(run, model, optimizer, inputs, wanted)
    print(f"loss {loss.item():.4f}, {'all' if run.fixed else 'half'} of it in bfloat16")


if __name__ == "__main__":
    main()
