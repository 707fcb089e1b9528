"""A library's loop with gradient_checkpointing=True, although the GPU could keep all activations.

Fixed, it keeps them.
"""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from faults import trainer_loop, training

SHAPE = "a language model in the library's loop; checkpointing is one of the loop's settings"
LIBRARY = "transformers"
EXPECTS = {"": ("compute/recomputation",), "--fixed": ()}

VOCABULARY, WIDTH, LAYERS, ROWS, LENGTH = 8192, 2048, 6, 8, 1024


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    width = run.size(WIDTH)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=run.size(LAYERS, 2),
        num_attention_heads=max(width // 128, 2),
        use_cache=False,
    )
    model = LlamaForCausalLM(config).to(run.device, torch.bfloat16)
    tokens = next(trainer_loop.tokens(run, VOCABULARY, ROWS, LENGTH))
    batches = [{"input_ids": tokens, "labels": tokens}]
    loss = trainer_loop.train(run, model, batches, gradient_checkpointing=not run.fixed)
    print(f"mean loss {loss:.4f}")


if __name__ == "__main__":
    main()
