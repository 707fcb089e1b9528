"""The choice of alternatives, their kernels, and what a report says once they are measured."""

import json
import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from made_operators import ALIGN1, NVJET, Made, findings, section_of, tensor
from real_captures import CAPTURES

from nsyswrap.base.interval import Interval
from nsyswrap.capture_file import with_recorded
from nsyswrap.events.alternatives import (
    Alternative,
    MeasuredAlternative,
    MeasuredAlternatives,
    read_alternatives,
)
from nsyswrap.events.xray_record import RecordedOperator, Tensor
from nsyswrap.loop.context import NO_SETTINGS, find_context
from nsyswrap.model import Finding, Report
from nsyswrap.operators import candidates
from nsyswrap.operators.candidates import pick
from nsyswrap.report import report_of
from nsyswrap.sections.tensor_cores import section as tensor_cores
from nsyswrap.trace.load import load_export

US, STEPS = 1000, 4
MM = RecordedOperator("aten::mm", inputs=(Tensor((8, 4)),))
PADDED, TF32 = "compute/misaligned", "tensor_cores/not_used"
SIMT = "ampere_sgemm_128x64_nn"
CONVOLUTION = "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_warpgroupsize1x1x1"
TO_CHANNELS_LAST = "void cudnn::engines_precompiled::nchwToNhwcKernel<__nv_bfloat16>(T1)"


def product(vocabulary: int, number: int, us: int = 4000, kernel: str = ALIGN1, dtype: str = "bfloat16") -> Made:
    """Return a product of matrices; its memory has numbers from the given one on."""
    hidden = tensor(2048, 1024, storage=number, dtype=dtype)
    weight = tensor(1024, vocabulary, storage=number + 1, columns_first=True, dtype=dtype)
    return Made("mm", [hidden, weight], [tensor(2048, vocabulary, storage=number + 2, dtype=dtype)], us, kernel)


def gradient(vocabulary: int, number: int, of: int) -> Made:
    """Return the product of a backward pass that returns the gradient of the weight."""
    taken = [tensor(vocabulary, 2048, storage=number), tensor(2048, 1024, storage=number + 1)]
    return Made("mm", taken, [tensor(vocabulary, 1024, storage=number + 2)], 4000, ALIGN1, of=of)


