"""Faults that no rule was written with, one program each: rules are judged by programs that they have not seen.

::

    python -m faults.held_out NAME [--fixed]

Models of libraries are made from their settings, without a download.
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import common
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from faults import compiling, training
from faults.training import Run

# By the name of the program: the rule of its fault, its shape, and the library whose model or loop it runs.
HELD_OUT = {
    "vocabulary_of_roberta": (
        "compute/misaligned",
        "a masked language model with its usual vocabulary",
        "transformers",
    ),
    "attention_of_whisper": ("compute/attention_by_parts", "an encoder of speech; fusing is a setting", "transformers"),
    "frequencies_in_double": ("compute/double", "a field of colours over positions, with frequencies of NumPy", ""),
    "mixer_without_tf32": ("tensor_cores/not_used", "an image model of linear layers in float32", "timm"),
    "norms_of_qwen": ("compute/norm_by_parts", "a language model with norms of queries and keys, too", "transformers"),
    "group_norms_by_hand": ("compute/norm_by_parts", "convolutions with norms of groups of channels", ""),
    "loss_of_timm": ("compute/loss_by_parts", "many classes with label smoothing, by the library's loss", "timm"),
    "one_hot_loss": ("compute/loss_by_parts", "classes as rows of zeros and a one", ""),
    "activation_of_timm": ("compute/activation_by_parts", "an image model with the library's own Mish", "timm"),
    "checkpoints_of_timm": ("compute/recomputation", "an image model whose checkpoints are a switch", "timm"),
    "casts_of_trainer": (
        "compute/repeated_casts",
        "mixed precision in the library's loop over micro-batches",
        "transformers",
    ),
    "segmentation_channels_first": ("tensor_cores/layout", "classes of pixels by a residual network", "torchvision"),
    "points_by_index": ("compute/sorted_gradient", "clouds of points, each with its neighbours", ""),
    "one_picture_each": ("compute/small_batches", "an image model with micro-batches of one picture", "timm"),
    "text_by_text": ("compute/small_batches", "a loop over the texts of a batch", "transformers"),
    "tuned_for_pictures": ("compute/autotuning", "pictures of a new size in each step", "torchvision"),
    "colours_by_parts": ("compute/unfused", "changes of colours on the GPU, by the library's functions", "torchvision"),
}
HALF = torch.bfloat16


def train(run: Run, model: nn.Module, loss_of: Callable[[], Tensor]) -> float:
    """Do all steps, and return the last loss."""
    return train_parts(run, model, [loss_of])


def train_parts(run: Run, model: nn.Module, losses: list[Callable[[], Tensor]]) -> float:
    """Do all steps, each with several losses, and return the last one."""
    optimizer, loss = training.sgd(model, run), torch.zeros(())
    for _ in training.steps(run):
        for loss_of in losses:
            with common.phase("forward"):
                loss = loss_of()
            with common.phase("backward"):
                loss.backward()
        with common.phase("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
    return float(loss.detach())


def tokens(run: Run, vocabulary: int, rows: int, length: int) -> Tensor:
    """Return random tokens int64 [rows, length], none of them special."""
    return torch.randint(4, vocabulary, (run.size(rows, 4), run.size(length, 16)), device=run.device)


def pictures(run: Run, count: int, side: int, dtype: torch.dtype = HALF, on_cpu: int = training.SMALL) -> Tensor:
    """Return random pictures [count, 3, side, side], or with another side where there is no GPU."""
    shape = run.size(count, 2), 3, run.size(side, on_cpu), run.size(side, on_cpu)
    return torch.rand(shape, device=run.device, dtype=dtype)


def vision_transformer(run: Run, width: int, layers: int, side: int, **changed: object) -> nn.Module:
    """Return timm's vision transformer in bfloat16."""
    from timm.models.vision_transformer import VisionTransformer  # noqa: PLC0415

    sizes = {"embed_dim": run.size(width), "depth": run.size(layers, 2), "num_heads": max(run.size(width) // 64, 2)}
    usual = {"img_size": run.size(side), "num_classes": training.OUTPUTS, "class_token": False, "global_pool": "avg"}
    return VisionTransformer(**(usual | sizes | changed)).to(run.device, HALF)


def squares(given: Tensor) -> Tensor:
    """Return the mean square of an output."""
    return functional.mse_loss(given, torch.zeros_like(given))


def vocabulary_of_roberta(run: Run) -> float:
    """Train RoBERTa with 50,265 tokens; fixed, with 50,304."""
    from transformers import RobertaConfig, RobertaForMaskedLM  # noqa: PLC0415

    vocabulary = run.size(50265, 65)
    settings = RobertaConfig(
        vocab_size=-(-vocabulary // 64) * 64 if run.fixed else vocabulary,
        hidden_size=run.size(768),
        num_hidden_layers=run.size(4, 2),
        num_attention_heads=run.size(12, 2),
        intermediate_size=run.size(3072),
        max_position_embeddings=514,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model, texts = RobertaForMaskedLM(settings).to(run.device, HALF), tokens(run, vocabulary, 16, 512)
    return train(run, model, lambda: model(input_ids=texts, labels=texts).loss)


def attention_of_whisper(run: Run) -> float:
    """Train the encoder of Whisper with eager attention; fixed, with the fused one."""
    from transformers import WhisperConfig  # noqa: PLC0415
    from transformers.models.whisper.modeling_whisper import WhisperEncoder  # noqa: PLC0415

    length = run.size(1500, 16)
    settings = WhisperConfig(
        d_model=run.size(1024),
        encoder_layers=run.size(4, 2),
        encoder_attention_heads=run.size(16, 2),
        encoder_ffn_dim=run.size(4096),
        max_source_positions=length,
        attn_implementation="sdpa" if run.fixed else "eager",
    )
    model = WhisperEncoder(settings).to(run.device, HALF)
    sounds = torch.rand(run.size(8, 2), settings.num_mel_bins, 2 * length, device=run.device, dtype=HALF)
    return train(run, model, lambda: squares(model(sounds).last_hidden_state))


def frequencies_in_double(run: Run) -> float:
    """Train a field on sines of positions in FP64; fixed, in FP32."""
    octaves = 2.0 ** np.arange(10) * np.pi
    frequencies = torch.as_tensor(octaves, dtype=torch.float32 if run.fixed else None, device=run.device)
    positions = training.rows(run, run.size(1 << 21), 3)
    width = run.size(128)
    field = nn.Sequential(nn.Linear(60, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))
    field = field.to(run.device, HALF)

    def loss_of() -> Tensor:
        angles = positions[:, :, None] * frequencies
        waves = torch.cat([angles.sin(), angles.cos()], -1).flatten(1)
        return squares(field(waves.to(HALF)))

    return train(run, field, loss_of)


def mixer_without_tf32(run: Run) -> float:
    """Train timm's MLP-Mixer in float32 without TF32; fixed, with it."""
    from timm.models.mlp_mixer import MlpMixer  # noqa: PLC0415

    torch.set_float32_matmul_precision("high" if run.fixed else "highest")
    sizes = {"num_classes": training.OUTPUTS, "img_size": run.size(224), "embed_dim": run.size(768)}
    model = MlpMixer(num_blocks=run.size(6, 2), **sizes).to(run.device)
    images = pictures(run, 48, 224, torch.float32)
    return train(run, model, lambda: squares(model(images)))


def norms_of_qwen(run: Run) -> float:
    """Train Qwen 3 with the norms of the library; fixed, with those of PyTorch."""
    from transformers import Qwen3Config, Qwen3ForCausalLM  # noqa: PLC0415

    from faults.language_models import fuse_norms  # noqa: PLC0415

    width, head = run.size(1024), run.size(128, 16)
    settings = Qwen3Config(
        vocab_size=2048,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=run.size(6, 2),
        num_attention_heads=width // head,
        num_key_value_heads=width // head,
        head_dim=head,
        use_cache=False,
    )
    model, texts = Qwen3ForCausalLM(settings).to(run.device, HALF), tokens(run, 2048, 12, 1024)
    if run.fixed:
        fuse_norms(model)
    return train(run, model, lambda: model(input_ids=texts, labels=texts).loss)


class GroupNorm(nn.GroupNorm):  # type: ignore[misc]  # torch is not typed here
    """A norm of groups of channels, one operation after the other."""

    def forward(self, images: Tensor) -> Tensor:
        """Return the images, each group with mean 0 and variance 1, scaled and shifted."""
        grouped = images.view(len(images), self.num_groups, -1)
        centred = grouped - grouped.mean(-1, keepdim=True)
        normed = centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + self.eps)
        return normed.view_as(images) * self.weight[:, None, None] + self.bias[:, None, None]


def group_norms_by_hand(run: Run) -> float:
    """Train convolutions with group norms by parts; fixed, with those of PyTorch."""
    norm, channels = nn.GroupNorm if run.fixed else GroupNorm, run.size(128)
    layers: list[nn.Module] = [nn.Conv2d(3, channels, 3, padding=1)]
    for _ in range(run.size(4, 2)):
        layers += [norm(8, channels), nn.SiLU(), nn.Conv2d(channels, channels, 3, padding=1)]
    model, images = nn.Sequential(*layers).to(run.device, HALF), pictures(run, 32, 96)
    return train(run, model, lambda: squares(model(images)))


def classified(run: Run, rows: int, width: int, classes: int, loss: Callable[[Tensor, Tensor], Tensor]) -> float:
    """Train a linear layer that sorts rows into classes."""
    inputs = training.rows(run, run.size(rows), run.size(width)).to(HALF)
    model = nn.Linear(run.size(width), run.size(classes), device=run.device, dtype=HALF)
    labels = torch.randint(run.size(classes), (len(inputs),), device=run.device)
    return train(run, model, lambda: loss(model(inputs), labels))


def loss_of_timm(run: Run) -> float:
    """Train with the library's label smoothing; fixed, with that of PyTorch's cross entropy."""
    from timm.loss import LabelSmoothingCrossEntropy  # noqa: PLC0415

    smoothed = partial(functional.cross_entropy, label_smoothing=0.1)
    return classified(run, 8192, 512, 65536, smoothed if run.fixed else LabelSmoothingCrossEntropy(0.1))


def one_hot_loss(run: Run) -> float:
    """Train with the logarithms of a softmax, times zeros and ones; fixed, with cross entropy."""

    def by_parts(scores: Tensor, labels: Tensor) -> Tensor:
        wanted = functional.one_hot(labels, scores.shape[1]).to(scores.dtype)
        return -(wanted * scores.softmax(-1).log()).sum(-1).mean()

    return classified(run, 16384, 1024, 16384, functional.cross_entropy if run.fixed else by_parts)


def activation_of_timm(run: Run) -> float:
    """Train timm's vision transformer with its own Mish; fixed, with that of PyTorch."""
    from timm.layers.activations import Mish  # noqa: PLC0415

    model = vision_transformer(run, 768, 6, 224, act_layer=nn.Mish if run.fixed else Mish)
    images = pictures(run, 96, 224)
    return train(run, model, lambda: squares(model(images)))


def checkpoints_of_timm(run: Run) -> float:
    """Train timm's vision transformer with checkpoints; fixed, without."""
    model, images = vision_transformer(run, 1024, 8, 224), pictures(run, 64, 224)
    model.set_grad_checkpointing(enable=not run.fixed)
    return train(run, model, lambda: squares(model(images)))


def casts_of_trainer(run: Run) -> float:
    """Train GPT-2 in mixed precision over four micro-batches; fixed, one autocast keeps what it cast for a step."""
    from torch.optim.optimizer import register_optimizer_step_post_hook  # noqa: PLC0415
    from transformers import GPT2LMHeadModel  # noqa: PLC0415

    from faults import language_models, trainer_loop  # noqa: PLC0415

    settings = language_models.config(run, 4096, 3, 512)
    model = GPT2LMHeadModel(settings).to(run.device)
    forgetting = register_optimizer_step_post_hook(lambda *_: torch.clear_autocast_cache())
    batches = [language_models.batch(run, settings.vocab_size, 1, 512) for _ in range(4)]
    chosen = {"bf16": True, "gradient_accumulation_steps": len(batches), "optim": "sgd"}
    try:
        with torch.autocast(run.device.type, HALF) if run.fixed else nullcontext():
            return trainer_loop.train(run, model, batches, **chosen)
    finally:
        forgetting.remove()


def segmentation_channels_first(run: Run) -> float:
    """Train a network on images with channels first; fixed, with channels last."""
    from torchvision.models.segmentation import fcn_resnet50  # noqa: PLC0415

    form = torch.channels_last if run.fixed else torch.contiguous_format
    made = fcn_resnet50(weights=None, weights_backbone=None, num_classes=training.OUTPUTS)
    model = made.to(run.device, HALF, memory_format=form)
    images = pictures(run, 16, 256).contiguous(memory_format=form)
    return train(run, model, lambda: squares(model(images)["out"]))


def points_by_index(run: Run) -> float:
    """Train features of points on those of their neighbours by an index; fixed, by index_select."""
    count, near, width = run.size(65536), run.size(16, 4), run.size(64)
    neighbours = torch.randint(count, (count, near), device=run.device)
    features = nn.Embedding(count, width, device=run.device)
    edges = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)).to(run.device)

    def loss_of() -> Tensor:
        points = features.weight
        if run.fixed:
            found = points.index_select(0, neighbours.flatten()).view(count, near, width)
        else:
            found = points[neighbours]
        return squares(edges(found - points[:, None]).mean(1))

    return train(run, nn.ModuleList([features, edges]), loss_of)


def one_picture_each(run: Run) -> float:
    """Train timm's vision transformer on 16 pictures one by one; fixed, on all at once."""
    model, images = vision_transformer(run, 1024, 6, 224), pictures(run, 16, 224)
    parts = [images] if run.fixed else list(images.split(1))

    def loss_of(part: Tensor) -> Tensor:
        return squares(model(part)) / len(parts)

    return train_parts(run, model, [partial(loss_of, part) for part in parts])


def text_by_text(run: Run) -> float:
    """Train BERT on 24 texts in a loop; fixed, on all at once."""
    from transformers import BertConfig, BertModel  # noqa: PLC0415

    sizes = {"hidden_size": run.size(1024), "num_hidden_layers": run.size(4, 2), "intermediate_size": run.size(4096)}
    without = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)
    settings = BertConfig(vocab_size=8192, num_attention_heads=run.size(16, 2), **sizes, **without)
    model, texts = BertModel(settings, add_pooling_layer=False).to(run.device, HALF), tokens(run, 8192, 24, 128)

    def loss_of() -> Tensor:
        if run.fixed:
            return squares(model(input_ids=texts).last_hidden_state.mean(1))
        return squares(torch.cat([model(input_ids=text[None]).last_hidden_state.mean(1) for text in texts]))

    return train(run, model, loss_of)


