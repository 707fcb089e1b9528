"""Models of several libraries, eager and compiled, to hold the X-ray step against PyTorch's own tools.

    python tools/xray_programs.py NAME --steps 60             trains the model
    python tools/xray_programs.py NAME --profiler FILE        asks torch.profiler for the operator of each kernel, and
                                                              FlopCounterMode for the operations of a step

No program depends on nsyswrap. The models have random weights and learn random data.
"""

import argparse
import fcntl
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import overhead_programs
import torch
from overhead_programs import DEVICE, Step
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

COMPILED = "_compiled"
WARM_UP, PROFILED = 6, 2
# What a model returns for its batch, as a loss.
LossOf = Callable[[Callable[..., Any]], torch.Tensor]


class Attention(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Attention with a causal mask: the fused one, or written by hand."""

    def __init__(self, width: int, heads: int, *, by_hand: bool) -> None:
        super().__init__()
        self.inputs, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.by_hand = heads, by_hand

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Return what each token takes from those before it."""
        batch, length, width = values.shape
        parts = self.inputs(values).split(width, dim=2)
        query, key, value = (each.view(batch, length, self.heads, -1).transpose(1, 2) for each in parts)
        if self.by_hand:
            scores = (query @ key.transpose(-2, -1)) * query.shape[-1] ** -0.5
            mask = torch.ones(length, length, device=values.device, dtype=torch.bool).tril()
            found = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ value
        else:
            found = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output(found.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """A layer of a transformer."""

    def __init__(self, width: int, heads: int, *, by_hand: bool) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.attention = Attention(width, heads, by_hand=by_hand)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Return the values after the layer."""
        values = values + self.attention(self.norms[0](values))
        return values + self.mlp(self.norms[1](values))


class Language(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """A small language model; its second layer writes attention by hand, its last one is computed again backward."""

    def __init__(self, words: int = 50257, width: int = 512, layers: int = 4, length: int = 256) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, 8, by_hand=each == 1) for each in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return a number for each word at each place."""
        values = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks[:-1]:
            values = block(values)
        return self.head(self.norm(checkpoint(self.blocks[-1], values, use_reentrant=False)))


def language() -> tuple[nn.Module, LossOf]:
    """Language model in bfloat16 by autocast."""
    tokens, labels = torch.randint(0, 50257, (2, 8, 256), device=DEVICE)

    def loss_of(model: Callable[..., Any]) -> torch.Tensor:
        with torch.autocast(DEVICE, torch.bfloat16):
            return functional.cross_entropy(model(tokens).flatten(0, 1), labels.flatten())

    return Language(), loss_of


def transformer(name: str, config: dict[str, Any], kind: str, *, length: int = 128) -> tuple[nn.Module, LossOf]:
    """Return a model of transformers that learns to repeat its tokens."""
    import transformers  # noqa: PLC0415 - each program imports what it needs

    settings = getattr(transformers, f"{name}Config")(**config)
    tokens = torch.randint(0, settings.vocab_size, (8, length), device=DEVICE)
    model = getattr(transformers, f"{name}{kind}")(settings)
    return model, lambda called: called(input_ids=tokens, labels=tokens).loss


def pictures(model: nn.Module, size: int, batch: int, *, dtype: torch.dtype | None = None) -> tuple[nn.Module, LossOf]:
    """Return a model that sorts pictures into classes, in a type of autocast or in FP32."""
    inputs, labels = torch.randn(batch, 3, size, size, device=DEVICE), torch.randint(0, 10, (batch,), device=DEVICE)

    def loss_of(called: Callable[..., Any]) -> torch.Tensor:
        with torch.autocast(DEVICE, dtype or torch.bfloat16, enabled=dtype is not None):
            return functional.cross_entropy(called(inputs), labels)

    return model, loss_of


def of_timm(name: str, size: int = 224, batch: int = 16, **options: Any) -> tuple[nn.Module, LossOf]:  # noqa: ANN401
    import timm  # noqa: PLC0415

    return pictures(timm.create_model(name, num_classes=10), size, batch, **options)


def resnet() -> tuple[nn.Module, LossOf]:
    """ResNet-50 of torchvision, channels last."""
    from torchvision.models import resnet50  # noqa: PLC0415

    return pictures(resnet50(num_classes=10).to(memory_format=torch.channels_last), 176, 16, dtype=torch.bfloat16)


def recommender() -> tuple[nn.Module, LossOf]:
    """Lookups in tables, then a few products."""
    tables = nn.ModuleList(nn.EmbeddingBag(20000, 64, mode="sum") for _ in range(8))
    top = nn.Sequential(nn.Linear(8 * 64, 512), nn.ReLU(), nn.Linear(512, 1))
    found = torch.randint(0, 20000, (8, 2048, 10), device=DEVICE)

    class Recommender(nn.Module):  # type: ignore[misc]  # torch is not typed here
        def __init__(self) -> None:
            super().__init__()
            self.tables, self.top = tables, top

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            parts = [table(each) for table, each in zip(self.tables, rows, strict=True)]
            return self.top(torch.cat(parts, dim=1))

    return Recommender(), lambda model: model(found).square().mean()


def recurrent() -> tuple[nn.Module, LossOf]:
    """An LSTM and a GRU of cuDNN."""

    class Recurrent(nn.Module):  # type: ignore[misc]  # torch is not typed here
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LSTM(256, 256, 2, batch_first=True), nn.GRU(256, 128, batch_first=True)

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(values)[0])[0]

    values = torch.randn(32, 100, 256, device=DEVICE)
    return Recurrent(), lambda model: model(values).square().mean()


def diffusion() -> tuple[nn.Module, LossOf]:
    """A small network that goes down and up again, with attention and group norms."""

    class Net(nn.Module):  # type: ignore[misc]  # torch is not typed here
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.ModuleList([nn.Conv2d(3, 64, 3, padding=1), nn.Conv2d(64, 128, 3, 2, 1)])
            self.middle = nn.MultiheadAttention(128, 4, batch_first=True)
            self.norm, self.up = nn.GroupNorm(8, 128), nn.ConvTranspose2d(128, 64, 4, 2, 1)
            self.last = nn.Conv2d(128, 3, 3, padding=1)

        def forward(self, noisy: torch.Tensor) -> torch.Tensor:
            first = functional.silu(self.down[0](noisy))
            low = functional.silu(self.norm(self.down[1](first)))
            flat = low.flatten(2).transpose(1, 2)
            low = low + self.middle(flat, flat, flat, need_weights=False)[0].transpose(1, 2).view_as(low)
            return self.last(torch.cat([first, self.up(low)], dim=1))

    noisy = torch.randn(16, 3, 64, 64, device=DEVICE)
    return Net(), lambda model: functional.mse_loss(model(noisy), noisy)


BERT = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6, "intermediate_size": 1536}
LLAMA = BERT | {"vocab_size": 32000, "num_key_value_heads": 2}
T5 = {"d_model": 256, "num_layers": 4, "num_heads": 4, "d_ff": 1024, "vocab_size": 32000, "decoder_start_token_id": 0}
MODELS: dict[str, Callable[[], tuple[nn.Module, LossOf]]] = {
    "language": language,
    "bert": lambda: transformer("Bert", BERT, "ForMaskedLM"),
    "gpt2": lambda: transformer("GPT2", {"n_embd": 384, "n_layer": 6, "n_head": 6}, "LMHeadModel"),
    "llama": lambda: transformer("Llama", LLAMA, "ForCausalLM"),
    "t5": lambda: transformer("T5", T5, "ForConditionalGeneration"),
    "vit": lambda: of_timm("vit_small_patch16_224", dtype=torch.bfloat16),
    "convnext": lambda: of_timm("convnext_nano", 160, dtype=torch.bfloat16),
    "mobile": lambda: of_timm("mobilenetv3_large_100", 160),
    "mixer": lambda: of_timm("mixer_s16_224"),
    "resnet": resnet,
    "recommender": recommender,
    "recurrent": recurrent,
    "diffusion": diffusion,
}
# Of overhead_programs, where the step is a function.
STEPS = ("small_encoder", "items", "looped_optimizer", "vision_resnet", "lstm_cells", "large_encoder", "graph_launches")
NAMES = (*MODELS, *STEPS, overhead_programs.lightning_loop.__name__)
BOTH = ("language", "bert", "llama", "vit", "resnet", "diffusion")


