"""A language model whose vocabulary has an odd size, so that no row of its scores begins at a full load.

Fixed, the vocabulary is padded to the next multiple of 64, with tokens that no text has.
"""

import common
import torch
from torch import Tensor, nn
from torch.nn import functional

from faults import models, training

SHAPE = "a language model over a vocabulary of 50,257, trained in bfloat16"
EXPECTS = {"": ("compute/misaligned",), "--fixed": ()}

VOCABULARY, MULTIPLE = 50_257, 64
WIDTH, LAYERS, ROWS, TOKENS = 768, 4, 16, 512


class Language(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Embeddings of tokens, an encoder, and a score for each token of the vocabulary."""

    def __init__(self, run: training.Run, vocabulary: int) -> None:
        super().__init__()
        width = run.size(WIDTH)
        self.tokens = nn.Embedding(vocabulary, width, device=run.device, dtype=torch.bfloat16)
        self.encoder = models.encoder(run, WIDTH, LAYERS)
        self.head = nn.Linear(width, vocabulary, bias=False, device=run.device, dtype=torch.bfloat16)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores, one row a token."""
        scores: Tensor = self.head(self.encoder(self.tokens(tokens))).flatten(0, 1)
        return scores


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    known = run.size(VOCABULARY, 257)
    model = Language(run, -(-known // MULTIPLE) * MULTIPLE if run.fixed else known)
    optimizer = training.sgd(model, run)
    texts = torch.randint(known, (run.size(ROWS, 2), run.size(TOKENS) + 1), device=run.device)
    loss = torch.zeros(())
    for _ in training.steps(run):
        with common.phase("forward"):
            loss = functional.cross_entropy(model(texts[:, :-1]), texts[:, 1:].flatten())
        training.descend(loss, optimizer)
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
