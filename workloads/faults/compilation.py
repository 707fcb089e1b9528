"""Each step writes its number into the code of a kernel, so each step compiles and loads a kernel of its own.

Fixed, the number is an argument, and the kernel is compiled before the first step.
"""

import os

import common
import torch
from torch import Tensor

from faults import training

SHAPE = "linear layers behind a kernel with a number in its code; each step compiles"
EXPECTS = {"": ("modules/in_window",), "--fixed": ()}

WIDTH, ROWS, STEPS = 4096, 4096, 20
FADING = "template <typename T> T fade(T x, T rate) {{ return x * (T(1) - rate * T({number})); }}"


def fade(values: Tensor, rate: float, number: int | None) -> Tensor:
    """Return the values times 1 - rate * number; the number is a constant in the kernel's code, 1 for None."""
    if values.device.type != "cuda":
        return values * (1 - rate * (number or 1))
    code = FADING.format(number=1 if number is None else f"{number}.0")
    faded: Tensor = torch.cuda.jiterator._create_jit_fn(code, rate=0.0)(values, rate=rate)  # noqa: SLF001 - its name
    return faded


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments, STEPS)
    # A kernel that an earlier run left on the disk would not be compiled.
    os.environ["USE_PYTORCH_KERNEL_CACHE"] = "0"
    width = run.size(WIDTH)
    model = training.network(run, width, WIDTH)
    optimizer = training.sgd(model, run)
    inputs = training.rows(run, run.size(ROWS), width)
    wanted = training.rows(run, run.size(ROWS), training.OUTPUTS)
    fade(inputs, 0.0, None)
    loss = torch.zeros(())
    for number in training.steps(run):
        with common.phase("forward"):
            faded = fade(inputs, 1e-3 * number, None) if run.fixed else fade(inputs, 1e-3, number)
        loss = training.train(model, optimizer, faded, wanted)
    print(f"loss {loss.item():.4f} after {run.steps} steps")


if __name__ == "__main__":
    main()
