"""A language model of transformers with the vocabulary that GPT-2 has, 50,257 tokens: an odd size.

Fixed, the vocabulary is padded to 50,304, a multiple of 64.
"""

from faults import gpt, trainer_loop, training

SHAPE = "a language model in the library's loop; its vocabulary is one of its settings"
LIBRARY = "transformers"
EXPECTS = {"": ("compute/misaligned",), "--fixed": ()}

VOCABULARY, MULTIPLE = 50_257, 64
WIDTH, LAYERS, ROWS, LENGTH = 1024, 4, 8, 1024


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    known = run.size(VOCABULARY, 257)
    size = -(-known // MULTIPLE) * MULTIPLE if run.fixed else known
    made = gpt.config(run, WIDTH, LAYERS, LENGTH, vocab_size=size)
    loss = trainer_loop.train(run, gpt.model(run, made), [gpt.batch(run, made, ROWS)])
    print(f"mean loss {loss:.4f}")


if __name__ == "__main__":
    main()
