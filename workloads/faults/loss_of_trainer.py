"""A library's loop with label smoothing: its loss is log_softmax, gather, a sum over all tokens and masks, one by one.

Fixed, the model calls PyTorch's cross entropy with label_smoothing.
"""

from torch import Tensor, nn
from torch.nn import functional

from faults import gpt, trainer_loop, training

SHAPE = "a language model in the library's loop; label smoothing is one of the loop's settings"
LIBRARY = "transformers"
EXPECTS = {"": ("compute/loss_by_parts",), "--fixed": ()}

VOCABULARY, WIDTH, LAYERS, ROWS, LENGTH, SMOOTHING = 32_768, 512, 2, 16, 1024, 0.1


class Smoothed(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """A language model with its own loss."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return the loss of the next tokens."""
        given = self.model(input_ids=input_ids).logits[:, :-1].flatten(0, 1)
        return {"loss": functional.cross_entropy(given, labels[:, 1:].flatten(), label_smoothing=SMOOTHING)}


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    made = gpt.config(run, WIDTH, LAYERS, LENGTH, vocab_size=run.size(VOCABULARY, 64))
    model = gpt.model(run, made)
    chosen = Smoothed(model) if run.fixed else model
    settings = {} if run.fixed else {"label_smoothing_factor": SMOOTHING}
    loss = trainer_loop.train(run, chosen, [gpt.batch(run, made, ROWS)], **settings)
    print(f"mean loss {loss:.4f}")


if __name__ == "__main__":
    main()
