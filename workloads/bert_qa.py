"""An encoder of BERT-base's size learns to answer questions from texts of 384 tokens.

    python workloads/bert_qa.py --amp                       mixed precision
    python workloads/bert_qa.py --amp --optimizer single    AdamW with kernels for each parameter
    python workloads/bert_qa.py --amp --optimizer fused     AdamW in a few kernels

Weights are random; texts are drawn tokens, read from one file by a loader.
"""

import argparse
from pathlib import Path

import common
import networks
import numpy as np
import torch
import training
from networks import transformer
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

EXPECTS = {
    "": ("tensor_cores/not_used",),
    "--amp": ("launches/launch_bound or gpu/between_operations", "idle/cpu"),
    "--amp --optimizer single": ("optimizer/many_kernels", "launches/launch_bound"),
    "--amp --optimizer fused": ("idle/cpu or launches/launch_bound", "idle/launch or launches/launch_bound"),
}

OPTIMIZERS = {"single": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
TOKENS = 1_000_000
QUESTION = 1 / 8  # share of the tokens


class Questions(Dataset[training.Batch]):  # type: ignore[misc]  # torch is not typed here
    """Questions and the texts that hold their answers, cut from one long text."""

    def __init__(self, path: Path, length: int, seed: int) -> None:
        """Take the file of tokens, how many tokens a question and its text have together, and a seed."""
        self.tokens = np.load(path, mmap_mode="r")
        self.length = length
        self.seed = seed

    def __len__(self) -> int:
        return len(self.tokens) // self.length

    def __getitem__(self, number: int) -> training.Batch:
        """Return tokens and kinds int64 [length], and the places of the answer int64 [2]."""
        start = number * self.length
        tokens = torch.from_numpy(self.tokens[start : start + self.length].astype(np.int64))
        kinds = (torch.arange(self.length) >= int(self.length * QUESTION)).long()
        ends = np.random.default_rng([self.seed, number]).integers(int(self.length * QUESTION), self.length, 2)
        return [tokens, kinds, torch.from_numpy(np.sort(ends))]


def text(folder: Path, vocabulary: int) -> Path:
    """Return a file of random tokens with frequencies as in a language (Zipf's law); write it if it does not exist."""
    path = folder / f"tokens-{vocabulary}.npy"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        drawn = np.random.default_rng(0).zipf(1.3, TOKENS) % vocabulary
        np.save(path, drawn.astype(np.uint16))
    return path


def loss_of(model: nn.Module, batch: list[Tensor]) -> Tensor:
    """Return the mean cross entropy of where answers start and end."""
    tokens, kinds, ends = batch
    scores = model(tokens, kinds)
    return functional.cross_entropy(scores, ends)


def options() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = common.parser(__doc__, batch_size=16, steps=15)
    parser.add_argument("--optimizer", choices=tuple(OPTIMIZERS), default="foreach", help="AdamW's form (%(default)s)")
    parser.add_argument("--length", type=common.positive, default=384, metavar="N", help="tokens (%(default)s)")
    parser.add_argument("--workers", type=common.natural, default=1, metavar="N", help="loader processes (%(default)s)")
    parser.add_argument("--small", action="store_true", help="two small layers, to try it without a GPU")
    parser.add_argument("--tf32", action="store_true", help="let float32 products use TF32")
    parser.add_argument(
        "--data", type=Path, default=Path("data", "tokens"), metavar="DIR", help="where texts lie (%(default)s)"
    )
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Train, and print loss, step and wait for data."""
    chosen = options().parse_args(arguments)
    size = transformer.SMALL if chosen.small else transformer.Size()
    if chosen.length > size.longest:
        raise SystemExit(f"bert_qa.py: --length {chosen.length} is more than the {size.longest} tokens it can read")
    common.plant(chosen.seed)
    if not chosen.tf32:
        networks.full_precision()
    device = common.device_named(chosen.device)
    model = transformer.Reader(size).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5, **OPTIMIZERS[chosen.optimizer])
    task = training.Task(model, loss_of, optimizer, device, chosen.amp)
    samples = Questions(text(chosen.data, size.vocabulary), chosen.length, chosen.seed)
    print(f"{sum(each.numel() for each in model.parameters())} parameters, {device.type}, {chosen.optimizer} AdamW")
    print(training.train(task, training.loader(samples, chosen, device)))


if __name__ == "__main__":
    main()
