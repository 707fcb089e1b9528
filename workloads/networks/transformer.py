"""Transformers: an encoder of BERT's size and a decoder of GPT-2's, over tokens int64 [n, length]."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class Size:
    """How large a transformer is; the defaults are those of BERT-base and of the smallest GPT-2.

    Attributes:
        width: Features of a token.
        longest: How many tokens a text may have.
        dropout: Share of features left out in training.
    """

    width: int = 768
    layers: int = 12
    heads: int = 12
    vocabulary: int = 30_522
    longest: int = 512
    dropout: float = 0.1


SMALL = Size(width=32, layers=2, heads=2, vocabulary=100, longest=64)


class Cache:
    """Keys and values of all tokens so far, each [n, heads, longest, features]; at a fixed place in memory."""

    def __init__(self, size: Size, rows: int, device: torch.device, dtype: torch.dtype) -> None:
        """Make room for as many texts as there are rows."""
        shape = rows, size.heads, size.longest, size.width // size.heads
        self.keys = [torch.zeros(shape, device=device, dtype=dtype) for _ in range(size.layers)]
        self.values = [torch.zeros(shape, device=device, dtype=dtype) for _ in range(size.layers)]


class Attention(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Attention of every token to every token; or, with a cache, to all that came before it."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.inside = nn.Linear(size.width, 3 * size.width)
        self.outside = nn.Linear(size.width, size.width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return tokens [n, length, width] after attention to each other."""
        query, key, value = self.split(tokens)
        return self.join(functional.scaled_dot_product_attention(query, key, value))

    def step(self, tokens: Tensor, places: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Return tokens [n, length, width], at places int64 [length], after attention to the cache up to there."""
        query, key, value = self.split(tokens)
        keys.index_copy_(2, places, key)
        values.index_copy_(2, places, value)
        seen = torch.arange(keys.shape[2], device=tokens.device) <= places[:, None]
        return self.join(functional.scaled_dot_product_attention(query, keys, values, attn_mask=seen))

    def split(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, key and value, each [n, heads, length, features]."""
        rows, length, width = tokens.shape
        parts = self.inside(tokens).view(rows, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        return query, key, value

    def join(self, mixed: Tensor) -> Tensor:
        """Return [n, length, width] from [n, heads, length, features]."""
        joined: Tensor = self.outside(mixed.transpose(1, 2).flatten(2))
        return joined


class Block(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Attention and two linear layers; normalised after each (`first` is False) or before."""

    def __init__(self, size: Size, *, first: bool) -> None:
        """Take how large the transformer is, and whether norms come first."""
        super().__init__()
        self.first = first
        self.attention = Attention(size)
        self.norms = nn.ModuleList([nn.LayerNorm(size.width), nn.LayerNorm(size.width)])
        self.wide = nn.Sequential(
            nn.Linear(size.width, 4 * size.width), nn.GELU(), nn.Linear(4 * size.width, size.width)
        )
        self.dropout = nn.Dropout(size.dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return tokens [n, length, width] after the block, norms last."""
        tokens = self.norms[0](tokens + self.dropout(self.attention(tokens)))
        done: Tensor = self.norms[1](tokens + self.dropout(self.wide(tokens)))
        return done

    def step(self, tokens: Tensor, places: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Return tokens [n, length, width] at some places after the block, norms first."""
        tokens = tokens + self.attention.step(self.norms[0](tokens), places, keys, values)
        done: Tensor = tokens + self.wide(self.norms[1](tokens))
        return done


class Reader(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """An encoder in BERT's form (Devlin et al., 2019) that says where in a text an answer starts and ends."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.words = nn.Embedding(size.vocabulary, size.width)
        self.places = nn.Embedding(size.longest, size.width)
        self.kinds = nn.Embedding(2, size.width)
        self.norm = nn.LayerNorm(size.width)
        self.dropout = nn.Dropout(size.dropout)
        self.blocks = nn.ModuleList([Block(size, first=False) for _ in range(size.layers)])
        self.ends = nn.Linear(size.width, 2)

    def forward(self, tokens: Tensor, kinds: Tensor) -> Tensor:
        """Return scores [n, length, 2] for start and end; kinds int64 [n, length] is 0 in the question, else 1."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        state = self.dropout(self.norm(self.words(tokens) + self.places(places) + self.kinds(kinds)))
        for block in self.blocks:
            state = block(state)
        scores: Tensor = self.ends(state)
        return scores


class Writer(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """A decoder in GPT-2's form (Radford et al., 2019)."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.words = nn.Embedding(size.vocabulary, size.width)
        self.places = nn.Embedding(size.longest, size.width)
        self.blocks = nn.ModuleList([Block(size, first=True) for _ in range(size.layers)])
        self.norm = nn.LayerNorm(size.width)

    def forward(self, tokens: Tensor, places: Tensor, cache: Cache) -> Tensor:
        """Return the likeliest next token int64 [n, 1] after tokens [n, length] at places int64 [length]."""
        state = self.words(tokens) + self.places(places)
        for block, keys, values in zip(self.blocks, cache.keys, cache.values, strict=True):
            state = block.step(state, places, keys, values)
        scores = functional.linear(self.norm(state[:, -1:]), self.words.weight)
        return scores.argmax(-1)
