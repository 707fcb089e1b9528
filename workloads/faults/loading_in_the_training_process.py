"""The training process prepares each batch itself, while the GPU has nothing to do.

Fixed, twelve loader processes do the same work beside it.
"""

from faults import samples, training

SHAPE = "linear layers behind a loader without processes"
EXPECTS = {"": ("idle/data_work",), "--fixed": ()}


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    waves = samples.Waves(run.steps * samples.BATCH, samples.OCTAVES)
    workers = run.size(12, 2) if run.fixed else 0
    loss = samples.train(run, samples.loader(waves, workers, run))
    print(f"loss {loss.item():.4f} with {workers} loader processes")


if __name__ == "__main__":
    main()
