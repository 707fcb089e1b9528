"""The trainer is set to empty the allocator's cache in each step, between the forward and the backward pass.

torch_empty_cache_steps=1: the backward pass asks the driver for memory again. Fixed, the setting is left out.
"""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from faults import trainer_loop, training

SHAPE = "a language model in the library's loop; a setting empties the cache between the passes"
LIBRARY = "transformers"
EXPECTS = {"": ("memory/churn",), "--fixed": ()}

VOCABULARY, WIDTH, LAYERS, ROWS, LENGTH, STEPS = 8192, 1024, 8, 8, 1024, 20


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments, STEPS)
    width = run.size(WIDTH)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=run.size(LAYERS, 2),
        num_attention_heads=max(width // 64, 2),
        use_cache=False,
    )
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    tokens = next(trainer_loop.tokens(run, VOCABULARY, ROWS, LENGTH))
    batches = [{"input_ids": tokens, "labels": tokens}]
    loss = trainer_loop.train(run, model, batches, torch_empty_cache_steps=None if run.fixed else 1)
    print(f"mean loss {loss:.4f}")


if __name__ == "__main__":
    main()
