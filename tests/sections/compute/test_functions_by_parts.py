"""Norms, losses and activations by parts: what belongs to them, and what a fused operator saves."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_operators import NVJET, Made, findings, tensor

from nsyswrap.model import Finding

US, STEPS = 1000, 4
ROWS, WIDTH = 4096, 1024
NORM, LOSS, ACTIVATION = (f"compute/{each}_by_parts" for each in ("norm", "loss", "activation"))


def whole(number: int, dtype: str = "bfloat16") -> dict[str, Any]:
    return tensor(ROWS, WIDTH, dtype=dtype, storage=number)


def low(number: int, dtype: str = "bfloat16") -> dict[str, Any]:
    return tensor(ROWS, 1, dtype=dtype, storage=number)


def part(name: str, taken: list[Any], made: dict[str, Any], us: int = 100, **more: Any) -> Made:  # noqa: ANN401
    return Made(name, taken, [made], us, **({"module": "norm"} | more))


PRODUCT = Made("mm", [whole(90), tensor(WIDTH, WIDTH, storage=91)], [whole(92)], 100, NVJET, module="linear")


def rms_norm(module: str = "norm") -> list[Made]:
    """Return a norm by parts. A fused one reads and writes 8 MiB: 7 us at 60 % of 4 TB/s; backward 10.5 us."""
    parts = [
        part("pow", [whole(0), 2], whole(1)),
        part("mean", [whole(1)], low(2), 50),
        part("add", [low(2), 1e-6], low(3), 2),
        part("rsqrt", [low(3)], low(4), 2),
        part("mul", [whole(0), low(4)], whole(5)),
        part("mul", [whole(5), tensor(WIDTH, storage=8)], whole(6)),
    ]
    return [replace(each, module=module) for each in parts]


def backward(count: int, of: int, module: str = "norm") -> list[Made]:
    made = part("mul", [whole(20), whole(21)], whole(22), 100, module=module)
    return [replace(made, of=of)] * count


def found(operators: list[Made], rule: str, path: Path) -> Finding | None:
    return findings([PRODUCT, *operators, replace(PRODUCT)], path).get(rule)


def test_a_norm_by_parts_becomes_one_kernel(tmp_path: Path) -> None:
    finding = found(rms_norm(), NORM, tmp_path)
    assert finding is not None
    assert finding.lost_ns == STEPS * 354 * US
    assert "norm (model.py:7)" in finding.headline
    assert finding.saving is not None
    assert finding.saving.point / STEPS / US == pytest.approx(354 - 7, rel=0.002)


def test_a_norm_of_groups_of_channels_reads_its_input_twice(tmp_path: Path) -> None:
    """A fused one reads 8 MiB twice and writes it: 10.5 us at 60 % of 4 TB/s."""
    weight = tensor(32, 1, 1, storage=8)
    finding = found([*rms_norm()[:-1], part("mul", [whole(5), weight], whole(6))], NORM, tmp_path)
    assert finding is not None
    assert finding.saving is not None
    assert finding.saving.point / STEPS / US == pytest.approx(354 - 10.5, rel=0.002)


def test_the_backward_pass_belongs_to_it(tmp_path: Path) -> None:
    """Six kernels of three tensors become one of three; the operators around them are no part."""
    finding = found([*rms_norm(), PRODUCT, *backward(6, 5), *backward(1, 0, "linear")], NORM, tmp_path)
    assert finding is not None
    assert finding.lost_ns == STEPS * (354 + 600) * US
    assert finding.saving is not None
    assert finding.saving.point / STEPS / US == pytest.approx(354 - 7 + 600 - 10.5, rel=0.002)


def test_a_residual_connection_is_no_part_of_a_norm(tmp_path: Path) -> None:
    """It adds two tensors of full size; a bias is small."""
    residual = part("add", [whole(30), whole(31)], whole(0))
    bias = part("add", [whole(6), tensor(WIDTH, storage=9)], whole(7))
    finding = found([residual, *rms_norm(), bias], NORM, tmp_path)
    assert finding is not None
    assert finding.lost_ns == STEPS * 454 * US


@pytest.mark.parametrize("missing", [1, 3, 4])
def test_without_mean_root_or_product_it_is_no_norm(missing: int, tmp_path: Path) -> None:
    operators = rms_norm()
    del operators[missing : missing + (2 if missing == 4 else 1)]
    assert found(operators, NORM, tmp_path) is None


@pytest.mark.parametrize(("between", "is_norm"), [(3, True), (4, False)])
def test_a_mean_is_near_its_root(between: int, *, is_norm: bool, tmp_path: Path) -> None:
    """At most four operators lie from the mean to the root."""
    operators = rms_norm()
    operators[2:3] = [part("add", [low(2), 1e-6], low(3), 2)] * between
    assert (found(operators, NORM, tmp_path) is not None) == is_norm


def test_a_fused_norm_is_none(tmp_path: Path) -> None:
    fused = [part("native_layer_norm", [whole(0)], whole(1)), part("mul", [whole(1), whole(2)], whole(3))]
    assert found(fused, NORM, tmp_path) is None


def scores(number: int, dtype: str = "bfloat16") -> dict[str, Any]:
    return tensor(512, 32768, dtype=dtype, storage=number)


def loss_by_hand() -> list[Made]:
    """Return a cross entropy by parts. PyTorch's has the softmax, too; 32 MiB take 14 us at 60 % of 4 TB/s."""
    return [
        part("_softmax", [scores(0), -1, False], scores(1), module="", line=30),
        part("log", [scores(1)], scores(2), module="", line=30),
        part("neg", [scores(2)], scores(3), module="", line=31),
        part("mul", [scores(3), scores(4)], scores(5), module="", line=31),
        part("sum", [scores(5)], tensor(512, storage=6), 50, module="", line=31),
    ]


