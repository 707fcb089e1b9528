"""A vision transformer learns a hundred attributes, and the loss goes through them one by one, in the trainer's loop.

The host is ahead of the GPU, so the time is lost between the tiny kernels. Fixed, one loss takes all attributes.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import ViTConfig, ViTModel

from faults import trainer_loop, training
from faults.training import Run

SHAPE = "a vision transformer in the library's loop; tiny kernels in both passes, behind large ones"
LIBRARY = "transformers"
EXPECTS = {"": ("gpu/between_operations",), "--fixed": ()}

WIDTH, LAYERS, IMAGES, SIDE, PATCH, ATTRIBUTES, STEPS = 1024, 12, 192, 224, 16, 96, 10


class Attributes(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """A vision transformer with one score for each attribute."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        width = run.size(WIDTH)
        config = ViTConfig(
            hidden_size=width,
            intermediate_size=4 * width,
            num_hidden_layers=run.size(LAYERS, 2),
            num_attention_heads=max(width // 64, 2),
            image_size=run.size(SIDE, PATCH * 2),
            patch_size=PATCH,
        )
        self.backbone = ViTModel(config, add_pooling_layer=False)
        self.head = nn.Linear(width, run.size(ATTRIBUTES, 4))
        self.together = run.fixed

    def forward(self, pixel_values: Tensor, present: Tensor) -> dict[str, Tensor]:
        """Return the loss, a mean over attributes; ``present`` is float32 [images, attributes]."""
        scores = self.head(self.backbone(pixel_values).last_hidden_state[:, 0])
        if self.together:
            return {"loss": functional.binary_cross_entropy_with_logits(scores, present)}
        losses = [
            functional.binary_cross_entropy_with_logits(score, own)
            for score, own in zip(scores.unbind(1), present.unbind(1), strict=True)
        ]
        return {"loss": torch.stack(losses).mean()}


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments, STEPS)
    images, side = run.size(IMAGES, 2), run.size(SIDE, PATCH * 2)
    batch = {
        "pixel_values": torch.rand(images, 3, side, side, device=run.device, dtype=torch.bfloat16),
        "present": torch.zeros(images, run.size(ATTRIBUTES, 4), device=run.device, dtype=torch.bfloat16),
    }
    loss = trainer_loop.train(run, Attributes(run).to(torch.bfloat16), [batch])
    print(f"mean loss {loss:.4f}")


if __name__ == "__main__":
    main()
