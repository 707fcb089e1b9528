"""A language model in the trainer of transformers, which checks each loss and runs Adafactor tensor by tensor.

Fixed, the filter of losses is off, and the optimizer is AdamW, fused.
"""

import torch
from faults import trainer_loop
from transformers import BertConfig, BertForMaskedLM

from combined import switches

SHAPE = "a masked language model in the library's loop; a wait before the optimizer, and an optimizer of many kernels"
LIBRARY = "transformers"
FAULTS = {"filter": "synchronization/in_step", "optimizer": "optimizer/many_kernels"}

VOCABULARY, WIDTH, LAYERS, ROWS, LENGTH, STEPS = 4096, 768, 12, 32, 512, 14


def main(arguments: list[str] | None = None) -> None:
    run, fixed = switches.started(__doc__, arguments, FAULTS, STEPS)
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
    changed = {
        "logging_nan_inf_filter": "filter" not in fixed,
        "optim": "adamw_torch_fused" if "optimizer" in fixed else "adafactor",
    }
    loss = trainer_loop.train(run, model, batches, **changed)
    print(f"mean loss {loss:.4f} with {', '.join(sorted(fixed)) or 'nothing'} fixed")


if __name__ == "__main__":
    main()
