"""Short epochs, and loader processes that end with each of them: every epoch begins with starting them again.

Fixed, persistent_workers=True keeps them. The samples themselves cost nothing.
"""

from faults import samples, training

SHAPE = "linear layers behind a loader; its processes start with each short epoch"
EXPECTS = {"": ("data/worker_start",), "--fixed": ()}

BATCHES = 8
WORKERS, LAYERS = 4, 8


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    waves = samples.Waves(BATCHES * samples.BATCH, 0)
    workers = run.size(WORKERS, 1)
    loss = samples.train(run, samples.loader(waves, workers, run, persistent=run.fixed), LAYERS)
    print(f"loss {loss.item():.4f} in epochs of {BATCHES} steps, {workers} loader processes")


if __name__ == "__main__":
    main()
