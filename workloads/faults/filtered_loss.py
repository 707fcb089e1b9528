"""The trainer checks whether each loss is a number, so the host waits for both passes before it launches more.

logging_nan_inf_filter=True is the library's default. Fixed, the filter is off.
"""

import torch
from transformers import BertConfig, BertForMaskedLM

from faults import trainer_loop, training

SHAPE = "a masked language model in the library's loop; one wait a step, between backward pass and optimizer"
LIBRARY = "transformers"
EXPECTS = {"": ("synchronization/in_step",), "--fixed": ()}

VOCABULARY, WIDTH, LAYERS, ROWS, LENGTH, STEPS = 4096, 768, 12, 32, 512, 20


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments, STEPS)
    width = run.size(WIDTH)
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=run.size(LAYERS, 2),
        num_attention_heads=max(width // 64, 2),
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = BertForMaskedLM(config).to(torch.bfloat16)
    tokens = next(trainer_loop.tokens(run, VOCABULARY, ROWS, LENGTH))
    batches = [{"input_ids": tokens, "labels": tokens}]
    loss = trainer_loop.train(run, model, batches, logging_nan_inf_filter=not run.fixed)
    print(f"mean loss {loss:.4f}")


if __name__ == "__main__":
    main()
