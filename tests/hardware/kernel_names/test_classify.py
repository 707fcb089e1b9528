"""Kernel names: accuracy on real names, all spellings, hostile names, and the limits of devices."""

import csv
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.hardware.kernel_names.classify import (
    FIRST_WITH,
    LONGEST,
    UNMATCHED,
    Verdict,
    classify,
    subject,
)
from nsyswrap.hardware.kernel_names.library_functions import FUNCTIONS, with_namespace

DATA = Path(__file__).parents[2] / "data"
FILES = ("tensorcore_names", "kernel_names")
VERDICTS = [each.value for each in Verdict]
# Names that do not show the precision, or that two libraries share.
PRECISION_NOT_IN_NAME = 2
LIBRARY_NOT_IN_NAME = 6
DEVICES = ((3, 5), (6, 1), (7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0))


def labelled(file: str) -> list[dict[str, str]]:
    """Return real kernel names with verdict, precision, library, operation and source."""
    with (DATA / f"{file}.csv").open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def confusion(rows: list[dict[str, str]]) -> Counter[tuple[str, str]]:
    """Return how often each label got each verdict."""
    return Counter((row["label"], classify(row["name"]).verdict.value) for row in rows)


@pytest.mark.parametrize("file", FILES)
def test_the_labels_are_complete(file: str) -> None:
    """Each name occurs once, with a known label and a source, and all four labels occur."""
    rows = labelled(file)
    assert {row["label"] for row in rows} == set(VERDICTS)
    assert len({row["name"] for row in rows}) == len(rows)
    assert all(row["source"] for row in rows)


def test_no_held_out_name_is_among_the_first_names() -> None:
    first, held_out = ({row["name"] for row in labelled(file)} for file in FILES)
    assert not first & held_out
    assert len(held_out) >= 150


@pytest.mark.parametrize("file", FILES)
def test_precision_and_recall_of_tensor(file: str) -> None:
    """Precision and recall of the verdict `tensor` are at least 0.99."""
    counts = confusion(labelled(file))
    right = counts["tensor", "tensor"]
    said = sum(count for (_, verdict), count in counts.items() if verdict == "tensor")
    true = sum(count for (label, _), count in counts.items() if label == "tensor")
    assert right / said >= 0.99
    assert right / true >= 0.99


@pytest.mark.parametrize("file", FILES)
def test_names_labelled_unknown_are_unknown(file: str) -> None:
    counts = confusion(labelled(file))
    assert {verdict for label, verdict in counts if label == "unknown"} == {"unknown"}


@pytest.mark.parametrize("file", FILES)
def test_precision_library_and_operation_agree(file: str) -> None:
    """They agree except for a few that names do not show. The precision is compared only for matrix work."""
    differ: Counter[str] = Counter()
    for row in labelled(file):
        found = classify(row["name"])
        if row["label"] in {"tensor", "simt_eligible"}:
            differ["precision"] += found.precision != row["precision"]
        differ["library"] += found.library != row["library"]
        differ["op"] += found.op != row["op_kind"]
    allowed = (PRECISION_NOT_IN_NAME, LIBRARY_NOT_IN_NAME, 0) if file == FILES[0] else (0, 0, 0)
    assert (differ["precision"], differ["library"], differ["op"]) == allowed


def test_verdicts_agree_with_the_counters() -> None:
    """On an H200, Nsight Compute measured the tensor pipe above 3 % for exactly the names with the verdict tensor.

    Products too small to fill the pipe, and elementwise kernels that use it for packed arithmetic, are not in the file.
    """
    measured = [row for row in labelled("kernel_names") if row["source"].startswith("Nsight Compute")]
    assert len(measured) >= 300
    for row in measured:
        busy = float(row["source"].split("tensor pipe ")[1].split(" %")[0])
        verdict = classify(row["name"]).verdict
        assert (verdict is Verdict.TENSOR) == (busy > 3), row["name"]


@pytest.mark.parametrize(
    "name",
    ["Kernel2", "Kernel", "kernel", "device_kernel", "vectorized_kernel", "void f<int>(int*)", "", " ", "_Z", "1"],
)
def test_a_name_that_says_nothing_is_unknown(name: str) -> None:
    """It is never not_eligible: an unknown kernel may be matrix work."""
    found = classify(name)
    assert (found.verdict, found.precision, found.op, found.rule) == (Verdict.UNKNOWN, "", "", UNMATCHED)


