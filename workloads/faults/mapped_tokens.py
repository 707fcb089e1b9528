"""The dataset of the library's loop cuts each sample from a mapped file of tokens; no page of it is in memory.

It maps the file again for each batch, so that memory does not fill up with its pages. Fixed, the file was read into
memory once, before the first step.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import overload

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from faults import disk, trainer_loop, training
from faults.trainer_loop import Batch
from faults.training import Run

SHAPE = "a language model in the library's loop; its dataset cuts samples from a mapped file that no cache holds"
LIBRARY = "transformers"
GPUS = 0
EXPECTS = {"": ("host/page_faults",), "--fixed": ()}

WIDTH, LAYERS, ROWS, LENGTH, VOCABULARY, TOKENS = 1024, 8, 96, 128, 256, 192 << 20


class Samples(Sequence[Batch]):
    """Batches of a file of tokens, one byte each; the rows of a batch come from all over the file."""

    def __init__(self, run: Run, path: Path) -> None:
        self.run, self.path = run, path
        self.rows, self.length = run.size(ROWS, 96), run.size(LENGTH, 16)
        self.kept = np.fromfile(path, np.uint8) if run.fixed else None

    def __len__(self) -> int:
        """Return the number of different batches."""
        return self.run.steps

    @overload
    def __getitem__(self, index: int) -> Batch: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Batch]: ...

    def __getitem__(self, index: int | slice) -> Batch | Sequence[Batch]:
        """Return a batch: rows of tokens, int64 [rows, length], which are their own labels."""
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        begins = np.random.default_rng(index).integers(0, TOKENS - self.length, self.rows)
        rows = self._rows(self.kept, begins) if self.kept is not None else self._mapped(begins)
        tokens = torch.from_numpy(rows).to(self.run.device)
        return {"input_ids": tokens, "labels": tokens}

    def _mapped(self, begins: np.ndarray) -> np.ndarray:
        with self.path.open("rb") as file:
            disk.forget(file.fileno())
            return self._rows(np.memmap(file, np.uint8, "r"), begins)

    def _rows(self, tokens: np.ndarray, begins: np.ndarray) -> np.ndarray:
        return np.stack([tokens[begin : begin + self.length] for begin in begins]).astype(np.int64)


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    width = run.size(WIDTH, 128)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=run.size(LAYERS, 2),
        num_attention_heads=width // 64,
    )
    model = LlamaForCausalLM(config)
    with disk.written(1, TOKENS) as paths:
        loss = trainer_loop.train(run, model, Samples(run, paths[0]))
    print(f"mean loss {loss:.4f}")


if __name__ == "__main__":
    main()
