"""Each batch is copied, and only then used: in one stream the kernels wait for the copy.

The copies are from pinned memory and do not block the host. Fixed, the next batch is copied in a stream of its own
while this one trains.
"""

from faults import batches, training

SHAPE = "linear layers; one large copy from pinned memory before each step"
EXPECTS = {"": ("copies/exposed",), "--fixed": ()}


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    made = batches.prepared(run, pinned=True)
    way = batches.ahead if run.fixed else batches.one_by_one
    loss = batches.train(run, way(run, made))
    print(f"loss {loss.item():.4f}, copied {'ahead' if run.fixed else 'one by one'}")


if __name__ == "__main__":
    main()
