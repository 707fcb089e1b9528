"""A ranking network: between two steps the program turns candidates into text and back into tokens, one by one.

Fixed, it keeps the tokens of the candidates.
"""

import common
import torch
from torch import Tensor, nn

from faults import texts, training
from faults.training import Run

SHAPE = "embeddings that rank candidates; each step decodes and encodes the candidates one by one"
GPUS = 0
EXPECTS = {"": ("host/tokenizer",), "--fixed": ()}

WIDTH, COPIES, CANDIDATES, LENGTH = 1024, 256, 96, 24


class Ranking(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """The mean of embedded tokens, and layers that make a score of it."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        width = run.size(WIDTH, 256)
        self.embedded = nn.Embedding(texts.WORDS + 1, width)
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, training.OUTPUTS))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return scores [rows, outputs] of tokens, int64 [rows, length]."""
        found: Tensor = self.layers(self.embedded(tokens).mean(1))
        return found


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    model = Ranking(run).to(run.device)
    optimizer = training.sgd(model, run)
    tokenizer = texts.tokenizer()
    kept = tokenizer(texts.written(CANDIDATES, LENGTH))["input_ids"]
    copies = run.size(COPIES, 8)
    wanted = training.rows(run, copies * CANDIDATES, training.OUTPUTS)
    loss = torch.zeros(())
    for _ in training.steps(run):
        with common.phase("look"):
            tokens = kept if run.fixed else [tokenizer.encode(tokenizer.decode(each)) for each in kept]
        with common.phase("copy"):
            inputs = torch.tensor(tokens).repeat(copies, 1).to(run.device)
        loss = training.train(model, optimizer, inputs, wanted)
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
