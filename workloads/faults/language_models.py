"""Language models of transformers in the library's loop, each with a setting that costs time; without it, no fault.

::

    python -m faults.language_models NAME [--fixed]
"""

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from faults import trainer_loop, training
from faults.trainer_loop import Batch
from faults.training import Run

# By the name of the program: the rule of its fault, its shape, and the library.
PROGRAMS = {
    "activation_of_gpt": ("compute/activation_by_parts", "GPT-2 whose activation is a setting", "transformers"),
    "attention_of_gpt": ("compute/attention_by_parts", "GPT-2 with eager attention, a setting", "transformers"),
    "checkpoints_of_llama": (
        "compute/recomputation",
        "Llama with checkpointing, a setting of the loop",
        "transformers",
    ),
    "loss_of_trainer": ("compute/loss_by_parts", "GPT-2 with label smoothing, a setting of the loop", "transformers"),
    "micro_batches_of_trainer": ("compute/small_batches", "GPT-2 with micro-batches of one short text", "transformers"),
    "norms_of_llama": ("compute/norm_by_parts", "Llama with the norms of the library", "transformers"),
    "vocabulary_of_gpt": ("compute/misaligned", "GPT-2 with its usual vocabulary", "transformers"),
}
VOCABULARY, HEAD, PADDED, SMOOTHING = 8192, 64, 64, 0.1
# What the model is made of, by the library's names: sizes that suit the GPU, and fused functions.
USUAL = {
    "activation_function": "gelu_pytorch_tanh",
    "attn_implementation": "sdpa",
    "use_cache": False,
    **dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop"), 0.0),
    **dict.fromkeys(("bos_token_id", "eos_token_id"), 0),
}


def config(run: Run, width: int, layers: int, length: int, **changed: object) -> GPT2Config:
    """Return the settings of GPT-2.

    Args:
        run: Settings of the run.
        width: Features of a token.
        layers: Layers.
        length: Most tokens of a text.
        changed: Other settings than ``USUAL``, by their names in the library.
    """
    sizes = {"n_embd": run.size(width), "n_layer": run.size(layers, 2), "n_positions": run.size(length)}
    heads = {"n_head": max(run.size(width) // HEAD, 2)}
    return GPT2Config(**({"vocab_size": run.size(VOCABULARY, 64)} | USUAL | sizes | heads | changed))


def gpt(run: Run, made: GPT2Config) -> GPT2LMHeadModel:
    """Return GPT-2 in bfloat16, on the device."""
    return GPT2LMHeadModel(made).to(run.device, torch.bfloat16)


def batch(run: Run, vocabulary: int, rows: int, length: int) -> Batch:
    """Return random texts that a model learns to repeat."""
    texts = next(trainer_loop.tokens(run, vocabulary, rows, length))
    return {"input_ids": texts, "labels": texts}


def trained(run: Run, made: GPT2Config, rows: int) -> float:
    """Train GPT-2 on texts of its greatest length; return the mean loss."""
    return trainer_loop.train(run, gpt(run, made), [batch(run, made.vocab_size, rows, made.n_positions)])


def activation_of_gpt(run: Run) -> float:
    """Train with the activation that GPT-2 has by default: GELU in eight operators. Fixed, it is one operator."""
    activation = "gelu_pytorch_tanh" if run.fixed else "gelu_new"
    return trained(run, config(run, 1024, 4, 1024, activation_function=activation), 16)


def attention_of_gpt(run: Run) -> float:
    """Train with products, mask and softmax one by one; fixed, with the library's default."""
    return trained(run, config(run, 1024, 4, 2048, attn_implementation="sdpa" if run.fixed else "eager"), 4)


def vocabulary_of_gpt(run: Run) -> float:
    """Train with 50,257 tokens; fixed, with 50,304, a multiple of 64."""
    known = run.size(50_257, 257)
    size = -(-known // PADDED) * PADDED if run.fixed else known
    return trained(run, config(run, 1024, 4, 1024, vocab_size=size), 8)


def micro_batches_of_trainer(run: Run) -> float:
    """Collect gradients over 16 texts, one by one: each reads all weights again. Fixed, a step has one batch."""
    made, parts = config(run, 2048, 4, 128), 1 if run.fixed else run.size(16, 2)
    texts = batch(run, made.vocab_size, 16, made.n_positions)
    batches = [{name: each[at::parts] for name, each in texts.items()} for at in range(parts)]
    return trainer_loop.train(run, gpt(run, made), batches, gradient_accumulation_steps=parts)


class Smoothed(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """A language model with its own loss."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return the loss of the next tokens."""
        given = self.model(input_ids=input_ids).logits[:, :-1].flatten(0, 1)
        return {"loss": functional.cross_entropy(given, labels[:, 1:].flatten(), label_smoothing=SMOOTHING)}


def loss_of_trainer(run: Run) -> float:
    """Train with the library's label smoothing, by parts; fixed, with that of PyTorch's cross entropy."""
    made = config(run, 512, 2, 1024, vocab_size=run.size(32_768, 64))
    model, texts = gpt(run, made), batch(run, made.vocab_size, 16, made.n_positions)
    settings = {} if run.fixed else {"label_smoothing_factor": SMOOTHING}
    return trainer_loop.train(run, Smoothed(model) if run.fixed else model, [texts], **settings)


def llama(run: Run, vocabulary: int, width: int, wider: int) -> LlamaForCausalLM:
    """Return Llama with six layers, in bfloat16 on the device.

    Args:
        run: Settings of the run.
        vocabulary: Its tokens.
        width: Features of a token on a GPU.
        wider: How many times as many a token has between two linear layers.
    """
    features = run.size(width)
    made = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=features,
        intermediate_size=wider * features,
        num_hidden_layers=run.size(6, 2),
        num_attention_heads=max(features // 128, 2),
        use_cache=False,
    )
    return LlamaForCausalLM(made).to(run.device, torch.bfloat16)


def checkpoints_of_llama(run: Run) -> float:
    """Train with checkpoints, although the GPU could keep all activations; fixed, it keeps them."""
    model, texts = llama(run, 8192, 2048, 4), batch(run, 8192, 8, 1024)
    return trainer_loop.train(run, model, [texts], gradient_checkpointing=not run.fixed)


def fuse_norms(model: nn.Module) -> None:
    """Put PyTorch's norm in the place of each norm of the library."""
    for module in list(model.modules()):
        for name, inner in list(module.named_children()):
            if type(inner).__name__.endswith("RMSNorm"):
                fused = nn.RMSNorm(len(inner.weight), inner.variance_epsilon)
                fused.weight = inner.weight
                setattr(module, name, fused)


def norms_of_llama(run: Run) -> float:
    """Train with norms of six operators each, in float32, as the library writes them; fixed, with those of PyTorch."""
    model, texts = llama(run, 2048, 1024, 1), batch(run, 2048, 16, 1024)
    if run.fixed:
        fuse_norms(model)
    return trainer_loop.train(run, model, [texts])


def main(arguments: list[str] | None = None) -> None:
    """Run the program that is named first, and print its loss."""
    training.run_named(__doc__, {name: globals()[name] for name in PROGRAMS}, arguments)


if __name__ == "__main__":
    main()