def tuned_for_pictures(run: Run) -> float:
    """Train AlexNet on pictures of changing size with timed algorithms; fixed, with those that cuDNN proposes."""
    from torchvision.models import alexnet  # noqa: PLC0415

    torch.backends.cudnn.benchmark = not run.fixed
    model = alexnet(num_classes=training.OUTPUTS, dropout=0.0).to(run.device, HALF)
    sides = iter(range(0, 7 * 1000, 7))

    def loss_of() -> Tensor:
        return squares(model(pictures(run, 64, 128 + 4 * (next(sides) % 61), on_cpu=64)))

    try:
        return train(run, model, loss_of)
    finally:
        torch.backends.cudnn.benchmark = False


def colours_by_parts(run: Run) -> float:
    """Change the colours of pictures one after the other; fixed, torch.compile makes few kernels of it."""
    from torchvision.transforms.v2 import functional as changes  # noqa: PLC0415

    def changed(images: Tensor) -> Tensor:
        brighter = changes.adjust_brightness(images, 1.2)
        stronger = changes.adjust_saturation(changes.adjust_contrast(brighter, 0.8), 1.4)
        return changes.normalize(changes.adjust_gamma(stronger, 1.1), [0.5, 0.4, 0.4], [0.2, 0.2, 0.2]).to(HALF)

    images, found = pictures(run, 512, 224, torch.float32), torch.zeros(())
    with compiling.afresh(), torch.no_grad():
        chosen: Any = torch.compile(changed) if run.fixed and run.device.type == "cuda" else changed
        for _ in training.steps(run):
            with common.phase("forward"):
                found = chosen(images)
    return float(found.float().mean())


def main(arguments: list[str] | None = None) -> None:
    """Run the program that is named first, and print its loss."""
    training.run_named(__doc__, {name: globals()[name] for name in HELD_OUT}, arguments)


if __name__ == "__main__":
    main()
