"""The container gives the program 0.6 of a core: each tenth of a second the kernel stops it when its share is used up.

Fixed, there is no such limit.
"""

from contextlib import nullcontext

from faults import control_group, training

SHAPE = "linear layers, several small batches a step; a container with a part of a core"
GPUS = 0
EXPECTS = {"": ("host/cpu_quota",), "--fixed": ()}

WIDTH, ROWS, BATCHES, CORES = 2048, 2048, 6, 0.6


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    width = run.size(WIDTH, training.ON_CPU)
    model = training.network(run, width, WIDTH, on_cpu=training.ON_CPU)
    optimizer = training.sgd(model, run)
    inputs = training.rows(run, run.size(ROWS, training.ON_CPU), width)
    wanted = training.rows(run, run.size(ROWS, training.ON_CPU), training.OUTPUTS)
    loss = training.train(model, optimizer, inputs, wanted)
    with nullcontext() if run.fixed else control_group.limited(CORES):
        for _ in training.steps(run):
            for _ in range(BATCHES):
                loss = training.train(model, optimizer, inputs, wanted)
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
