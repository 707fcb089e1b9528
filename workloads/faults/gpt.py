"""A language model of transformers that the library's loop trains in bfloat16, with no fault in it."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from faults import trainer_loop
from faults.trainer_loop import Batch
from faults.training import Run

VOCABULARY, HEAD = 8192, 64
# What the model is made of, by the library's names: sizes that suit the GPU, and fused functions.
USUAL = {
    "activation_function": "gelu_pytorch_tanh",
    "attn_implementation": "sdpa",
    "use_cache": False,
    **dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop"), 0.0),
    **dict.fromkeys(("bos_token_id", "eos_token_id"), 0),
}


def config(run: Run, width: int, layers: int, length: int, **changed: object) -> GPT2Config:
    """Return the settings of a model.

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


def model(run: Run, made: GPT2Config) -> GPT2LMHeadModel:
    """Return the model in bfloat16, on the device."""
    return GPT2LMHeadModel(made).to(run.device, torch.bfloat16)


def batch(run: Run, made: GPT2Config, rows: int) -> Batch:
    """Return random texts that the model learns to repeat."""
    texts = next(trainer_loop.tokens(run, made.vocab_size, rows, made.n_positions))
    return {"input_ids": texts, "labels": texts}
