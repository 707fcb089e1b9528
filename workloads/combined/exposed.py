"""Large linear layers at full precision, whose batches are copied before each step in the stream that computes.

Fixed, products of matrices use TF32, and the next batch is copied in a stream of its own while this one trains.
"""

import torch
from faults import batches

from combined import switches

SHAPE = "linear layers; one large copy from pinned memory before each step"
FAULTS = {"tf32": "tensor_cores/not_used", "ahead": "copies/exposed"}

STEPS = 20


def main(arguments: list[str] | None = None) -> None:
    run, fixed = switches.started(__doc__, arguments, FAULTS, STEPS)
    if "tf32" not in fixed:
        torch.set_float32_matmul_precision("highest")
    made = batches.prepared(run, pinned=True)
    way = batches.ahead if "ahead" in fixed else batches.one_by_one
    loss = batches.train(run, way(run, made))
    print(f"loss {loss.item():.4f} with {', '.join(sorted(fixed)) or 'nothing'} fixed")


if __name__ == "__main__":
    main()
