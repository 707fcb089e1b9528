"""Training and inference loops of different kinds, without a planted fault; some of them are those of libraries.

They are compared with themselves under the profiler, as the programs of workloads are. No program depends on nsyswrap,
and no constant of nsyswrap is derived from these programs.
"""

import argparse
import importlib
from collections.abc import Callable
from typing import Any

import common
import torch
from faults import training as faults_training
from torch import nn
from torch.nn import functional

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# Tokens of a text: a step takes longer the longer its text is, and GPT-2 has no more than 1,024 positions.
DECODED = 100
Step = Callable[[], object]


def training(model: nn.Module, loss_of: Callable[[], torch.Tensor], optimizer: torch.optim.Optimizer) -> Step:
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
        picture = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(index))
        return functional.avg_pool2d(picture, 5, 1, 2)[0]


def healthy(model: nn.Module, loss_of: Callable[[], torch.Tensor]) -> Step:
    """Return a step without a fault: a fused optimizer, and a host that is at most one step ahead of the GPU."""
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=DEVICE == "cuda")
    pace = faults_training.Pace(torch.device(DEVICE))

    def step() -> None:
        loss_of().backward()
        optimizer.step()
        optimizer.zero_grad()
        pace.wait()

    return step


def healthy_text(name: str, *, compiled: bool, **config: Any) -> Step:  # noqa: ANN401 - as the library takes it
    """Return a step of a language model of transformers in bfloat16, with sizes that suit the GPU."""
    import transformers  # noqa: PLC0415

    settings = getattr(transformers, f"{name}Config")(vocab_size=16384, **config)
    kind = "ForMaskedLM" if "bert" in name.lower() else "LMHeadModel" if name == "GPT2" else "ForCausalLM"
    model = getattr(transformers, name + kind)(settings).to(DEVICE, torch.bfloat16)
    called = torch.compile(model) if compiled else model
    tokens = torch.randint(0, 16384, (16, 512), device=DEVICE)
    return healthy(model, lambda: called(input_ids=tokens, labels=tokens).loss)


def healthy_pictures(library: str, name: str, *, compiled: bool) -> Step:
    """Return a step of a network that sorts pictures into classes, in bfloat16 and channels last."""
    made = importlib.import_module(library)
    model = made.create_model(name) if library == "timm" else getattr(made, name)()
    model = model.to(DEVICE, torch.bfloat16, memory_format=torch.channels_last)
    called = torch.compile(model) if compiled else model
    pictures = torch.randn(128, 3, 224, 224, device=DEVICE).to(torch.bfloat16, memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (128,), device=DEVICE)
    return healthy(model, lambda: functional.cross_entropy(called(pictures), labels))


def healthy_lightning(steps: int) -> None:
    """Transformer layers in Lightning's loop, eager."""
    from faults import lightning_loop as loop  # noqa: PLC0415
    from faults import models  # noqa: PLC0415

    run = faults_training.Run(steps, torch.device(DEVICE), fixed=True)
    texts = torch.randn(run.size(16, 2), run.size(512), run.size(1024), device=DEVICE, dtype=torch.bfloat16)
    network = models.encoder(run, 1024, 8)
    loop.fit(run, loop.Module(run, network), loop.repeated(run, [texts, torch.zeros_like(texts)]))


def lightning_loop(steps: int) -> None:
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

        def on_train_batch_start(self, _trainer: object, _module: object, _batch: object, batch_idx: int) -> None:
            self.open = common.batch(batch_idx)
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


DENSE = {"hidden_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 16}
WIDE = DENSE | {"intermediate_size": 4096}
BERT = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)
GPT = dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop"), 0.0) | {"n_embd": 1024, "n_layer": 8, "n_head": 16}
QWEN = {"hidden_size": 1536, "num_hidden_layers": 6, "num_attention_heads": 12, "num_key_value_heads": 4}
PROGRAMS: dict[str, Callable[[], Step]] = {
    # Far more launches than work, as much of both, and work all the time.
    "small_encoder": lambda: encoder_of(12, 128, 8, 64),
    "middle_encoder": lambda: encoder_of(6, 768, 16, 128),
    "large_encoder": lambda: encoder_of(4, 1024, 48, 256),
    **{each.__name__: each for each in (lstm_cells, items, looped_optimizer, matrix_products, graph_launches)},
    **{each.__name__: each for each in (vision_resnet, timm_mobile, hugging_bert, hugging_decoding, loaded_pictures)},
    "healthy_bert": lambda: healthy_text("Bert", compiled=False, **BERT, **WIDE),
    "healthy_gpt": lambda: healthy_text(
        "GPT2", compiled=False, use_cache=False, activation_function="gelu_pytorch_tanh", **GPT
    ),
    "healthy_llama": lambda: healthy_text("Llama", compiled=True, use_cache=False, **WIDE),
    "healthy_vit": lambda: healthy_pictures("timm", "vit_base_patch16_224", compiled=False),
    "healthy_resnet": lambda: healthy_pictures("torchvision.models", "resnet50", compiled=True),
    "healthy_opt": lambda: healthy_text(
        "OPT", compiled=False, use_cache=False, dropout=0.0, ffn_dim=4096, word_embed_proj_dim=1024, **DENSE
    ),
    "healthy_roberta": lambda: healthy_text(
        "Roberta", compiled=True, max_position_embeddings=514, **BERT, **(WIDE | {"num_hidden_layers": 6})
    ),
    "healthy_qwen": lambda: healthy_text("Qwen2", compiled=True, use_cache=False, intermediate_size=6144, **QWEN),
    "healthy_convnext": lambda: healthy_pictures("timm", "convnext_tiny", compiled=True),
    "healthy_patches": lambda: healthy_pictures("torchvision.models", "vit_b_16", compiled=False),
}
LOOPS: dict[str, Callable[[int], None]] = {each.__name__: each for each in (lightning_loop, healthy_lightning)}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=[*PROGRAMS, *LOOPS])
    parser.add_argument("--steps", type=int, default=60)
    chosen = parser.parse_args(arguments)
    torch.manual_seed(0)
    if chosen.name in LOOPS:
        LOOPS[chosen.name](chosen.steps)
        return
    step = PROGRAMS[chosen.name]()
    for number in range(chosen.steps):
        with common.batch(number):
            step()


if __name__ == "__main__":
    main()
