"""A language model of transformers with the activation that GPT-2 has by default: GELU in eight operators.

Fixed, its activation is "gelu_pytorch_tanh": the same function in one operator.
"""

from faults import gpt, trainer_loop, training

SHAPE = "a language model in the library's loop; its activation is one of its settings"
LIBRARY = "transformers"
EXPECTS = {"": ("compute/activation_by_parts",), "--fixed": ()}

WIDTH, LAYERS, ROWS, LENGTH = 1024, 4, 16, 1024


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    activation = "gelu_pytorch_tanh" if run.fixed else "gelu_new"
    made = gpt.config(run, WIDTH, LAYERS, LENGTH, activation_function=activation)
    loss = trainer_loop.train(run, gpt.model(run, made), [gpt.batch(run, made, ROWS)])
    print(f"mean loss {loss:.4f}")


if __name__ == "__main__":
    main()