@pytest.mark.parametrize(
    ("nsys", "cupti"),
    [
        (
            "void flash_fwd_kernel<Flash_fwd_kernel_traits<(int)128, (int)64, cutlass::half_t>, (bool)0>(P)",
            "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64, cutlass::half_t>, false>(P)",
        ),
        (
            "void <unnamed>::softmax_warp_forward<float, float, float, (int)9, (bool)1, (bool)0>(T2 *)",
            "void (anonymous namespace)::softmax_warp_forward<float, float, float, 9, true, false>(float*)",
        ),
        (
            "void cutlass::Kernel2<cutlass_80_tensorop_d884gemm_32x32_16x5_tn_align1>(T1::Params)",
            "_ZN7cutlass7Kernel2I46cutlass_80_tensorop_d884gemm_32x32_16x5_tn_align1EEvNT_6ParamsE",
        ),
        (
            "void at::native::<unnamed>::max_pool_forward_nchw<float, int>(T2, const T1 *, long, long, long, int)",
            "_ZN2at6native12_GLOBAL__N_121max_pool_forward_nchwIfiEEvT0_PKT_lllii",
        ),
        (
            "std::enable_if<!T7, void>::type internal::gemvx::kernel<(int)1, cublasGemvParamsEx<int, float>>(T3)",
            "std::enable_if<!(false), void>::type internal::gemvx::kernel<1, cublasGemvParamsEx<int, float> >(X)",
        ),
    ],
)
def test_all_spellings_say_the_same(nsys: str, cupti: str) -> None:
    """The spellings of nsys, CUPTI and the linker give the same verdict."""
    one, two = classify(nsys), classify(cupti)
    assert one.rule != UNMATCHED
    assert (one.verdict, one.precision, one.library, one.op, one.rule) == (
        *(two.verdict, two.precision, two.library, two.op, two.rule),
    )


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("void a::<unnamed>::f<(int)4, (bool)0>(T1 *)", "a::f<4, 0>(T1 *)"),
        ("void (anonymous namespace)::f(float*)", "f(float*)"),
        ("std::enable_if<!(false), void>::type g::h<int>(int)", "g::h<int>(int)"),
        ("_ZN2at6native1fILi4EEEvT_", "at::native::f<ILi4EEEvT_"),
        ("_ZN2at12_GLOBAL__N_11fEv", "at::f<Ev"),
        ("_ZL3abcPf", "abc<Pf"),
        ("_Z", "_Z"),
        ("_ZNKSt1x", "_ZNKSt1x"),
        ("  f  ", "f"),
    ],
)
def test_names_are_normalised_for_the_rules(name: str, seen: str) -> None:
    assert subject(name) == seen


def shorter(text: str) -> list[str]:
    """Return a name without its first namespace, without its first two, and so on, as Nsight Compute may print it."""
    spaces = re.match(r"(?:\w+::)*", text)
    parts = spaces[0].split("::")[:-1] if spaces else []
    rest = text[len("".join(f"{each}::" for each in parts)) :]
    return ["::".join([*parts[count:], rest]) for count in range(1, len(parts) + 1)]


# Functions with names that say nothing without the namespace.
NAMED_BY_NAMESPACE = ("dispatch", "combine", "barrier_kernel", "router_gemm_kernel", "fused_a_gemm_kernel")


@pytest.mark.parametrize("file", FILES)
def test_a_name_without_its_namespace_gets_the_same_verdict(file: str) -> None:
    """Nsight Compute leaves namespaces out. Where only they tell what the function does, the verdict is unknown."""
    differ = []
    for row in labelled(file):
        expected = classify(row["name"]).verdict
        for name in shorter(subject(row["name"])):
            found = classify(name).verdict
            generic = name.startswith(NAMED_BY_NAMESPACE) and found is Verdict.UNKNOWN
            if found is not expected and not generic:
                differ.append((expected, found, name))
    assert differ == []


@pytest.mark.parametrize("home", sorted(FUNCTIONS))
def test_each_function_of_a_library_is_known_without_its_namespace(home: str) -> None:
    """Each name of the table is there once for its namespace, sorted, and gets the verdict of the whole name."""
    functions = FUNCTIONS[home].split()
    assert functions == sorted(set(functions))
    for function in functions:
        whole = f"{home}::{function}<int>(int)"
        found = {classify(name).verdict for name in (*shorter(whole), whole)}
        assert len(found) == 1, function


def test_a_namespace_is_restored_for_known_functions_only() -> None:
    assert with_namespace("fused_dropout_kernel<4>") == "at::native::fused_dropout_kernel<4>"
    assert with_namespace("native::fused_dropout_kernel<4>") == "at::native::fused_dropout_kernel<4>"
    for name in ("at::native::fused_dropout_kernel<4>", "mine::fused_dropout_kernel<4>", "mine<4>", "", "<4>"):
        assert with_namespace(name) == name


def test_a_name_is_read_up_to_a_length() -> None:
    assert classify("f<" + "a" * LONGEST + "MmaTensorOp").verdict is Verdict.UNKNOWN


@given(st.text(max_size=200))
def test_any_text_is_classified(name: str) -> None:
    found = classify(name)
    assert found.name == name
    assert found.verdict in VERDICTS
    assert found == classify(name)