def step_of(name: str) -> Step:
    if name in STEPS:
        return overhead_programs.PROGRAMS[name]()
    model, loss_of = MODELS[name.removesuffix(COMPILED)]()
    model.to(DEVICE).train()
    called = torch.compile(model) if name.endswith(COMPILED) else model
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_of(called)
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


def answers(step: Step) -> dict[str, Any]:
    """Return operators of kernels by torch.profiler, and operations by FlopCounterMode.

    Returns:
        ``kernels``: for the name of a kernel, its time in us by operator. ``operations``: of one step.
    """
    from torch.utils.flop_counter import FlopCounterMode  # noqa: PLC0415

    for _ in range(WARM_UP):
        step()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(PROFILED):
            step()
    kernels: dict[str, Counter[str]] = {}
    for event in profiler.events():
        if not event.name.startswith(("cuda", "cu")):
            for kernel in event.kernels:
                kernels.setdefault(kernel.name, Counter())[event.name] += kernel.duration
    with FlopCounterMode(display=False) as counted:
        step()
    return {"kernels": kernels, "operations": counted.get_total_flops()}


def main() -> None:
    """Run the program that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*NAMES, *(f"{each}{COMPILED}" for each in BOTH)])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--profiler", type=Path, metavar="FILE")
    parser.add_argument("--gate", type=Path, metavar="FILE", help="wait until no other program holds this file")
    parser.add_argument("--cores", default="", metavar="LIST", help="then run on these cores")
    chosen = parser.parse_args()
    if chosen.gate:
        gate = chosen.gate.open("w")  # until the process ends
        fcntl.flock(gate, fcntl.LOCK_EX)
        os.sched_setaffinity(0, map(int, chosen.cores.split(",")))
    torch.manual_seed(0)
    if chosen.name == overhead_programs.lightning_loop.__name__:
        overhead_programs.lightning_loop(chosen.steps)
        return
    step = step_of(chosen.name)
    if chosen.profiler:
        chosen.profiler.write_text(json.dumps(answers(step)), encoding="utf-8")
        return
    for _ in range(chosen.steps):
        step()


if __name__ == "__main__":
    main()
