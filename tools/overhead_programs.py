# ruff: noqa: INP001 - a program that tools/measure_overhead.py runs, not a package
"""Training and inference loops of different kinds, to compare a run alone with a run under the profiler.

    python tools/overhead_programs.py NAME... --times FILE
    python tools/overhead_programs.py NAME --times FILE --turns SOCKET --parts N

Each step is an NVTX range ``step N`` and is timed by the program itself, from the same begin to the same end. The
lengths are written to FILE in ns, by name. With --turns it connects to a socket once it is ready. For each line from
there, which has the numbers of some cores, it moves to these, makes an Nth part of its steps, and answers with a
line; it ends when the socket is closed. No program depends on nsyswrap, and no constant of nsyswrap is derived from
these programs.
"""

import argparse
import json
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# Tokens of a text: a step takes longer the longer its text is, and GPT-2 has no more than 1,024 positions.
DECODED = 100
Step = Callable[[], object]


class EnoughError(Exception):
    """There are no more turns."""


class Turns:
    """The turns in which this program makes its steps: another program makes its own in between.

    Args:
        address: The socket of who lets the programs take turns.
    """

    def __init__(self, address: Path) -> None:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(address))
            self._lines = connection.makefile("rw")  # keeps the connection open

    def wait(self) -> None:
        """Wait for the next turn, and move this thread to the cores that it names.

        Raises:
            EnoughError: There is none.
        """
        line = self._lines.readline()
        if not line:
            raise EnoughError
        os.sched_setaffinity(0, map(int, line.split()))

    def end(self) -> None:
        """Say that the turn is over."""
        self._lines.write("over\n")
        self._lines.flush()


class Clock:
    """Marks and times steps.

    Attributes:
        steps: Length of each step, in ns.
        turns: When they are made; None for all at once.
        each_turn: How many steps a turn has.
    """

    def __init__(self, turns: Turns | None = None, each_turn: int = 0) -> None:
        self.steps: list[int] = []
        self.turns, self.each_turn = turns, each_turn

    @contextmanager
    def step(self) -> Iterator[None]:
        """Time one step, and mark it with a range.

        Raises:
            EnoughError: There is no turn for it.
        """
        if self.turns is not None and len(self.steps) % self.each_turn == 0:
            self.turns.wait()
        marks = DEVICE == "cuda"  # torch without CUDA has no ranges
        if marks:
            torch.cuda.nvtx.range_push(f"step {len(self.steps)}")
        began = time.perf_counter_ns()
        yield
        self.steps.append(time.perf_counter_ns() - began)
        if marks:
            torch.cuda.nvtx.range_pop()
        if self.turns is not None and len(self.steps) % self.each_turn == 0:
            self.turns.end()


def training(model: nn.Module, loss_of: Callable[[], torch.Tensor], optimizer: torch.optim.Optimizer) -> Step:
    """Return a step that trains a model and reads its loss."""
    del model

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


def encoder_of(layers: int, width: int, batch: int, length: int) -> Step:
    """Return a step that trains a transformer encoder."""
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
    model = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).to(DEVICE)
    values = torch.randn(batch, length, width, device=DEVICE)
    return training(model, lambda: model(values).square().mean(), torch.optim.Adam(model.parameters()))


def small_encoder() -> Step:
    """Twelve narrow layers: far more launches than work."""
    return encoder_of(12, 128, 8, 64)


def middle_encoder() -> Step:
    """Layers whose kernels take about as long as their launches."""
    return encoder_of(6, 768, 16, 128)


def large_encoder() -> Step:
    """Wide layers: the GPU has work all the time."""
    return encoder_of(4, 1024, 48, 256)


def lstm_cells() -> Step:
    """A recurrent network, one cell at a time in a Python loop."""
    cell, head = nn.LSTMCell(256, 256).to(DEVICE), nn.Linear(256, 10).to(DEVICE)
    model = nn.ModuleList([cell, head])
    values = torch.randn(60, 32, 256, device=DEVICE)

    def loss_of() -> torch.Tensor:
        hidden = memory = torch.zeros(32, 256, device=DEVICE)
        for each in values:
            hidden, memory = cell(each, (hidden, memory))
        return head(hidden).square().mean()

    return training(model, loss_of, torch.optim.SGD(model.parameters(), 1e-3))