WORDS = (
    "at::native::",
    "gemm",
    "nvjet_",
    "sm90_xmma_",
    "cutlass",
    "tensorop_",
    "_simt_",
    "f16",
    "<",
    "(",
    "flash_fwd_",
    "x",
    "_",
)


@given(st.lists(st.sampled_from(WORDS), max_size=12).map("".join), st.sampled_from(DEVICES))
def test_a_device_never_adds_tensor_cores(name: str, device: tuple[int, int]) -> None:
    """On any device, a kernel is on tensor cores only if its name says so."""
    by_name, there = classify(name).verdict, classify(name, device).verdict
    assert (there is Verdict.TENSOR) <= (by_name is Verdict.TENSOR)
    assert (there is Verdict.NOT_ELIGIBLE) or device >= (7, 0)


@given(st.sampled_from([row["name"] for row in labelled("kernel_names")]))
def test_only_matrix_work_has_a_precision(name: str) -> None:
    found = classify(name)
    assert found.precision == "" or found.verdict in {Verdict.TENSOR, Verdict.SIMT_ELIGIBLE}


@pytest.mark.parametrize(
    ("name", "device", "verdict"),
    [
        ("volta_h884gemm_64x64_nt", (6, 1), "not_eligible"),  # no tensor cores at all
        ("volta_sgemm_128x64_nt", (6, 1), "not_eligible"),
        ("fused_moe_kernel", (6, 1), "not_eligible"),
        ("Kernel2", (3, 5), "not_eligible"),
        ("volta_h884gemm_64x64_nt", (7, 0), "tensor"),
        ("volta_sgemm_128x64_nt", (7, 0), "simt_eligible"),  # half precision would help
        ("ampere_sgemm_128x64_nt", (12, 0), "simt_eligible"),
        ("Kernel2", (9, 0), "unknown"),
        ("ampere_dgemm_64x64_lower_nt", (9, 0), "simt_eligible"),
        ("volta_dgemm_64x64_nt", (7, 0), "not_eligible"),
        ("ampere_dgemm_64x64_lower_nt", (8, 6), "not_eligible"),
        ("cutlass_80_tensorop_d884gemm_64x32_16x4_nn_align1", (8, 0), "tensor"),
        ("cutlass_80_tensorop_d884gemm_64x32_16x4_nn_align1", (10, 3), "tensor"),
        ("cutlass_80_tensorop_d884gemm_64x32_16x4_nn_align1", (8, 9), "not_eligible"),
        ("ampere_bf16_s16816gemm_bf16_256x64_ldg8_f2f_tn", (8, 0), "tensor"),
        ("ampere_bf16_s16816gemm_bf16_256x64_ldg8_f2f_tn", (7, 5), "simt_eligible"),
        ("cutlass_80_tensorop_s1688gemm_64x64_32x4_tn_align1", (7, 5), "simt_eligible"),
        ("nvjet_sm90_qqtst_128x128_128x6_1x1_h_bz_coopA_algo2_ovscale_TNT", (9, 0), "tensor"),
        ("nvjet_sm90_qqtst_128x128_128x6_1x1_h_bz_coopA_algo2_ovscale_TNT", (8, 6), "simt_eligible"),
        ("nvjet_sm100_oosss_128x256_256x5_2x1_2cta_v_bz_TNT", (9, 0), "simt_eligible"),
        ("nvjet_sm100_oosss_128x256_256x5_2x1_2cta_v_bz_TNT", (10, 0), "tensor"),
        ("triton_poi_fused_relu_1", (9, 0), "not_eligible"),
    ],
)
def test_a_verdict_is_corrected_for_the_device(name: str, device: tuple[int, int], verdict: str) -> None:
    assert classify(name, device).verdict == verdict


@pytest.mark.parametrize(
    ("device", "verdict"),
    [((7, 0), "simt_eligible"), ((7, 2), "simt_eligible"), ((7, 5), "tensor"), ((12, 1), "tensor")],
)
def test_the_device_decides_how_llama_cpp_multiplies(device: tuple[int, int], verdict: str) -> None:
    """One name stands for two implementations: by int8 products on tensor cores from 7.5 on, by dp4a before."""
    name = "void mul_mat_q<(ggml_type)12, (int)64, (bool)0>(const char *, const int *)"
    assert classify(name).verdict is Verdict.TENSOR
    assert (classify(name, device).verdict, classify(name, device).precision) == (verdict, "int8")


@pytest.mark.parametrize("precision", sorted(FIRST_WITH))
def test_each_type_has_a_first_device_with_tensor_cores_for_it(precision: str) -> None:
    assert FIRST_WITH[precision] >= (7, 0)


def test_verdicts_are_words_of_the_contract() -> None:
    assert VERDICTS == ["tensor", "simt_eligible", "not_eligible", "unknown"]
    assert all(re.fullmatch(r"[a-z_]+", each) for each in VERDICTS)
