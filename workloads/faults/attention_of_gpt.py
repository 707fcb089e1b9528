"""A language model of transformers with attn_implementation="eager": products, mask and softmax one by one.

Fixed, it has attn_implementation="sdpa", the library's default.
"""

from faults import gpt, trainer_loop, training

SHAPE = "a language model in the library's loop; how it computes attention is one of its settings"
LIBRARY = "transformers"
EXPECTS = {"": ("compute/attention_by_parts",), "--fixed": ()}

WIDTH, LAYERS, ROWS, LENGTH = 1024, 4, 4, 2048


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    made = gpt.config(run, WIDTH, LAYERS, LENGTH, attn_implementation="sdpa" if run.fixed else "eager")
    loss = trainer_loop.train(run, gpt.model(run, made), [gpt.batch(run, made, ROWS)])
    print(f"mean loss {loss:.4f}")


if __name__ == "__main__":
    main()
