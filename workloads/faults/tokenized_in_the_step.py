"""The training process tokenizes the text of each batch before it trains on it.

Fixed, the text has been tokenized before the first step.
"""

import common
import torch

from faults import texts, training

SHAPE = "linear layers over counts of words; a tokenizer runs in each step"
GPUS = 0
EXPECTS = {"": ("host/tokenizer",), "--fixed": ()}

WIDTH, ROWS, TEXTS, LENGTH = 4096, 4096, 64, 400


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    width = run.size(WIDTH, training.ON_CPU)
    model = training.network(run, width, WIDTH, on_cpu=training.ON_CPU)
    optimizer = training.sgd(model, run)
    inputs = training.rows(run, run.size(ROWS, training.ON_CPU), width)
    wanted = training.rows(run, run.size(ROWS, training.ON_CPU), training.OUTPUTS)
    written, tokenizer = texts.written(TEXTS, LENGTH), texts.tokenizer()
    kept, loss, total = tokenizer(written)["input_ids"], torch.zeros(()), 0
    for _ in training.steps(run):
        with common.phase("data"):
            tokens = kept if run.fixed else tokenizer(written)["input_ids"]
        total += sum(map(len, tokens))
        loss = training.train(model, optimizer, inputs, wanted)
    print(f"loss {loss.item():.4f}, {total} tokens")


if __name__ == "__main__":
    main()
