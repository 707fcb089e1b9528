"""Blocks whose attention is written by hand: products, mask and softmax one by one, with all scores in the memory.

Fixed, they call PyTorch's fused attention.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from faults import training

SHAPE = "attention over 2,048 tokens with a triangular mask, trained in bfloat16"
EXPECTS = {"": ("compute/attention_by_parts",), "--fixed": ()}

WIDTH, HEAD, LAYERS, ROWS, TOKENS = 1024, 64, 4, 8, 2048


class Attention(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """A residual layer in which each token looks at those before it."""

    def __init__(self, width: int, head: int, *, fused: bool) -> None:
        """Take the features of a token, those of a head, and whether PyTorch's fused attention does the work."""
        super().__init__()
        self.head, self.fused = head, fused
        self.norm = nn.LayerNorm(width)
        self.given, self.mixed = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the tokens with what the layer adds to them."""
        rows, length, width = tokens.shape
        parts = self.given(self.norm(tokens)).view(rows, length, 3, width // self.head, self.head)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4)
        if self.fused:
            seen = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        else:
            scores = queries @ keys.transpose(-2, -1) / self.head**0.5
            later = torch.ones(length, length, device=tokens.device, dtype=torch.bool).triu(1)
            seen = scores.masked_fill(later, float("-inf")).softmax(-1) @ values
        return tokens + self.mixed(seen.transpose(1, 2).reshape(rows, length, width))


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    width, head = run.size(WIDTH), run.size(HEAD, 8)
    made = [Attention(width, head, fused=run.fixed) for _ in range(run.size(LAYERS, 2))]
    model = nn.Sequential(*made).to(run.device, torch.bfloat16)
    optimizer = training.sgd(model, run)
    inputs = torch.rand(run.size(ROWS, 2), run.size(TOKENS), width, device=run.device, dtype=torch.bfloat16)
    wanted = torch.zeros_like(inputs)
    loss = training.train_all(run, model, optimizer, inputs, wanted)
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