def test_a_loss_by_parts_becomes_one_operator(tmp_path: Path) -> None:
    finding = found(loss_by_hand(), LOSS, tmp_path)
    assert finding is not None
    assert "line" not in finding.headline
    assert finding.lost_ns == STEPS * 450 * US
    assert finding.saving is not None
    assert finding.saving.point / STEPS / US == pytest.approx(450 - 100, rel=0.002)


@pytest.mark.parametrize(("smooths", "tensors"), [(False, 1), (True, 3)])
def test_its_backward_pass_keeps_the_softmax_and_a_gradient(*, smooths: bool, tensors: int, tmp_path: Path) -> None:
    """Ten kernels; labels that are smoothed add the gradient of a sum over all classes."""
    forward = loss_by_hand()
    if smooths:
        forward.insert(
            3, part("gather", [scores(3), -1, tensor(512, storage=9)], tensor(512, storage=10), module="", line=31)
        )
    gradient = replace(part("mul", [scores(20), scores(21)], scores(22), module="", line=31), of=4)
    softmax = replace(part("_softmax_backward_data", [scores(23), scores(24)], scores(25), module="", line=31), of=4)
    finding = found([*forward, PRODUCT, *[gradient] * 9, softmax], LOSS, tmp_path)
    assert finding is not None
    assert finding.saving is not None
    fewer = 450 + 100 * smooths - 100 - 50 * smooths + 1000 - 100 - 14 * tensors
    assert finding.saving.point / STEPS / US == pytest.approx(fewer, rel=0.002)


def test_a_copy_of_the_scores_is_no_part(tmp_path: Path) -> None:
    """What makes scores contiguous before the loss is needed with any loss."""
    copy = part("copy_", [scores(0), scores(9), False], scores(0), module="", line=29)
    finding = found([copy, *loss_by_hand()], LOSS, tmp_path)
    assert finding is not None
    assert finding.lost_ns == STEPS * 450 * US


def test_pytorchs_cross_entropy_is_fused(tmp_path: Path) -> None:
    operators = [
        part("copy_", [scores(1, "float32"), scores(0), False], scores(1, "float32")),
        part("_log_softmax", [scores(1, "float32"), 1, False], scores(2, "float32")),
        part("nll_loss_forward", [scores(2, "float32")], tensor(1, storage=3)),
    ]
    assert found(operators, LOSS, tmp_path) is None


def gelu(names: str) -> list[Made]:
    """Return elementwise operators on one size."""
    return [part(each, [whole(at)], whole(at + 1), module="act") for at, each in enumerate(names.split())]


@pytest.mark.parametrize("names", ["mul pow mul add mul tanh add mul", "mul div erf add mul", "div erf add mul"])
def test_an_activation_by_parts_becomes_one_operator(names: str, tmp_path: Path) -> None:
    """Each part reads and writes its size, and so does the fused operator."""
    finding = found(gelu(names), ACTIVATION, tmp_path)
    assert finding is not None
    count = len(names.split())
    assert finding.lost_ns == STEPS * count * 100 * US
    assert finding.saving is not None
    assert finding.saving.point / STEPS / US == pytest.approx(count * 100 - 7, rel=0.002)


def bend(names: str, other: int, rows: int = 1) -> list[Made]:
    """Return a bend of a tensor, and its product with a tensor: 0 is the same one."""
    *bends, _ = names.split()
    given = whole(0) | {"strides": [rows * WIDTH, 1]}
    made = [part(each, [whole(at) if at else given], whole(at + 1), module="act") for at, each in enumerate(bends)]
    return [*made, part("mul", [whole(len(bends)), whole(other)], whole(9), module="act")]


@pytest.mark.parametrize("names", ["sigmoid mul", "softplus tanh mul"])
def test_a_bend_of_a_tensor_times_that_tensor_is_an_activation(names: str, tmp_path: Path) -> None:
    """SiLU and Mish. With another tensor, or with halves of one, it is a gate."""
    finding = found(bend(names, 0), ACTIVATION, tmp_path)
    assert finding is not None
    assert finding.lost_ns == STEPS * len(names.split()) * 100 * US
    for number, other in enumerate((bend(names, 8), bend(names, 0, 2))):
        (tmp_path / str(number)).mkdir()
        assert found(other, ACTIVATION, tmp_path / str(number)) is None


@pytest.mark.parametrize("names", ["tanh add mul", "mul tanh mul mul", "gelu mul", "mul add tanh"])
def test_other_elementwise_operators_are_no_activation_by_parts(names: str, tmp_path: Path) -> None:
    """A cell of a recurrent network has three of them, and a bend alone is an activation of PyTorch."""
    assert found(gelu(names), ACTIVATION, tmp_path) is None
