"""The trainer writes a checkpoint every eighth step: the host writes files while the GPU has nothing to do.

save_strategy="steps". Fixed, it saves nothing before the end of the training.
"""

import torch
from transformers import ViTConfig, ViTForImageClassification

from faults import trainer_loop, training

SHAPE = "a vision transformer in the library's loop; every eighth step writes weights and optimizer to disk"
LIBRARY = "transformers"
EXPECTS = {"": ("steps/uneven",), "--fixed": ()}

WIDTH, LAYERS, IMAGES, SIDE, PATCH, EVERY, STEPS = 768, 6, 128, 224, 16, 8, 32


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments, STEPS)
    width, side = run.size(WIDTH), run.size(SIDE, PATCH * 2)
    config = ViTConfig(
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=run.size(LAYERS, 2),
        num_attention_heads=max(width // 64, 2),
        image_size=side,
        patch_size=PATCH,
        num_labels=training.OUTPUTS,
    )
    model = ViTForImageClassification(config).to(torch.bfloat16)
    images = torch.rand(run.size(IMAGES, 2), 3, side, side, device=run.device, dtype=torch.bfloat16)
    batches = [{"pixel_values": images, "labels": torch.zeros(len(images), dtype=torch.int64, device=run.device)}]
    saving = {} if run.fixed else {"save_strategy": "steps", "save_steps": EVERY, "save_total_limit": 1}
    loss = trainer_loop.train(run, model, batches, **saving)
    print(f"mean loss {loss:.4f}")


if __name__ == "__main__":
    main()
