"""Batches are in pageable memory, so each copy to the GPU blocks the host until the driver has moved the data.

The host is blocked longer than the GPU computes. Fixed, the batches are in pinned memory, and the same copies do not
block the host.
"""

from faults import batches, training

SHAPE = "linear layers; one large copy a step, to the GPU"
EXPECTS = {"": ("copies/pageable",), "--fixed": ()}


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    made = batches.prepared(run, pinned=run.fixed)
    loss = batches.train(run, batches.ahead(run, made))
    print(f"loss {loss.item():.4f} from {'pinned' if run.fixed else 'pageable'} memory")


if __name__ == "__main__":
    main()
