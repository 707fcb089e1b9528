"""Attention written by parts: what belongs to it, and what the fused one saves."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from made_operators import NVJET, Made, findings, tensor

from nsyswrap.model import Finding, Gpu
from nsyswrap.sections.compute.attention_by_parts import Attention, backend
from nsyswrap.sections.places import Place

RULE = "compute/attention_by_parts"
HEADS, LENGTH, WIDTH = 128, 1024, 64
QUERIES, KEYS = tensor(HEADS, LENGTH, WIDTH), tensor(HEADS, WIDTH, LENGTH, columns_first=True)
SCORES, SAME = tensor(HEADS, LENGTH, LENGTH), tensor(8, 16, LENGTH, LENGTH)
SINGLE = tensor(8, 16, LENGTH, LENGTH, dtype="float32")
TAKEN = tensor(HEADS, LENGTH, WIDTH, storage=901)
SIMT = "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4_execute_kernel"
SIZES = {"queries": (HEADS, LENGTH, WIDTH), "keys": (HEADS, WIDTH, LENGTH), "scores": (HEADS, LENGTH, LENGTH)}
part = partial(Made, module="blocks.0.attention")
FORWARD = (
    part("bmm", [QUERIES, KEYS], [SCORES], 200, NVJET),
    part("div", [SAME, tensor(dtype="float64")], [SAME], 300),
    part("masked_fill_", [SAME, tensor(LENGTH, LENGTH, dtype="bool"), "-inf"], [SAME], 300),
    part("_softmax", [SAME, -1, False], [SAME], 300, "softmax"),
    part("bmm", [SCORES, QUERIES], [QUERIES], 200, NVJET),
)
BACKWARD = (
    Made("bmm", [SCORES, QUERIES], [QUERIES], 200, NVJET, of=4),
    Made("bmm", [QUERIES, KEYS], [SCORES], 200, NVJET, of=4),
    Made("_softmax_backward_data", [SAME, SAME, -1, 15], [SAME], 400, "softmax", of=3),
    Made("mul", [SAME, SAME], [SAME], 400, of=1),
    Made("bmm", [SCORES, QUERIES], [QUERIES], 200, NVJET, of=0),
    Made("bmm", [KEYS, SCORES], [tensor(HEADS, WIDTH, LENGTH)], 200, NVJET, of=0),
)
OTHER = Made("mm", [tensor(8192, 1024), tensor(1024, 1024)], [tensor(8192, 1024)], 500, NVJET, "blocks.0.out")
US = 1000
STEPS = 4


def found(operators: tuple[Made, ...], path: Path) -> Finding | None:
    return findings(operators, path).get(RULE)


@pytest.mark.parametrize(("batches", "share"), [(1, 0.5), (8, 1.0)])
def test_the_fused_one_computes_the_same_without_the_scores(batches: int, share: float, tmp_path: Path) -> None:
    """Each product has 17.2 GFLOP: at 35 % of 989.4 TFLOP/s 49.6 us, in the backward pass 62.0 us each.

    A triangular mask is one for all samples, and hides half of the scores.
    """
    mask = tensor(batches, 1, LENGTH, LENGTH, dtype="bool")
    masked = replace(FORWARD[2], inputs=[SAME, mask, "-inf"])
    finding = found((*FORWARD[:2], masked, *FORWARD[3:], OTHER, *BACKWARD), tmp_path)
    assert finding is not None
    assert "blocks.0.attention (model.py:7)" in finding.headline
    assert finding.lost_ns == STEPS * (1300 + 1600) * US
    assert finding.saving is not None
    assert finding.saving.point / STEPS / US == pytest.approx(2900 - share * (2 * 49.6 + 4 * 62.0), rel=0.01)
    assert "is_causal=True" in finding.advice
    assert "128 x 1,024 x 1,024" in " ".join(finding.evidence)


def test_a_library_casts_and_drops_in_modules_of_its_own(tmp_path: Path) -> None:
    """The scores are made by `baddbmm`, cast, dropped in a module inside, and cast back; no mask."""
    bias = tensor(HEADS, LENGTH, LENGTH)
    parts = (
        part("baddbmm", [bias, QUERIES, KEYS], [SCORES], 200, NVJET),
        part("copy_", [SINGLE, SAME, False], [SINGLE], 400),
        part("_softmax", [SINGLE, 3, False], [SINGLE], 400, "softmax"),
        Made("native_dropout", [SINGLE, 0.1, True], [SINGLE], 500, "dropout", "blocks.0.attention.dropout"),
        part("copy_", [SAME, SINGLE, False], [SAME], 400),
        part("bmm", [SCORES, QUERIES], [QUERIES], 200, NVJET),
    )
    finding = found((*parts, OTHER), tmp_path)
    assert finding is not None
    assert finding.lost_ns == STEPS * 2100 * US


@pytest.mark.parametrize(
    ("storage", "between", "lost"),
    [(901, (), 1400), (902, (), 1300), (901, (part("mul_", [TAKEN, TAKEN], [TAKEN], 50),), 1300)],
    ids=["taken", "not taken", "overwritten before"],
)
def test_a_copy_that_lays_out_heads_for_a_product_is_a_part(
    storage: int, between: tuple[Made, ...], lost: int, tmp_path: Path
) -> None:
    made = tensor(HEADS, LENGTH, WIDTH, storage=storage)
    product = replace(FORWARD[0], inputs=[TAKEN, KEYS])
    finding = found((part("copy_", [made, QUERIES], [made], 100), *between, product, *FORWARD[1:], OTHER), tmp_path)
    assert finding is not None
    assert finding.lost_ns == STEPS * lost * US


CLASSES, TABLE = tensor(4096, 4096), tensor(4096, 4096, columns_first=True)


@pytest.mark.parametrize(
    "operators",
    [
        # Probabilities of classes mix rows of a table.
        (
            Made("mm", [CLASSES, TABLE], [CLASSES], 200, NVJET),
            Made("_softmax", [CLASSES, -1, False], [CLASSES], 900, "softmax"),
            Made("mm", [CLASSES, TABLE], [CLASSES], 200, NVJET),
        ),
        # What the fused kernel cannot do: scores are bounded by a tangent, or normalized over the queries.
        (*FORWARD[:2], part("tanh", [SAME], [SAME], 300), *FORWARD[3:]),
        (*FORWARD[:3], replace(FORWARD[3], inputs=[SAME, 2, False]), FORWARD[4]),
        # The result goes to another module.
        (*FORWARD[:4], replace(FORWARD[4], module="pool")),
    ],
)
def test_other_softmaxes_are_no_attention_by_parts(operators: tuple[Made, ...], tmp_path: Path) -> None:
    assert found(operators, tmp_path) is None


@pytest.mark.parametrize(
    ("dtype", "width", "capability", "is_masked", "words"),
    [
        ("bfloat16", 128, (9, 0), True, "cuDNN's kernel"),
        ("bfloat16", 136, (9, 0), False, "FlashAttention for these"),  # wider than cuDNN takes
        ("bfloat16", 60, (10, 0), False, "FlashAttention for these"),  # no multiple of 8
        ("float16", 256, (8, 0), False, "FlashAttention for these"),
        ("float16", 64, (8, 9), True, "another mask"),
        ("float16", 264, (8, 0), False, "memory-efficient"),
        ("float16", 64, (7, 5), False, "memory-efficient"),
        ("float32", 64, (9, 0), True, "memory-efficient"),
        ("float32", 62, (9, 0), True, "no fused kernel"),
        ("float16", 260, (8, 0), True, "no fused kernel"),
    ],
)
def test_the_kernel_of_fused_attention_follows_from_shapes_types_mask_and_gpu(
    dtype: str, width: int, capability: tuple[int, int], *, is_masked: bool, words: str
) -> None:
    """Source: sdp_utils.cpp of PyTorch 2.11."""
    attention = Attention(Place("attention", "model.py:7"), (8, 64, 64), width, dtype, is_masked, is_causal=False)
    assert words in backend([attention], [Gpu(0, "", compute_capability=capability)])


def test_pytorch_itself_computes_by_parts_in_a_compiled_model(tmp_path: Path) -> None:
    """Its mask suits no fused kernel. The products take 49.6 us in half precision, and move no scores."""
    full = {name: tensor(*sizes, dtype="float32", storage=at) for at, (name, sizes) in enumerate(SIZES.items(), 1)}
    cast, softmax = "triton_poi_fused__to_copy_mul_3", "triton_per_fused__safe_softmax_add_where_4"
    made = (
        part(cast, [tensor(HEADS, LENGTH, WIDTH, storage=9), full["queries"]], [], 20, cast),
        part("bmm", [full["queries"], full["keys"]], [full["scores"]], 800, SIMT),
        part(softmax, [full["scores"]], [], 300, softmax),
        part("bmm", [full["scores"], full["queries"]], [full["queries"]], 800, SIMT),
    )
    finding = found((*made, OTHER), tmp_path)
    assert finding is not None
    assert finding.lost_ns == STEPS * 1900 * US
    assert "mask.contiguous()" in finding.advice
    assert finding.saving is not None
    assert finding.saving.point / STEPS / US == pytest.approx(1900 - 2 * 49.6, rel=0.01)
