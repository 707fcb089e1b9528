"""The trainer's Adafactor goes through the parameters one by one: two dozen tiny kernels for each of its tensors.

Fixed, the trainer takes AdamW, fused: a few kernels for all tensors.
"""

import torch
from transformers import T5Config, T5ForConditionalGeneration

from faults import trainer_loop, training

SHAPE = "an encoder and a decoder in the library's loop; the optimizer is one of the library's settings"
LIBRARY = "transformers"
EXPECTS = {"": ("optimizer/many_kernels",), "--fixed": ()}

VOCABULARY, WIDTH, LAYERS, ROWS, LENGTH, STEPS = 4096, 1024, 8, 32, 512, 14


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments, STEPS)
    width = run.size(WIDTH)
    config = T5Config(
        vocab_size=VOCABULARY,
        d_model=width,
        d_kv=min(width // 2, 64),
        d_ff=4 * width,
        num_heads=max(width // 64, 2),
        num_layers=run.size(LAYERS, 2),
        dropout_rate=0.0,
        decoder_start_token_id=0,
        use_cache=False,
    )
    model = T5ForConditionalGeneration(config).to(torch.bfloat16)
    tokens = next(trainer_loop.tokens(run, VOCABULARY, ROWS, LENGTH))
    batches = [{"input_ids": tokens, "labels": tokens}]
    loss = trainer_loop.train(run, model, batches, optim="adamw_torch_fused" if run.fixed else "adafactor")
    print(f"mean loss {loss:.4f}, {sum(1 for _ in model.parameters())} tensors")


if __name__ == "__main__":
    main()
