"""Backward passes of lookups that sort."""

from dataclasses import replace
from pathlib import Path

import pytest
from made_operators import LOOP, Made, findings, tensor

RULE = "compute/sorted_gradient"
US, STEPS = 1000, 4
SORT = "void cub::detail::radix_sort::DeviceRadixSortOnesweepKernel<long>(T1)"
ROWS, WIDTH = 1 << 18, 64


def gradient(name: str = "embedding_dense_backward", kernel: str = SORT) -> list[Made]:
    """Return a lookup and its backward pass, which adds rows of 64 MiB: 84 us at 60 % of 4 TB/s."""
    rows = tensor(ROWS, WIDTH, dtype="float32", storage=1)
    index = tensor(ROWS, dtype="int64", storage=2)
    table = tensor(200_000, WIDTH, dtype="float32", storage=3)
    inputs = [rows, index, 200_000, -1, False] if name.startswith("embedding") else [table, [index], rows, True]
    return [
        Made("embedding", [table, index], [rows], 100, module="tokens"),
        Made(name, inputs, [table], 900, kernel, module="tokens", of=0),
    ]


@pytest.mark.parametrize("name", ["embedding_dense_backward", "_index_put_impl_"])
def test_additions_without_a_sort_take_the_time_of_their_bytes(name: str, tmp_path: Path) -> None:
    finding = findings(gradient(name), tmp_path).get(RULE)
    assert finding is not None
    assert finding.lost_ns == STEPS * 900 * US
    assert "tokens (model.py:7)" in finding.headline
    assert finding.saving is not None
    assert finding.saving.point / STEPS / US == pytest.approx(900 - 84, rel=0.02)
    assert finding.saving.low == 0  # equal indices delay one another


def test_other_additions_show_the_pace(tmp_path: Path) -> None:
    """They take 300 us for as many bytes."""
    addition = Made(
        "index_add",
        [tensor(200_000, WIDTH, dtype="float32"), 0, *gradient()[1].inputs[1:2], gradient()[1].inputs[0]],
        [tensor(200_000, WIDTH, dtype="float32")],
        300,
    )
    finding = findings([*gradient(), addition], tmp_path).get(RULE)
    assert finding is not None
    assert finding.saving is not None
    assert finding.saving.point / STEPS / US == pytest.approx(900 - 300, rel=0.02)


@pytest.mark.parametrize("operators", [gradient(kernel=LOOP), [replace(each, name="sort") for each in gradient()]])
def test_few_indices_and_other_sorts_are_not_meant(operators: list[Made], tmp_path: Path) -> None:
    assert RULE not in findings(operators, tmp_path)
