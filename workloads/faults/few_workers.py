"""One loader process prepares the batches, and takes longer for each than the GPU for a step.

The training waits for it in each step. Fixed, twelve processes share the same work.
"""

from faults import samples, training

SHAPE = "linear layers behind a loader; one process prepares the batches"
EXPECTS = {"": ("idle/data_wait",), "--fixed": ()}


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    waves = samples.Waves(run.steps * samples.BATCH, samples.OCTAVES)
    workers = run.size(12, 2) if run.fixed else 1
    loss = samples.train(run, samples.loader(waves, workers, run))
    print(f"loss {loss.item():.4f} with {workers} loader processes")


if __name__ == "__main__":
    main()