def items() -> Step:
    """A batch that is handled item by item."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)).to(DEVICE)
    values = torch.randn(64, 64, device=DEVICE)

    def loss_of() -> torch.Tensor:
        return torch.stack([model(each).square().sum() for each in values]).mean()

    return training(model, loss_of, torch.optim.SGD(model.parameters(), 1e-3))


def looped_optimizer() -> Step:
    """An optimizer that handles the parameters one by one."""
    model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(24))).to(DEVICE)
    values = torch.randn(64, 256, device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    return training(model, lambda: model(values).square().mean(), optimizer)


def matrix_products() -> Step:
    """Large matrix products in bfloat16."""
    size = 6144
    values = [torch.randn(size, size, device=DEVICE, dtype=torch.bfloat16) for _ in range(2)]

    def step() -> float:
        result = values[0]
        for _ in range(16):
            result = functional.relu(result @ values[1]) * 1e-2
        return float(result[0, 0].item())

    return step


def graph_launches() -> Step:
    """A network in a CUDA graph, launched once for each step."""
    model = nn.Sequential(*(nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(40))).to(DEVICE)
    values = torch.randn(32, 512, device=DEVICE)
    with torch.no_grad():
        for _ in range(3):
            model(values)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = model(values)

    def step() -> float:
        graph.replay()
        return float(result[0, 0].item())

    return step


def vision_resnet() -> Step:
    """ResNet-18 of torchvision in mixed precision."""
    from torchvision.models import resnet18  # noqa: PLC0415 - each program imports what it needs

    model = resnet18().to(DEVICE)
    pictures, labels = torch.randn(32, 3, 96, 96, device=DEVICE), torch.randint(0, 1000, (32,), device=DEVICE)

    def loss_of() -> torch.Tensor:
        with torch.autocast(DEVICE, torch.bfloat16):
            return functional.cross_entropy(model(pictures), labels)

    return training(model, loss_of, torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9))


def timm_mobile() -> Step:
    """A network of depthwise convolutions of timm."""
    import timm  # noqa: PLC0415

    model = timm.create_model("mobilenetv3_large_100").to(DEVICE)
    pictures, labels = torch.randn(16, 3, 160, 160, device=DEVICE), torch.randint(0, 1000, (16,), device=DEVICE)
    return training(
        model, lambda: functional.cross_entropy(model(pictures), labels), torch.optim.AdamW(model.parameters())
    )


def hugging_bert() -> Step:
    """BERT of transformers, small."""
    from transformers import BertConfig, BertForMaskedLM  # noqa: PLC0415

    config = BertConfig(hidden_size=384, num_hidden_layers=8, num_attention_heads=6, intermediate_size=1536)
    model = BertForMaskedLM(config).to(DEVICE)
    tokens = torch.randint(0, config.vocab_size, (16, 64), device=DEVICE)
    return training(model, lambda: model(tokens, labels=tokens).loss, torch.optim.AdamW(model.parameters()))


def hugging_decoding() -> Step:
    """GPT-2 of transformers, which writes one token a step, and begins a new text after 100."""
    from transformers import GPT2Config, GPT2LMHeadModel  # noqa: PLC0415

    model = GPT2LMHeadModel(GPT2Config(n_embd=512, n_layer=8, n_head=8)).to(DEVICE).eval()
    first = torch.ones(4, 1, dtype=torch.long, device=DEVICE)
    state: dict[str, Any] = {"count": 0}

    def step() -> int:
        if state["count"] % DECODED == 0:
            state.update(cache=None, token=first)
        state["count"] += 1
        with torch.no_grad():
            found = model(state["token"], past_key_values=state["cache"], use_cache=True)
        state["cache"], state["token"] = found.past_key_values, found.logits[:, -1:].argmax(-1)
        return int(state["token"][0, 0].item())

    return step


def loaded_pictures() -> Step:
    """A small network that waits for pictures from one loader process.

    With two of them, batches come in pairs: every other step waits for both, and the median says nothing.
    """
    from torch.utils.data import DataLoader  # noqa: PLC0415

    model = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    model = model.to(DEVICE)
    batches = iter(DataLoader(Pictures(), batch_size=32, num_workers=1, pin_memory=DEVICE == "cuda"))

    def loss_of() -> torch.Tensor:
        return model(next(batches).to(DEVICE, non_blocking=True)).square().mean()

    return training(model, loss_of, torch.optim.SGD(model.parameters(), 1e-3))


class Pictures(torch.utils.data.Dataset[torch.Tensor]):  # type: ignore[misc]  # torch is not typed here
    """Pictures that take some time to make."""

    def __len__(self) -> int:
        """Return more than any run needs."""
        return 1 << 20

    def __getitem__(self, index: int) -> torch.Tensor:
        """Return a picture, blurred."""
        picture = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(index))
        return functional.avg_pool2d(picture, 5, 1, 2)[0]


def lightning_loop(clock: Clock, steps: int) -> None:
    """Train with Lightning, whose own loop calls the steps."""
    import lightning  # noqa: PLC0415

    class Module(lightning.LightningModule):  # type: ignore[misc]  # lightning is not typed here
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.GELU()) for _ in range(12)))

        def training_step(self, batch: list[torch.Tensor], _index: int) -> torch.Tensor:
            loss = self.layers(batch[0]).square().mean()
            self.log("loss", loss, prog_bar=False)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), 1e-3)

    class Marks(lightning.Callback):  # type: ignore[misc]  # lightning is not typed here
        open: Any = None

        def on_train_batch_start(self, *_arguments: object) -> None:
            self.open = clock.step()
            self.open.__enter__()

        def on_train_batch_end(self, *_arguments: object) -> None:
            if DEVICE == "cuda":
                torch.cuda.synchronize()
            self.open.__exit__(None, None, None)

    data = torch.utils.data.TensorDataset(torch.randn(1, 256).expand(64 * steps, 256))
    silent = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    where = "gpu" if DEVICE == "cuda" else "cpu"
    trainer = lightning.Trainer(max_steps=steps, callbacks=[Marks()], accelerator=where, devices=1, **silent)
    trainer.fit(Module(), torch.utils.data.DataLoader(data, batch_size=64))


PROGRAMS: dict[str, tuple[Callable[[], Step], int]] = {
    "small_encoder": (small_encoder, 60),
    "middle_encoder": (middle_encoder, 60),
    "large_encoder": (large_encoder, 40),
    "lstm_cells": (lstm_cells, 60),
    "items": (items, 60),
    "looped_optimizer": (looped_optimizer, 60),
    "matrix_products": (matrix_products, 60),
    "graph_launches": (graph_launches, 200),
    "vision_resnet": (vision_resnet, 60),
    "timm_mobile": (timm_mobile, 50),
    "hugging_bert": (hugging_bert, 60),
    "hugging_decoding": (hugging_decoding, DECODED),
    "loaded_pictures": (loaded_pictures, 100),
}
"""Each program and how many steps it takes."""

LIGHTNING_STEPS = 80
# More turns than a program gets.
MOST_TURNS = 100


def main() -> int:
    """Run the programs that the command line names; 1 where none of them worked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=[*PROGRAMS, "lightning_loop"])
    parser.add_argument("--times", type=Path)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--turns", type=Path, metavar="SOCKET")
    parser.add_argument("--parts", type=int, default=1, metavar="N")
    chosen = parser.parse_args()
    found = {}
    for name in chosen.names:
        try:
            found[name] = run(name, chosen.steps, chosen.turns, chosen.parts)
        except Exception:  # noqa: BLE001 - one library that fails does not stop the other programs
            traceback.print_exc()
    if chosen.times:
        chosen.times.write_text(json.dumps(found), encoding="utf-8")
    return 0 if found else 1


def run(name: str, steps: int, turns: Path | None, parts: int) -> list[int]:
    """Run one program, and return the length of its steps in ns.

    Args:
        name: The program.
        steps: How many steps it makes; 0 for its usual number.
        turns: The socket of its turns; None for all steps at once.
        parts: How many turns make this number of steps.
    """
    torch.manual_seed(0)
    make, usual = PROGRAMS.get(name, (None, LIGHTNING_STEPS))
    each_turn = max((steps or usual) // parts, 1)
    count = each_turn * (1 if turns is None else MOST_TURNS)
    step = make() if make is not None else None
    clock = Clock(None if turns is None else Turns(turns), each_turn)
    with suppress(EnoughError):
        if step is None:
            lightning_loop(clock, count)
            return clock.steps
        for _ in range(count):
            with clock.step():
                step()
    return clock.steps


if __name__ == "__main__":
    sys.exit(main())
