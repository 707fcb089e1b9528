"""A language model writes one token after another: for each, a hundred kernels of a few microseconds are launched.

Fixed, the kernels of a token are one CUDA graph, launched once a token.
"""

from collections.abc import Callable

import common
import torch
from torch import Tensor, nn
from torch.nn import functional

from faults import training
from faults.training import Run

SHAPE = "a decoder that writes text; inference, token by token, with kept keys and values"
EXPECTS = {"": ("launches/launch_bound",), "--fixed": ()}

VOCABULARY, WIDTH, LAYERS, ROWS, KEPT, TOKENS, STEPS = 4096, 1024, 8, 8, 256, 24, 12
HEAD = 64


class Layer(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Attention to the cached tokens, and a feed-forward network, for one new token of each row."""

    def __init__(self, rows: int, width: int, kept: int) -> None:
        """Take the number of rows and features, and how many tokens are cached."""
        super().__init__()
        self.heads = max(width // HEAD, 1)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.back = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.register_buffer("kept", torch.zeros(2, rows, self.heads, kept, width // self.heads))

    def forward(self, values: Tensor, place: Tensor, seen: Tensor) -> Tensor:
        """Return values [rows, 1, width]; their keys and values are cached at their place.

        Args:
            values: Of shape [rows, 1, width].
            place: Place of the new token in the cache, int64 [1].
            seen: Which places attention reads, bool [1, kept].
        """
        rows, _, width = values.shape
        query, *new = self.project(self.first(values)).view(rows, 1, 3, self.heads, -1).transpose(1, 3).unbind(2)
        for kept, each in zip(self.kept, new, strict=True):
            kept.index_copy_(2, place, each)
        found = functional.scaled_dot_product_attention(query, self.kept[0], self.kept[1], attn_mask=seen)
        values = values + self.back(found.transpose(1, 2).reshape(rows, 1, width))
        result: Tensor = values + self.inner(self.second(values))
        return result


class Writer:
    """Writes tokens, in tensors at fixed places in memory."""

    def __init__(self, run: Run, rows: int = ROWS) -> None:
        """Take the settings of the run, and how many texts are written at once."""
        rows, width, kept = run.size(rows, min(rows, 2)), run.size(WIDTH), run.size(KEPT, TOKENS * 2)
        made = [Layer(rows, width, kept) for _ in range(run.size(LAYERS, 2))]
        self.layers = nn.ModuleList(made).to(run.device, torch.bfloat16)
        self.table = nn.Embedding(VOCABULARY, width).to(run.device, torch.bfloat16)
        self.places = torch.arange(kept, device=run.device)
        self.place = torch.zeros(1, dtype=torch.int64, device=run.device)
        self.token = torch.zeros(rows, 1, dtype=torch.int64, device=run.device)

    def write(self) -> None:
        """Replace the token of each row by the one that follows it."""
        values, seen = self.table(self.token), (self.places <= self.place)[None]
        for layer in self.layers:
            values = layer(values, self.place, seen)
        self.token.copy_((values @ self.table.weight.T).argmax(-1))
        self.place.add_(1)


def as_graph(write: Callable[[], None]) -> Callable[[], None]:
    """Return the same work as one launch."""
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        write()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        write()
    launch: Callable[[], None] = graph.replay
    return launch


@torch.no_grad()  # type: ignore[untyped-decorator]  # torch is not typed here
def main(arguments: list[str] | None = None) -> None:
    """Write, and print the last token."""
    run = training.started(__doc__, arguments, STEPS)
    writer = Writer(run)
    write = as_graph(writer.write) if run.fixed and run.device.type == "cuda" else writer.write
    for _ in training.steps(run):
        with common.phase("forward"):
            writer.place.zero_()
            for _ in range(TOKENS):
                write()
    print(f"token {int(writer.token[0])} after {run.steps} texts of {TOKENS}")


if __name__ == "__main__":
    main()
