"""The operations of a step of published models equal the formulas of their papers, by our count of their operators.

The operators of a decoder are those that PyTorch runs: products of its linear layers, and attention of queries and keys
in batches of heads.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from nsyswrap.events.xray_record import RecordedOperator, Tensor
from nsyswrap.operators.work import work_of

FORWARD, BACKWARD = 1, 2


@dataclass(frozen=True, slots=True)
class Model:
    """A decoder and its batch.

    Attributes:
        layers, hidden, heads: Its size.
        feed_forward: Width of the inner layer.
        inner: Products before it: a second one for a gate.
        key_heads: Heads of keys and values: fewer than those of queries are shared.
        sequences, length: Those of a batch.
    """

    layers: int
    hidden: int
    heads: int
    width: int
    feed_forward: int
    inner: int
    key_heads: int
    vocabulary: int
    sequences: int
    length: int

    @property
    def tokens(self) -> int:
        return self.sequences * self.length

    def linear_layers(self) -> list[tuple[int, int]]:
        """Return the sizes of the weights of a layer."""
        inner = [(self.hidden, self.feed_forward)] * self.inner + [(self.feed_forward, self.hidden)]
        of_attention = self.heads * self.width
        return [
            (self.hidden, of_attention + 2 * self.key_heads * self.width),
            (of_attention, self.hidden),
            *inner,
        ]  # fmt: skip

    @property
    def parameters(self) -> int:
        """Return how many weights it has; the table of tokens is that of the last layer."""
        return self.layers * sum(a * b for a, b in self.linear_layers()) + self.vocabulary * self.hidden


def product(name: str, *shapes: tuple[int, ...]) -> RecordedOperator:
    """Return a product of matrices in BF16."""
    return RecordedOperator(f"aten::{name}", inputs=tuple(Tensor(each, dtype="bfloat16") for each in shapes))


def linear(tokens: int, inputs: int, outputs: int) -> Iterator[tuple[int, RecordedOperator]]:
    """Yield the product of a linear layer, and those of its gradients of input and weight."""
    yield FORWARD, product("mm", (tokens, inputs), (inputs, outputs))
    yield BACKWARD, product("mm", (tokens, outputs), (outputs, inputs))
    yield BACKWARD, product("mm", (outputs, tokens), (tokens, inputs))


def attention(batch: int, length: int, width: int) -> Iterator[tuple[int, RecordedOperator]]:
    """Yield the products of queries with keys and of weights with values, and those of their gradients."""
    narrow, square = (batch, length, width), (batch, length, length)
    turned = (batch, width, length)
    yield FORWARD, product("bmm", narrow, turned)
    yield FORWARD, product("bmm", square, narrow)
    for _ in range(2):  # each has two factors
        yield BACKWARD, product("bmm", narrow, turned)
        yield BACKWARD, product("bmm", square, narrow)


def layer(model: Model) -> Iterator[tuple[int, RecordedOperator]]:
    for inputs, outputs in model.linear_layers():
        yield from linear(model.tokens, inputs, outputs)
    yield from attention(model.sequences * model.heads, model.length, model.width)


def operations(model: Model, *, recomputes: bool = False) -> int:
    """Return the operations of a step as we count them; with recomputation, each layer runs forward twice."""
    found = 0
    for which, operator in layer(model):
        work = work_of(operator)
        assert work is not None
        found += work.operations * model.layers * (2 if recomputes and which == FORWARD else 1)
    last = [work_of(operator) for _, operator in linear(model.tokens, model.hidden, model.vocabulary)]
    return found + sum(each.operations for each in last if each)


# Source: Chowdhery and others, PaLM, table 1 and appendix B: 6 N + 12 L H Q T operations for each token; SwiGLU, one
# head of keys and values, parallel layers. The counts in the table are 8.63, 62.50 and 540.35 billion.
PALM = {
    "8B": (Model(32, 4096, 16, 256, 16384, 2, 1, 256_000, 8, 2048), 8.63e9),
    "62B": (Model(64, 8192, 32, 256, 32768, 2, 1, 256_000, 8, 2048), 62.50e9),
    "540B": (Model(118, 18432, 48, 256, 73728, 2, 1, 256_000, 8, 2048), 540.35e9),
}


@pytest.mark.parametrize("name", PALM)
def test_palm_needs_the_operations_of_its_paper(name: str) -> None:
    """Within 2 %, from the number of parameters that the paper has. So MFU agrees as well."""
    model, parameters = PALM[name]
    assert model.parameters == pytest.approx(parameters, rel=0.02)
    published = 6 * parameters + 12 * model.layers * model.heads * model.width * model.length
    assert operations(model) / model.tokens == pytest.approx(published, rel=0.02)


# Source: Narayanan and others, Efficient large-scale language model training on GPU clusters using Megatron-LM, table 1
# and its formula: 96 B s l h^2 (1 + s / 6h + V / 16 l h) operations, with activations computed again.
MEGATRON = {
    "1.7B": Model(24, 2304, 24, 96, 4 * 2304, 1, 24, 51_200, 512, 2048),
    "18.4B": Model(40, 6144, 48, 128, 4 * 6144, 1, 48, 51_200, 1024, 2048),
    "174.6B": Model(96, 12288, 96, 128, 4 * 12288, 1, 96, 51_200, 1536, 2048),
}


@pytest.mark.parametrize("name", MEGATRON)
def test_megatron_needs_the_operations_of_its_paper_with_recomputation(name: str) -> None:
    """Within 2 %: hardware FLOPs, as the paper counts them."""
    model = MEGATRON[name]
    size, length = model.hidden, model.length
    more = 1 + length / (6 * size) + model.vocabulary / (16 * model.layers * size)
    published = 96 * model.tokens * model.layers * size**2 * more
    assert operations(model, recomputes=True) == pytest.approx(published, rel=0.02)
