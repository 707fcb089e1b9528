"""A GPT in the form of nanoGPT: attention by hand in full FP32, a vocabulary of 50,257, and an AdamW of many kernels.

Fixed, it trains under autocast in bfloat16 with fused attention, 50,304 words, and a fused AdamW.
"""

import common
import torch
from faults import training
from torch import Tensor, nn
from torch.nn import functional

WORDS, PADDED, WIDTH, HEADS, LAYERS, ROWS, LENGTH, STEPS = 50_257, 50_304, 768, 12, 6, 8, 512, 60


class Block(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Attention with a causal mask, and two linear layers, each after a norm."""

    def __init__(self, width: int, *, fused: bool) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.inputs, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.heads, self.fused = max(HEADS * width // WIDTH, 1), fused

    def forward(self, values: Tensor) -> Tensor:
        """Return values [rows, length, width] after the block."""
        rows, length, width = values.shape
        parts = self.inputs(self.norms[0](values)).split(width, dim=2)
        query, key, value = (each.view(rows, length, self.heads, -1).transpose(1, 2) for each in parts)
        if self.fused:
            found = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            mask = torch.ones(length, length, device=values.device, dtype=torch.bool).tril()
            scores = (query @ key.transpose(-2, -1)) * query.shape[-1] ** -0.5
            found = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ value
        values = values + self.output(found.transpose(1, 2).reshape(rows, length, width))
        result: Tensor = values + self.mlp(self.norms[1](values))
        return result


class Language(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """The model; as in GPT-2, the last layer shares the table of words."""

    def __init__(self, run: training.Run) -> None:
        super().__init__()
        width = run.size(WIDTH, 64)
        self.words = nn.Embedding(run.size(PADDED if run.fixed else WORDS, 64), width)
        self.places = nn.Embedding(run.size(LENGTH, 16), width)
        self.blocks = nn.Sequential(*(Block(width, fused=run.fixed) for _ in range(run.size(LAYERS, 2))))
        self.norm = nn.LayerNorm(width)
        self.to(run.device)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return a number for each word at each place, of tokens int64 [rows, length]."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        values = self.norm(self.blocks(self.words(tokens) + self.places(places)))
        return functional.linear(values, self.words.weight)


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments, STEPS)
    if not run.fixed:
        torch.set_float32_matmul_precision("highest")
    model = Language(run)
    kinds = {"fused": True} if run.fixed and run.device.type == "cuda" else {"foreach": False}
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, **kinds)
    text = torch.randint(run.size(WORDS, 64), (run.size(ROWS, 2), run.size(LENGTH, 16) + 1), device=run.device)
    loss = torch.zeros(())
    for _ in training.steps(run):
        with common.phase("forward"), torch.autocast(run.device.type, torch.bfloat16, enabled=run.fixed):
            loss = functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        with common.phase("backward"):
            loss.backward()
        with common.phase("optimizer"):
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
