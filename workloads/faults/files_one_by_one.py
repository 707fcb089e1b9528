"""The training process reads many files for each batch itself, and the disk has to deliver them each time.

Fixed, it has read them once, before the first step.
"""

import common
import torch

from faults import disk, training

SHAPE = "linear layers; each batch is read from files that no cache holds"
GPUS = 0
EXPECTS = {"": ("host/file_reads",), "--fixed": ()}

WIDTH, ROWS, FILES, BYTES = 4096, 4096, 24, 1 << 20


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    width = run.size(WIDTH, training.ON_CPU)
    model = training.network(run, width, WIDTH, on_cpu=training.ON_CPU)
    optimizer = training.sgd(model, run)
    inputs = training.rows(run, run.size(ROWS, training.ON_CPU), width)
    wanted = training.rows(run, run.size(ROWS, training.ON_CPU), training.OUTPUTS)
    loss, total = torch.zeros(()), 0
    with disk.written(FILES, BYTES) as paths:
        kept = [disk.read(path) for path in paths]
        for _ in training.steps(run):
            with common.phase("data"):
                batch = kept if run.fixed else [disk.read(path) for path in paths]
            total += sum(map(len, batch))
            loss = training.train(model, optimizer, inputs, wanted)
    print(f"loss {loss.item():.4f}, {total} bytes read")


if __name__ == "__main__":
    main()
