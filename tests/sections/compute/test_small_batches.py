"""Modules that a step calls many times with little data."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_operators import NVJET, Made, findings, tensor

RULE = "compute/small_batches"
US, STEPS = 1000, 4
WIDTH, ROWS = 8192, 64
WEIGHT = tensor(WIDTH, WIDTH, storage=1)


def rows(storage: int, count: int = ROWS) -> dict[str, Any]:
    return tensor(count, WIDTH, storage=storage)


def product(number: int, *, us: int = 50, weight: dict[str, Any] = WEIGHT, taken: int = 100, made: int = 200) -> Made:
    """Return a product of 64 rows with a weight of 134 MB: 34 us at 4 TB/s."""
    return Made("mm", [rows(taken + number), weight], [rows(made + number)], us, NVJET, module="layers.0")


def test_calls_of_one_kind_become_one(tmp_path: Path) -> None:
    """32 times 64 rows need 278 us at 989.4 TFLOP/s and 463 us at 60 % of it, instead of 1600 us."""
    finding = findings([product(each) for each in range(32)], tmp_path).get(RULE)
    assert finding is not None
    assert finding.lost_ns == STEPS * 1600 * US
    assert "32 times" in finding.headline
    assert "layers.0 (model.py:7)" in finding.headline
    assert finding.saving is not None
    assert finding.saving.point / STEPS / US == pytest.approx(1600 - 463, rel=0.03)


def test_parts_of_a_batch_that_share_its_memory_are_other_rows(tmp_path: Path) -> None:
    """The gradient of the weight of 134 MB is written once, too: 2048 rows need 463 us for it."""
    samples = rows(100)
    forward = [replace(product(each), inputs=[samples, WEIGHT]) for each in range(32)]
    backward = [
        Made(
            "mm",
            [tensor(WIDTH, ROWS, storage=200 + at), samples],
            [tensor(WIDTH, WIDTH, storage=400)],
            50,
            NVJET,
            of=at,
        )
        for at in range(32)
    ]
    finding = findings([*forward, *backward], tmp_path).get(RULE)
    assert finding is not None
    assert finding.saving is not None
    assert finding.saving.point / STEPS / US == pytest.approx(2 * (1600 - 463), rel=0.03)


def test_one_call_is_no_shorter_than_one_of_them(tmp_path: Path) -> None:
    """Elementwise kernels of 64 rows move 2 MiB each, which takes no time; one of them takes 10 us."""
    more = [Made("relu", [rows(200 + each)], [rows(300 + each)], 10, module="layers.1", line=8) for each in range(32)]
    pairs = [each for pair in zip([product(at) for at in range(32)], more, strict=True) for each in pair]
    inside = [replace(each, module="layers.0", line=9) if each.name == "relu" else each for each in pairs]
    finding = findings(inside, tmp_path).get(RULE)
    assert finding is not None
    assert finding.lost_ns == STEPS * (1600 + 320) * US
    assert finding.saving is not None
    assert finding.saving.point / STEPS / US == pytest.approx(1600 - 463 + 320 - 28, rel=0.03)


def test_the_sums_of_gradients_are_gone(tmp_path: Path) -> None:
    """Each micro-batch but the first adds its gradient to that of the weight."""
    add = Made("add_", [tensor(WIDTH, WIDTH, storage=9), tensor(WIDTH, WIDTH, storage=8)], [], 100, module="", of=0)
    for name in ("plain", "summed"):
        (tmp_path / name).mkdir()
    plain = findings([product(each) for each in range(8)], tmp_path / "plain")[RULE]
    summed = findings([*(product(each) for each in range(8)), *[add] * 7], tmp_path / "summed")[RULE]
    assert plain.saving is not None
    assert summed.saving is not None
    assert (summed.saving.point - plain.saving.point) / STEPS / US == pytest.approx(700, rel=0.05)


def test_the_memory_says_how_much_more_fits(tmp_path: Path) -> None:
    """A micro-batch adds 2 GiB to 1 GiB; 137 of nearly 140 GiB are free at the most."""
    memory = [[0, None, 1 << 30], [2, None, 3 << 30], [5, None, 1 << 30]]
    finding = findings([product(each) for each in range(8)], tmp_path, memory=memory)[RULE]
    assert "room for at most 69.4 times as much" in finding.advice


def test_layers_of_a_compiled_function_are_no_batches(tmp_path: Path) -> None:
    """They cast their weights into the same memory, by kernels whose tensors are not known."""
    cast = Made("triton_poi_fused__to_copy_0", [], [], 10, "triton_poi_fused__to_copy_0", module="layers.0")
    layers = [each for at in range(8) for each in (cast, product(at))]
    assert RULE not in findings(layers, tmp_path)


@pytest.mark.parametrize(("count", "is_found"), [(4, True), (3, False)])
def test_from_four_calls_on(count: int, *, is_found: bool, tmp_path: Path) -> None:
    assert (RULE in findings([product(each) for each in range(count)], tmp_path)) == is_found


def test_a_call_that_takes_what_the_last_one_returned_cannot_be_made_at_once(tmp_path: Path) -> None:
    """A recurrent cell, or a layer that is repeated."""
    chain = [product(each, taken=100, made=101) for each in range(32)]
    assert RULE not in findings(chain, tmp_path)


def test_other_weights_are_no_repetition(tmp_path: Path) -> None:
    others = [product(each, weight=tensor(WIDTH, WIDTH, storage=1000 + each)) for each in range(32)]
    assert RULE not in findings(others, tmp_path)


def test_weights_that_are_cast_each_time_are_the_same(tmp_path: Path) -> None:
    """Each micro-batch casts them into memory of its own; one cast is enough."""
    full = tensor(WIDTH, WIDTH, dtype="float32", storage=1)
    made = []
    for each in range(8):
        cast = tensor(WIDTH, WIDTH, storage=500 + each)
        made += [Made("copy_", [cast, full, False], [cast], 100, module="layers.0", line=6)]
        made += [product(each, weight=cast)]
    finding = findings(made, tmp_path).get(RULE)
    assert finding is not None
    assert finding.lost_ns == STEPS * 8 * 150 * US
    assert finding.saving is not None
    assert finding.saving.point / STEPS / US == pytest.approx(700 + 400 - 116, rel=0.05)


def test_memory_that_a_result_is_written_to_is_not_read(tmp_path: Path) -> None:
    """A loop over texts: each lookup of tokens writes to the memory that the text before it ended in."""
    table, made, places = tensor(512, WIDTH, storage=2), [], tensor(ROWS, storage=3, dtype="int64")
    for each in range(8):
        found = rows(100)
        made += [Made("index_select", [table, 0, places, found], [found], 10, module="words", line=6)]
        made += [product(each, taken=100 - each, made=101 - each)]
        made += [Made("relu", [rows(101)], [rows(100)], 10, module="layers.1", line=8)]
    assert RULE in findings(made, tmp_path)
