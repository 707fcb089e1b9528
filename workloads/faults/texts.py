"""Texts of random words, and a tokenizer that knows the words."""

import random

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

WORDS = 2000


def tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer that knows all words."""
    words = {f"word{number}": number for number in range(WORDS)}
    words["[UNK]"] = WORDS
    made = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))  # noqa: S106 - a word
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]")  # noqa: S106


def written(count: int, length: int) -> list[str]:
    """Return texts of so many random words, the same in each run."""
    rng = random.Random(0)
    return [" ".join(f"word{rng.randrange(WORDS)}" for _ in range(length)) for _ in range(count)]
