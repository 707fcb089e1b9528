"""A language model of transformers whose norms are six operators each, in float32, as the library writes them.

Fixed, they are torch.nn.RMSNorm: the same function in one kernel.
"""

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from faults import trainer_loop, training

SHAPE = "a language model in the library's loop, with the norms of the library"
LIBRARY = "transformers"
EXPECTS = {"": ("compute/norm_by_parts",), "--fixed": ()}

VOCABULARY, WIDTH, LAYERS, ROWS, LENGTH = 2048, 1024, 6, 16, 1024


def fuse_norms(model: nn.Module) -> None:
    """Put PyTorch's norm in the place of each norm of the library."""
    for module in list(model.modules()):
        for name, inner in list(module.named_children()):
            if type(inner).__name__.endswith("RMSNorm"):
                fused = nn.RMSNorm(len(inner.weight), inner.variance_epsilon)
                fused.weight = inner.weight
                setattr(module, name, fused)


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    width = run.size(WIDTH)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=width,
        num_hidden_layers=run.size(LAYERS, 2),
        num_attention_heads=max(width // 128, 2),
        use_cache=False,
    )
    model = LlamaForCausalLM(config).to(run.device, torch.bfloat16)
    if run.fixed:
        fuse_norms(model)
    tokens = next(trainer_loop.tokens(run, VOCABULARY, ROWS, LENGTH))
    loss = trainer_loop.train(run, model, [{"input_ids": tokens, "labels": tokens}])
    print(f"mean loss {loss:.4f}")


if __name__ == "__main__":
    main()
