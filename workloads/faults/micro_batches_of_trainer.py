"""A library's loop that collects gradients over 16 micro-batches of one short text: each reads all weights again.

Fixed, a step has one batch of all texts, with the same gradients.
"""

from faults import gpt, trainer_loop, training

SHAPE = "a language model in the library's loop, which collects gradients over micro-batches of one text"
LIBRARY = "transformers"
EXPECTS = {"": ("compute/small_batches",), "--fixed": ()}

WIDTH, LAYERS, ROWS, LENGTH, STEPS = 2048, 4, 16, 128, 30


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments, STEPS)
    made = gpt.config(run, WIDTH, LAYERS, LENGTH)
    parts = 1 if run.fixed else run.size(ROWS, 2)
    texts = gpt.batch(run, made, ROWS)
    batches = [{name: each[at::parts] for name, each in texts.items()} for at in range(parts)]
    loss = trainer_loop.train(run, gpt.model(run, made), batches, gradient_accumulation_steps=parts)
    print(f"mean loss {loss:.4f}")


if __name__ == "__main__":
    main()