def alternatives(finding: Finding) -> dict[Alternative, int]:
    """Return the alternatives of a finding, with the time of each in us."""
    return {each.alternative: each.time_ns // US for each in finding.what_if.alternatives}  # type: ignore[attr-defined]


def measured(finding: Finding, low: float, ratio: float, high: float) -> MeasuredAlternatives:
    result = MeasuredAlternative(3.0, 3.0 * ratio, Interval(low, ratio, high))
    return MeasuredAlternatives("NVIDIA H100", dict.fromkeys(alternatives(finding), result))


def test_an_operator_has_its_forward_and_its_backward_kernels(tmp_path: Path) -> None:
    """Two layers of one size are one alternative. Of the tensors, the weight has a gradient."""
    operators = [product(50_257, 10), product(50_257, 20), gradient(50_257, 30, 1), gradient(50_257, 40, 0)]
    finding = findings(operators, tmp_path)[PADDED]
    ((alternative, time),) = alternatives(finding).items()
    assert time == STEPS * 4 * 4000
    assert (alternative.kind, alternative.sizes) == ("padded", ((50_257, 50_304),))
    assert [each.shape for each in alternative.gradients] == [(1024, 50_257)]
    assert alternative.words == "mm of 2,048 x 1,024, 1,024 x 50,257 with padded sizes"


def test_the_measured_share_of_its_time_is_what_stays(tmp_path: Path) -> None:
    """4,000 us take half as long; the range is that of the turns, and at least a tenth of the saving."""
    first = findings([product(50_257, 10)], tmp_path)[PADDED]
    (tmp_path / "again").mkdir()
    found = findings([product(50_257, 10)], tmp_path / "again", measured=measured(first, 0.4, 0.5, 0.6))[PADDED]
    assert found.saving_method == "benchmarked"
    assert found.saving is not None
    low, point, high = (each / STEPS / US for each in (found.saving.low, found.saving.point, found.saving.high))
    assert point == pytest.approx(2000, abs=20)
    assert low == pytest.approx(1600, abs=60)
    assert high == pytest.approx(2400, abs=60)
    said = "with padded sizes takes 1.50 ms, before 3.00 ms: 40.0 % to 60.0 % of the time"
    assert f"measured: mm of 2,048 x 1,024, 1,024 x 50,257 {said}" in found.evidence
    assert not any(each.startswith("simulated") for each in found.evidence)


def test_a_fix_that_saves_nothing_is_a_note(tmp_path: Path) -> None:
    """It was simulated as a problem, and the measurement says that it takes longer."""
    operators = [product(50_257, 10), Made("relu", [tensor(2048)], [tensor(2048)], 6000)]
    first = findings(operators, tmp_path)[PADDED]
    assert first.severity == "problem"
    (tmp_path / "again").mkdir()
    found = findings(operators, tmp_path / "again", measured=measured(first, 1.0, 1.2, 1.3))[PADDED]
    assert (found.severity, found.saving_method) == ("note", "benchmarked")
    assert found.saving is not None
    assert found.saving.point == 0


def test_a_small_part_that_was_measured_leaves_the_saving_simulated(tmp_path: Path) -> None:
    """Of 4,000 and 500 us the shorter one was measured; the longer one was not."""
    operators = [product(50_257, 10), product(30_523, 20, 500)]
    first = findings(operators, tmp_path)[PADDED]
    some = measured(first, 0.4, 0.5, 0.6)
    least = min(alternatives(first).items(), key=lambda each: each[1])[0]
    some = MeasuredAlternatives(some.gpu, {least: some.found[least]}, {})
    (tmp_path / "again").mkdir()
    found = findings(operators, tmp_path / "again", measured=some)[PADDED]
    assert found.saving_method == "simulated"
    assert [each.partition(":")[0] for each in found.evidence[-2:]] == ["measured", "simulated"]


def test_products_of_fp32_may_use_tf32(tmp_path: Path) -> None:
    """Not those beside products in half precision: autocast would give them half precision, too."""
    full = product(4096, 10, kernel=SIMT, dtype="float32")
    found = findings([full], tmp_path, tensor_cores)[TF32]
    ((alternative, time),) = alternatives(found).items()
    assert (alternative.kind, alternative.tf32, time) == ("tf32", False, STEPS * 4000)
    (tmp_path / "beside").mkdir()
    beside = findings([full, product(50_304, 20, 1000, NVJET)], tmp_path / "beside", tensor_cores)[TF32]
    assert alternatives(beside) == {}


def test_a_convolution_that_converts_layouts_may_have_channels_last(tmp_path: Path) -> None:
    """Its own kernel and those that convert are one operator, and its share is of both."""
    images, weight, made = (
        tensor(*shape, storage=number)
        for number, shape in enumerate([(64, 128, 56, 56), (128, 128, 3, 3), (64, 128, 56, 56)])
    )
    taken = [images, weight, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1]
    operators = [
        Made("convolution", taken, [made], us, kernel) for us, kernel in ((300, TO_CHANNELS_LAST), (700, CONVOLUTION))
    ]
    found = findings(operators, tmp_path, tensor_cores)["tensor_cores/layout"]
    ((alternative, time),) = alternatives(found).items()
    assert (alternative.kind, time) == ("channels_last", STEPS * 1000)
    (tmp_path / "again").mkdir()
    again = findings(operators, tmp_path / "again", tensor_cores, measured(found, 0.8, 0.8, 0.8))["tensor_cores/layout"]
    assert again.saving is not None
    assert again.saving.point / STEPS / US == pytest.approx(200, abs=20)


def test_running_statistics_have_no_gradient() -> None:
    """PyTorch refuses to compute one."""
    images, *numbers = Tensor((8, 16, 4, 4)), *(Tensor((16,), storage=at) for at in range(4))
    operator = RecordedOperator("aten::native_batch_norm", inputs=(images, *numbers, True, 0.1, 1e-5))
    assert list(candidates._taken([operator])) == [images, *numbers[:2]]  # noqa: SLF001


def hidden(number: int, width: int = 1024) -> dict[str, Any]:
    """Return a tensor of hidden numbers, or of one number a row."""
    return tensor(4096, width, storage=number)


def norm(first: int) -> list[Made]:
    """Return a norm by parts, whose memory has numbers from the given one on; a product takes its result."""
    parts = [
        Made("pow", [hidden(first), 2], [hidden(first + 1)]),
        Made("mean", [hidden(first + 1), [-1], True, None], [hidden(first + 2, 1)]),
        Made("rsqrt", [hidden(first + 2, 1)], [hidden(first + 3, 1)]),
        Made("mul", [hidden(first), hidden(first + 3, 1)], [hidden(first + 4)]),
    ]
    weight = tensor(1024, 1024, storage=9)
    return [*parts, Made("mm", [hidden(first + 4), weight], [hidden(first + 5)], 100, NVJET, module="out")]


def test_a_norm_by_parts_is_compiled(tmp_path: Path) -> None:
    """Norms of all layers are one alternative, with the kernels of their backward passes."""
    backward = Made("mul", [hidden(80), hidden(81)], [hidden(82)], of=3)
    finding = findings([*norm(10), *norm(20), backward], tmp_path)["compute/norm_by_parts"]
    ((alternative, time),) = alternatives(finding).items()
    assert time == STEPS * 9 * 100
    assert [each.name for each in alternative.operators] == ["aten::pow", "aten::mean", "aten::rsqrt", "aten::mul"]
    assert alternative.outputs == (4,)
    assert [each.storage for each in alternative.gradients] == [0]
    (tmp_path / "again").mkdir()
    results = measured(finding, 0.2, 0.25, 0.3)
    again = findings([*norm(10), *norm(20), backward], tmp_path / "again", measured=results)["compute/norm_by_parts"]
    assert again.saving_method == "benchmarked"
    assert again.saving is not None
    assert again.saving.point / STEPS / US == pytest.approx(0.75 * 900, rel=0.02)


def test_attention_by_parts_is_one_operator(tmp_path: Path) -> None:
    """A square mask for all samples and heads makes it causal; one for each sample does not."""

    def operators(mask: dict[str, Any]) -> list[Made]:
        query, key = tensor(32, 512, 64, storage=1), tensor(32, 64, 512, storage=2, columns_first=True)
        scores = [tensor(4, 8, 512, 512, storage=each) for each in (3, 4, 5, 6)]
        flat = [tensor(32, 512, 512, storage=each) for each in (3, 6)]
        return [
            Made("bmm", [query, key], [flat[0]], 200, NVJET),
            Made("div", [scores[0], tensor(dtype="float64", storage=7)], [scores[1]], 300),
            Made("masked_fill", [scores[1], mask, "-inf"], [scores[2]], 300),
            Made("_softmax", [scores[2], -1, False], [scores[3]], 300, "softmax"),
            Made("bmm", [flat[1], tensor(32, 512, 64, storage=8)], [tensor(32, 512, 64, storage=9)], 200, NVJET),
        ]

    for shape, is_causal in (((512, 512), True), ((4, 1, 1, 512), False), ((4, 1, 512, 512), False)):
        folder = tmp_path / "x".join(map(str, shape))
        folder.mkdir()
        mask = tensor(*shape, dtype="bool", storage=10)
        finding = findings(operators(mask), folder)["compute/attention_by_parts"]
        ((alternative, time),) = alternatives(finding).items()
        assert (alternative.kind, alternative.is_causal, time) == ("fused", is_causal, STEPS * 1300)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            MeasuredAlternatives(failure="other processes use the GPU"),
            "Alternatives were not measured, so their savings are simulated: other processes use the GPU.",
        ),
        (
            MeasuredAlternatives(reasons={Alternative("tf32", (MM,)): "the time was over"}),
            "Not measured: mm of 8 x 4 in TF32. Reason: the time was over.",
        ),
    ],
)
def test_a_note_says_why_nothing_was_measured(found: MeasuredAlternatives, said: str, tmp_path: Path) -> None:
    notes = section_of([product(50_257, 10)], tmp_path, measured=found).notes
    assert any(each.startswith(said) for each in notes)


