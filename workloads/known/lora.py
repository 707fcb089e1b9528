"""Low-rank adapters of a frozen language model are trained: four texts a step, one after another, with checkpoints.

A frozen model of this size leaves most of the memory free. Fixed, the four texts are one batch, and activations are
kept instead of computed again.
"""

import common
import torch
from faults import training
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

WORDS, WIDTH, HEAD, LAYERS, ROWS, LENGTH, RANK, STEPS = 32_000, 1024, 64, 8, 4, 256, 8, 60


class Adapted(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """A frozen linear layer, and beside it two narrow ones that learn."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.frozen = nn.Linear(inputs, outputs, bias=False).requires_grad_(requires_grad=False)
        self.down, self.up = nn.Linear(inputs, RANK, bias=False), nn.Linear(RANK, outputs, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, values: Tensor) -> Tensor:
        found: Tensor = self.frozen(values) + self.up(self.down(values))
        return found


class Block(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Attention with a causal mask, and two adapted layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.inputs, self.output = Adapted(width, 3 * width), Adapted(width, width)
        self.wide, self.narrow = Adapted(width, 4 * width), Adapted(4 * width, width)

    def forward(self, values: Tensor) -> Tensor:
        """Return values [rows, length, width] after the block."""
        rows, length, width = values.shape
        parts = self.inputs(self.norms[0](values)).view(rows, length, 3, max(width // HEAD, 1), -1)
        query, key, value = parts.transpose(1, 3).unbind(2)
        found = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        values = values + self.output(found.transpose(1, 2).reshape(rows, length, width))
        result: Tensor = values + self.narrow(functional.gelu(self.wide(self.norms[1](values))))
        return result


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments, STEPS)
    width, words = run.size(WIDTH), run.size(WORDS, 64)
    table = nn.Embedding(words, width).to(run.device, torch.bfloat16).requires_grad_(requires_grad=False)
    blocks = nn.ModuleList(Block(width) for _ in range(run.size(LAYERS, 2))).to(run.device, torch.bfloat16)
    learning = [each for each in blocks.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(learning, lr=1e-4, fused=run.device.type == "cuda")
    texts = torch.randint(words, (ROWS, run.size(LENGTH, 16) + 1), device=run.device)
    parts, total = texts.split(ROWS if run.fixed else 1), torch.zeros((), device=run.device)
    for _ in training.steps(run):
        total.zero_()
        for text in parts:
            with common.phase("forward"):
                values = table(text[:, :-1]).requires_grad_()
                for block in blocks:
                    values = block(values) if run.fixed else checkpoint(block, values, use_reentrant=False)
                scores = functional.linear(values, table.weight).flatten(0, 1)
                loss = functional.cross_entropy(scores, text[:, 1:].flatten()) / len(parts)
            with common.phase("backward"):
                loss.backward()
            total += loss.detach()
        with common.phase("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
    print(f"loss {total.item():.4f}")


if __name__ == "__main__":
    main()
