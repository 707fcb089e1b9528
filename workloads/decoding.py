"""A decoder of the smallest GPT-2's size generates text: it reads a prompt at once, then writes tokens one by one.

Each token needs hundreds of kernels that are shorter than their launch. A CUDA graph launches all of them at once.

    python workloads/decoding.py
    python workloads/decoding.py --graphs      the same tokens

Weights are random, so the text means nothing.
"""

import argparse
from collections.abc import Callable

import common
import torch
from networks import transformer
from torch import Tensor

EXPECTS = {"--amp": ("launches/launch_bound",), "--amp --graphs": ("synchronization/in_step",)}

GPT2 = transformer.Size(vocabulary=50_257, longest=1024, dropout=0.0)
WARM_UP = 3

Next = Callable[[], Tensor]


class Text:
    """The text so far: the last token and its place, at fixed places in memory, and the cache."""

    def __init__(self, model: transformer.Writer, size: transformer.Size, rows: int, device: torch.device) -> None:
        """Take the model, its size, and how many texts are written at once."""
        self.model = model
        self.cache = transformer.Cache(size, rows, device, next(model.parameters()).dtype)
        self.token = torch.zeros((rows, 1), dtype=torch.int64, device=device)
        self.place = torch.zeros(1, dtype=torch.int64, device=device)

    def read(self, prompt: Tensor) -> None:
        """Take in a prompt int64 [rows, length]."""
        places = torch.arange(prompt.shape[1], device=prompt.device)
        self.token.copy_(self.model(prompt, places, self.cache))
        self.place.fill_(prompt.shape[1])

    def write(self) -> Tensor:
        """Add a token to each text; return them, int64 [rows, 1]."""
        self.token.copy_(self.model(self.token, self.place, self.cache))
        self.place.add_(1)
        return self.token


def captured(text: Text) -> Next:
    """Return `text.write` as one CUDA graph."""
    if text.token.device.type != "cuda":
        raise SystemExit("decoding.py: --graphs needs a GPU")
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(WARM_UP):
            text.write()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        text.write()

    def write() -> Tensor:
        graph.replay()
        return text.token

    return write


def options() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = common.parser(__doc__, batch_size=1, steps=64)
    parser.add_argument("--prompt", type=common.positive, default=128, metavar="N", help="its tokens (%(default)s)")
    parser.add_argument("--graphs", action="store_true", help="each token as one CUDA graph")
    parser.add_argument("--small", action="store_true", help="two small layers, to try it without a GPU")
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Generate tokens, and print the last ones."""
    chosen = options().parse_args(arguments)
    size = transformer.SMALL if chosen.small else GPT2
    if chosen.prompt + chosen.steps > size.longest:
        raise SystemExit(f"decoding.py: prompt and steps are more than the {size.longest} tokens it can keep")
    common.plant(chosen.seed)
    device = common.device_named(chosen.device)
    dtype = torch.float16 if chosen.amp and device.type == "cuda" else torch.float32
    model = transformer.Writer(size).eval().to(device, dtype)
    prompt = torch.randint(size.vocabulary, (chosen.batch_size, chosen.prompt), device=device)
    text = Text(model, size, chosen.batch_size, device)
    written = []
    with torch.inference_mode():
        with common.phase("build"):
            # This fills places in the cache that are written again later, since all runs start from the same prompt.
            write = captured(text) if chosen.graphs else text.write
        with common.phase("prompt"):
            text.read(prompt)
        for number in range(chosen.steps):
            with common.batch(number):
                with common.phase("forward"):
                    token = write()
                with common.phase("read"):
                    written.append(int(token[0, 0]))
    print(f"{chosen.steps} tokens after {chosen.prompt}, {device.type}: ... {' '.join(map(str, written[-8:]))}")


if __name__ == "__main__":
    main()
