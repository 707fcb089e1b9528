"""Proof of tensor-core use by ncu: matrix instructions prove it, half-precision arithmetic does not."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ncu_fixtures import LAYOUT, PACKED, PRODUCT

from nsyswrap.base.errors import NsyswrapError
from nsyswrap.hardware.kernel_names.classify import Verdict, classify
from nsyswrap.sections.tensor_cores.hardware_proof import NcuLaunch, Proof, launches_in, opcodes_in, type_of, worst

HEAD = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size")
ALL, PLAIN = "sass__inst_executed_per_opcode_with_modifier_all", "sass__inst_executed_per_opcode"
HMMA, HFMA2 = "sm__inst_executed_pipe_tensor_op_hmma.sum", "sm__inst_executed_pipe_tensor_op_hmma_type_hfma2.sum"
GMMA = "sm__inst_executed_pipe_tensor_op_gmma.sum"
ACTIVE = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"


def launch(opcodes: dict[str, int] | None = None, **values: float) -> NcuLaunch:
    """Return one launch, with metrics given by short names."""
    names = {"hmma": HMMA, "hfma2": HFMA2, "gmma": GMMA, "active": ACTIVE}
    return NcuLaunch("kernel", opcodes or {}, {names[key]: value for key, value in values.items()}, {})


def page(*rows: dict[str, str], metrics: tuple[str, ...] = (ALL, PLAIN)) -> str:
    """Return a raw page as ncu prints it."""
    target = io.StringIO()
    writer = csv.writer(target, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow([*HEAD, *metrics])
    writer.writerow(["" for _ in (*HEAD, *metrics)])
    for number, row in enumerate(rows):
        head = [number, 42, "python", "127.0.0.1", row["name"], 1, 7, "(128, 1, 1)", "(264, 1, 1)"]
        writer.writerow([*head, *(row.get(metric, "") for metric in metrics)])
    return target.getvalue()


def test_an_opcode_that_was_never_executed_proves_nothing() -> None:
    assert launch({"HMMA.16816.F32": 0, "FADD": 4}).proof is Proof.UNUSED


def test_opcodes_count_more_than_the_activity_of_the_pipe() -> None:
    """Packed half precision uses the pipe more than a tiny matrix product does."""
    assert launch({"HFMA2.MMA": 10**6}, active=6.0, hmma=10**6).proof is Proof.UNUSED
    assert launch({"HGMMA.64x8x16.F32": 8}, active=0.4, gmma=8).proof is Proof.USED


@pytest.mark.parametrize(
    ("values", "proof"),
    [
        ({"active": 40.0, "gmma": 1e6}, Proof.USED),
        ({"active": 3.0, "hmma": 1000.0, "hfma2": 0.0}, Proof.USED),
        ({"active": 2.9, "hmma": 1000.0, "hfma2": 0.0}, Proof.OPEN),
        ({"active": 6.0, "hmma": 1000.0, "hfma2": 1000.0}, Proof.UNUSED),
        ({"active": 6.0, "hmma": 1000.0, "hfma2": 600.0}, Proof.UNUSED),
        ({"active": 6.0, "hmma": 1000.0, "hfma2": 400.0}, Proof.USED),
        ({"active": 0.0, "hmma": 0.0, "gmma": 0.0}, Proof.UNUSED),
        ({"active": 50.0}, Proof.OPEN),
        ({"hmma": 1000.0}, Proof.OPEN),
        ({}, Proof.OPEN),
    ],
)
def test_without_opcodes_the_pipes_counters_must_both_be_clear(values: dict[str, float], proof: Proof) -> None:
    assert launch(None, **values).proof is proof


@pytest.mark.parametrize(
    ("opcode", "precision"),
    [
        ("HMMA.16816.F32", "fp16"),
        ("HMMA.16816.F32.BF16", "bf16"),
        ("HMMA.1688.F32.TF32", "tf32"),
        ("HGMMA.64x128x8.F32.TF32", "tf32"),
        ("HGMMA.64x128x16.F16", "fp16"),
        ("IMMA.16832.S8.S8.SAT", "int8"),
        ("IMMA.16864.U4.S4", "int4"),
        ("QGMMA.64x128x32.F32.E4M3.E5M2", "fp8"),
        ("QGMMA.64x128x32.F16.E5M2.E5M2", "fp8"),
        ("DMMA.884", "fp64"),
        ("BMMA.168256.XOR", ""),
        ("IMMA", ""),
    ],
)
def test_the_instruction_shows_the_type(opcode: str, precision: str) -> None:
    assert type_of(opcode) == precision


def test_the_reason_has_the_numbers() -> None:
    assert launch({"HGMMA.64x8x16.F32": 1200, "HMMA": 7}).reason == "1,207 matrix instructions, most HGMMA.64x8x16.F32"
    assert launch({"HFMA2.MMA": 12, "HFMA2": 2, "FADD": 1}).reason == "no matrix instruction, 14 HFMA2"
    assert launch({"FADD": 1}).reason == "no matrix instruction"
    assert (
        launch(None, active=6.0, hmma=1000.0, hfma2=900.0).reason
        == "tensor pipe 6.0% active, 100 instructions but HFMA2"
    )
    assert launch().reason == "nothing counted"


def test_a_page_is_read_with_units_thousands_and_what_was_printed_before() -> None:
    text = "==PROF== Connected\nthe program, 12\n" + page(
        {"name": PRODUCT, ALL: "1,064 (HGMMA.64x8x16.F32: 1,000; FADD: 64)", PLAIN: "1,064 (HGMMA: 1,000; FADD: 64)"},
        {"name": LAYOUT, ALL: "12 (HFMA2.MMA: 12)"},
    )
    first, second = launches_in(text)
    assert first.opcodes == {"HGMMA.64x8x16.F32": 1000, "FADD": 64}
    assert first.values[ALL] == 1064
    assert first.texts["Block Size"] == "(128, 1, 1)"
    assert (second.name, second.proof) == (LAYOUT, Proof.UNUSED)


def test_opcodes_without_modifiers_are_used_if_there_are_no_others() -> None:
    (only,) = launches_in(page({"name": PACKED, ALL: "n/a", PLAIN: "8 (HMMA: 8)"}))
    assert (only.opcodes, only.proof) == ({"HMMA": 8}, Proof.USED)


def test_metrics_that_ncu_could_not_measure_are_missing_and_not_0() -> None:
    (only,) = launches_in(page({"name": PACKED, HMMA: "(!) n/a", ACTIVE: "n/a"}, metrics=(HMMA, ACTIVE)))
    assert only.values == {}
    assert only.proof is Proof.OPEN


@pytest.mark.parametrize("text", ["", "==ERROR== something", '"ID","Process ID"\n"1","2"\n'])
def test_no_table_is_an_error(text: str) -> None:
    with pytest.raises(NsyswrapError, match="no table of kernels"):
        launches_in(text)


def test_a_line_that_is_cut_off_is_left_out() -> None:
    text = page({"name": PACKED, ALL: "8 (HMMA: 8)"}, {"name": PRODUCT, ALL: "8 (HGMMA: 8)"})
    cut = text[: text.rindex(PRODUCT) + 5]
    assert [each.name for each in launches_in(cut)] == [PACKED]


@pytest.mark.slow
@given(
    st.dictionaries(st.from_regex(r"[A-Z][A-Z0-9]{1,6}(\.[A-Z0-9]{1,5}){0,3}", fullmatch=True), st.integers(0, 10**15))
)
def test_any_opcodes_are_read_back(counts: dict[str, int]) -> None:
    cell = f"{sum(counts.values()):,} ({'; '.join(f'{key}: {value:,}' for key, value in counts.items())})"
    assert opcodes_in(cell) == counts


def test_one_launch_on_tensor_cores_is_proof() -> None:
    used, unused, unclear = launch({"HMMA": 1}), launch({"FADD": 1}), launch()
    assert worst([unused, used, unclear]) is Proof.USED
    assert worst([unused, unclear]) is Proof.OPEN
    assert worst([unused]) is Proof.UNUSED
    assert worst([]) is Proof.OPEN


# What ncu 2025.3 printed of eleven launches on an H200: part of the kernel's name, the proof, the type of the operands.
ON_AN_H200 = [
    ("gemm_f64f64", Proof.USED, ("fp64",)),
    ("getrf_wo_pivot", Proof.USED, ("fp64",)),
    ("GeluCUDAKernelImpl", Proof.UNUSED, ()),
    ("cunn_SoftMaxForward", Proof.UNUSED, ()),
    ("nvjet_sm90_qqtst", Proof.USED, ("fp8",)),
    ("i16832gemm_s8", Proof.USED, ("int8",)),
    ("flash_bprop_wgmma", Proof.USED, ("bf16",)),
    ("f32f32_f32f32_f32", Proof.UNUSED, ()),
    ("triton_tem_fused_mm_0", Proof.USED, ("bf16",)),
    ("fprop_implicit_gemm_f16f16", Proof.USED, ("fp16",)),
    ("batchnorm_bwtr_nhwc", Proof.UNUSED, ()),
]


def test_a_real_page_of_an_h200_is_read() -> None:
    """Classified names agree with it. The half-precision softmax executes only HFMA2.MMA."""
    launches = launches_in((Path(__file__).parents[2] / "data" / "ncu_h200.csv").read_text(encoding="utf-8"))
    for launch, (part, proof, precisions) in zip(launches, ON_AN_H200, strict=True):
        assert part in launch.name
        assert (launch.proof, launch.precisions) == (proof, precisions)
        verdict = classify(launch.name, (9, 0)).verdict
        assert verdict is Verdict.UNKNOWN or (verdict is Verdict.TENSOR) == (proof is Proof.USED)
    softmax = launches[3]
    assert softmax.opcodes["HFMA2.MMA"] == 147_520
