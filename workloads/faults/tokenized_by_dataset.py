"""The dataset in the library's loop tokenizes the texts of a batch in each step.

The loop loads without processes of its own, so the training process does it. Fixed, the texts were tokenized before.
"""

from collections.abc import Sequence
from typing import overload

import torch
from transformers import BertConfig, BertForSequenceClassification

from faults import texts, trainer_loop, training
from faults.trainer_loop import Batch
from faults.training import Run

SHAPE = "a classifier of texts in the library's loop; its dataset tokenizes the texts of each batch"
LIBRARY = "transformers"
GPUS = 0
EXPECTS = {"": ("host/tokenizer",), "--fixed": ()}

WIDTH, LAYERS, ROWS, WORDS, LENGTH = 768, 6, 256, 250, 128


class Texts(Sequence[Batch]):
    """One batch of texts, over and over."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.tokenizer = texts.tokenizer()
        self.written = texts.written(run.size(ROWS, 64), WORDS)
        self.kept = self._tokens() if run.fixed else None

    def __len__(self) -> int:
        """Return the number of different batches."""
        return 1

    @overload
    def __getitem__(self, index: int) -> Batch: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Batch]: ...

    def __getitem__(self, index: int | slice) -> Batch | Sequence[Batch]:
        """Return the batch: the first tokens of each text, int64 [rows, length], and labels."""
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        tokens = (self._tokens() if self.kept is None else self.kept).to(self.run.device)
        return {"input_ids": tokens, "labels": torch.zeros(len(tokens), dtype=torch.int64, device=self.run.device)}

    def _tokens(self) -> torch.Tensor:
        found = self.tokenizer(self.written)["input_ids"]
        return torch.tensor([each[: self.run.size(LENGTH, 8)] for each in found])


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    width = run.size(WIDTH, 128)
    config = BertConfig(
        vocab_size=texts.WORDS + 1,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=run.size(LAYERS, 2),
        num_attention_heads=width // 64,
    )
    loss = trainer_loop.train(run, BertForSequenceClassification(config), Texts(run))
    print(f"mean loss {loss:.4f}")


if __name__ == "__main__":
    main()
