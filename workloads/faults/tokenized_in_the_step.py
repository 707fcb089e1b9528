"""The training process tokenizes the text of each batch before it trains on it.

Fixed, the text has been tokenized before the first step.
"""

import random

import common
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from faults import training

SHAPE = "linear layers over counts of words; a tokenizer runs in each step"
LIBRARY = ""
EXPECTS = {"": ("host/tokenizer",), "--fixed": ()}

WIDTH, ROWS, WORDS, TEXTS, LENGTH = 4096, 4096, 2000, 64, 400


def tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer that knows some words."""
    words = {f"word{number}": number for number in range(WORDS)}
    words["[UNK]"] = WORDS
    made = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))  # noqa: S106 - a word
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]")  # noqa: S106


def main(arguments: list[str] | None = None) -> None:
    """Train, and print the last loss."""
    run = training.started(__doc__, arguments)
    width = run.size(WIDTH)
    model = training.network(run, width, WIDTH)
    optimizer = training.sgd(model, run)
    inputs = training.rows(run, run.size(ROWS), width)
    wanted = training.rows(run, run.size(ROWS), training.OUTPUTS)
    rng = random.Random(0)
    texts = [
        " ".join(f"word{rng.randrange(WORDS)}" for _ in range(run.size(LENGTH, 5))) for _ in range(run.size(TEXTS, 2))
    ]
    turn = tokenizer()
    kept, loss, total = turn(texts)["input_ids"], torch.zeros(()), 0
    for _ in training.steps(run):
        with common.phase("data"):
            tokens = kept if run.fixed else turn(texts)["input_ids"]
        total += sum(map(len, tokens))
        loss = training.train(model, optimizer, inputs, wanted)
    print(f"loss {loss.item():.4f}, {total} tokens")


if __name__ == "__main__":
    main()