def report(folder: Path, results: Mapping[str, object] | None = None) -> Report:
    """Return the report of a capture of an H100 that lies in the folder of a run, with what was measured."""
    path = folder / "capture.sqlite"
    path.write_bytes(lzma.decompress((CAPTURES / "xray" / "gpt.sqlite.xz").read_bytes()))
    if results is not None:
        (folder / "alternatives.json").write_text(json.dumps(results), encoding="utf-8")
    trace, settings = with_recorded(load_export(path), path, NO_SETTINGS)
    return report_of(find_context(trace, settings))


def test_the_report_of_a_folder_has_what_was_measured(tmp_path: Path) -> None:
    """The GPT-2 of 50,257 tokens: the head is picked, then the loss. Attention and norms take less than 1 %."""
    chosen = pick(report(tmp_path).findings)
    assert [(each.kind, each.operators[0].name) for each in chosen] == [
        ("padded", "aten::mm"),
        ("compiled", "aten::_log_softmax"),
    ]
    assert chosen[0].sizes == ((50_257, 50_304),)
    written = [each.written() for each in chosen]
    results = [
        {**written[0], "before_ms": 1.3, "after_ms": 0.52, "ratio": [0.39, 0.4, 0.41], "difference": 0.001},
        {**written[1], "reason": "the time was over"},
    ]
    document = {"schema": "nsyswrap.alternatives/1", "gpu": "NVIDIA H100", "alternatives": results}
    now = report(tmp_path, json.loads(json.dumps(document)))
    finding = next(each for each in now.findings if each.rule == PADDED)
    assert finding.saving_method == "benchmarked"
    sources = {each.rule: each.source for each in now.plan.changes}
    assert sources[PADDED] == "benchmarked"
    assert sources["launches/launch_bound"] == "simulated"
    compute = next(each for each in now.sections if each.key == "compute")
    assert any("nll_loss_forward" in each and "the time was over" in each for each in compute.notes)


def test_results_that_differ_count_as_not_measured() -> None:
    """5 % of the largest number is rounding, more is not; with dropout, numbers are random."""
    operators = Alternative("tf32", (MM,)).written()
    row = {**operators, "before_ms": 1.0, "after_ms": 0.5, "ratio": [0.5, 0.5, 0.5]}
    for difference, name, is_found in ((0.05, "mm", True), (0.06, "mm", False), (0.06, "native_dropout", True)):
        each = {**row, "difference": difference, "operators": [{"name": f"aten::{name}"}]}
        found = read_alternatives({"schema": "nsyswrap.alternatives/1", "alternatives": [each]})
        assert bool(found.found) == is_found
        assert list(found.reasons.values()) == ([] if is_found else ["the results differ"])


@pytest.mark.parametrize(
    "found", [None, [], {"schema": "other"}, {"schema": "nsyswrap.alternatives/1", "alternatives": [7, {"kind": "x"}]}]
)
def test_what_cannot_be_read_is_left_out(found: object) -> None:
    assert read_alternatives(found) == MeasuredAlternatives()
