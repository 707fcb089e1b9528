"""Agreement of kernel names with hardware: which kernels are measured, how often both agree, learned rules."""

from collections.abc import Callable

import pandas as pd
import pytest
from analysis_fixtures import whole_session, window
from export_builder import ExportBuilder, trace_of
from ncu_fixtures import LAYOUT, PACKED, PRODUCT, SIMT, TRITON
from real_captures import of_captures

from nsyswrap.hardware.kernel_names.classify import Verdict, classify
from nsyswrap.hardware.kernel_names.user_rules import NameRule
from nsyswrap.loop.context import Settings, find_context
from nsyswrap.sections.tensor_cores.hardware_proof import NcuLaunch
from nsyswrap.sections.tensor_cores.name_agreement import (
    NameOutcome,
    choose,
    compare,
    kernel_launches,
    missed,
    rules_from,
    spelling,
)
from nsyswrap.trace.tables import Trace

H100 = (9, 0)
MMA, FMA = {"HGMMA.64x64x16.F32.BF16": 64, "HMMA.1688.F32.TF32": 8}, {"HFMA2.MMA": 512}


def rows(*parts: tuple[str, int], configurations: int = 1) -> pd.DataFrame:
    """Return launches as ``kernel_launches`` does, from names with their times and launch configurations."""
    frame = pd.DataFrame(
        [(0, name, time // configurations) for name, time in parts for _ in range(configurations)],
        columns=["device_id", "name", "total_ns"],
    )
    return frame.assign(verdict=[str(classify(name).verdict) for name in frame["name"]])


def launch(name: str, opcodes: dict[str, int]) -> NcuLaunch:
    return NcuLaunch(name, opcodes, {}, {})


def test_kernels_of_unknown_names_come_first_then_the_costliest() -> None:
    choice = choose(rows((SIMT, 500), (TRITON, 10), (PACKED, 300)), 10)
    assert choice.functions == (TRITON, SIMT, "at::native::vectorized_elementwise_kernel")
    assert (choice.launches, choice.time_share) == (3, 1.0)


def instances(count: int) -> list[tuple[str, int]]:
    """Return instances of one template with their times."""
    return [(PACKED.replace("(int)8", f"(int){number}"), 300 // count) for number in range(count)]


def test_the_budget_counts_each_instance_once_and_not_its_configurations() -> None:
    choice = choose(rows((SIMT, 500), *instances(4), (PRODUCT, 100), configurations=3), 5)
    assert choice.functions == (SIMT, "at::native::vectorized_elementwise_kernel")
    assert choice.launches == 5


def test_a_function_with_too_many_instances_leaves_room_for_others() -> None:
    assert choose(rows((SIMT, 500), *instances(9), (PRODUCT, 100)), 3).functions == (SIMT, PRODUCT)


def test_the_costliest_is_measured_even_if_not_in_all_its_instances() -> None:
    assert choose(rows(*instances(9)), 3).functions == ("at::native::vectorized_elementwise_kernel",)


def test_kernels_that_do_not_matter_are_left_out_unless_unknown() -> None:
    assert choose(rows((SIMT, 10**6), (PACKED, 99), (TRITON, 1)), 100).functions == (TRITON, SIMT)
    assert len(choose(rows((SIMT, 10**6), (PACKED, 120)), 100).functions) == 2


def test_without_kernels_none_is_chosen() -> None:
    assert choose(rows(), 10).functions == ()


@pytest.mark.parametrize(
    ("name", "opcodes", "outcome"),
    [
        (PRODUCT, MMA, NameOutcome.AGREES),
        (PRODUCT, FMA, NameOutcome.DIFFERS),
        (SIMT, FMA, NameOutcome.AGREES),
        (SIMT, MMA, NameOutcome.DIFFERS),
        (PACKED, FMA, NameOutcome.AGREES),
        (PACKED, MMA, NameOutcome.DIFFERS),
        (TRITON, MMA, NameOutcome.SETTLED),
        (TRITON, FMA, NameOutcome.SETTLED),
        (TRITON, {}, NameOutcome.OPEN),
    ],
)
def test_a_name_is_compared_with_its_measurement(name: str, opcodes: dict[str, int], outcome: NameOutcome) -> None:
    (only,) = compare(rows((name, 100)), [launch(name, opcodes)], H100).kernels
    assert only.outcome is outcome


def test_shares_are_weighted_by_time() -> None:
    """Of 1000 ns, 400 use tensor cores, 100 are settled as tensor, 300 use none, 200 were not measured."""
    launches = rows((PRODUCT, 400), (TRITON, 100), (PACKED, 300), (SIMT, 200))
    agreement = compare(launches, [launch(PRODUCT, MMA), launch(TRITON, MMA), launch(PACKED, FMA)], H100)
    assert agreement.kernel_ns == 1000
    assert agreement.measured_share == pytest.approx(0.8)
    assert agreement.tensor_share == (0.5, 0.7)
    assert agreement.named_share == (0.4, 0.5)
    assert agreement.share(NameOutcome.AGREES) == pytest.approx(0.7)
    assert sum(agreement.share(each) for each in NameOutcome) == pytest.approx(1)
    assert [each.total_ns for each in agreement.kernels] == [400, 300, 200, 100]


def test_the_spellings_of_two_tools_are_one_kernel() -> None:
    other = LAYOUT.replace("(bool)0", "0").replace("(bool)1", "1")
    (only,) = compare(rows((LAYOUT, 100)), [launch(other, FMA)], H100).kernels
    assert only.outcome is NameOutcome.AGREES


# Names as nsys writes them and as ncu 2025.3 does on its own accord (``--rename-kernels``).
SHORTENED = {
    (
        "void at::native::<unnamed>::cunn_SoftMaxForward<(int)8, c10::Half, float, c10::Half, "
        "at::native::<unnamed>::SoftMaxForwardEpilogue>(T4 *, const T2 *, int)"
    ): (
        "void unnamed>::cunn_SoftMaxForward<8, Half, float, Half, unnamed>::SoftMaxForwardEpilogue>"
        "(T4 *, const T2 *, int)"
    ),
    (
        "void at::native::vectorized_elementwise_kernel<(int)8, at::native::BinaryFunctor<c10::Half, float, "
        "at::native::binary_internal::MulFunctor<float>>, std::array<char *, (unsigned long)3>>(int, T2, T3)"
    ): (
        "void at::vectorized_elementwise_kernel<8, at::BinaryFunctor<c10::Half, float, "
        "binary_internal::MulFunctor<float>>, std::array<char *, 3>>(int, T2, T3)"
    ),
    (
        "void nhwcAddPaddingKernel<__half, float, (bool)1, (cudnnKernelDataType_t)0, void at::impl<at::X>(int)>(int)"
    ): "void nhwcAddPaddingKernel<__half, float, 1, 0, void impl<X>(int)>(int)",
}


@pytest.mark.parametrize(("nsys", "ncu"), SHORTENED.items())
def test_names_that_ncu_makes_short_are_recognised(nsys: str, ncu: str) -> None:
    assert spelling(nsys) == spelling(ncu)
    (only,) = compare(rows((nsys, 100)), [launch(ncu, FMA)], H100).kernels
    assert only.outcome is NameOutcome.AGREES


def test_instances_of_one_template_are_spelled_differently() -> None:
    assert len({spelling(name) for name, _ in instances(9)}) == 9


def test_chosen_functions_that_were_not_measured_are_listed_as_missed() -> None:
    launches = rows((SIMT, 500), (PRODUCT, 400), *instances(2))
    choice = choose(launches, 10)
    first = [launch(SIMT, FMA), launch(instances(2)[0][0], FMA)]
    assert missed(compare(launches, first, H100), choice) == (PRODUCT, "at::native::vectorized_elementwise_kernel")
    assert missed(compare(launches, [*first, launch(PRODUCT, MMA)], H100), choose(launches, 2)) == ()
    assert missed(compare(rows((SIMT, 990), (PRODUCT, 10)), first, H100), choice) == ()
    assert missed(compare(rows((SIMT, 988), (PRODUCT, 12)), first, H100), choice) == (PRODUCT,)


def test_only_kernels_that_matter_count_as_wrongly_named() -> None:
    measured = [launch(PRODUCT, FMA), launch(SIMT, FMA)]
    (wrong,) = compare(rows((PRODUCT, 12), (SIMT, 9988)), measured, H100).wrong
    assert wrong.named.name == PRODUCT
    assert compare(rows((PRODUCT, 1), (SIMT, 999)), measured, H100).wrong == ()


def test_learned_rules_settle_the_next_run() -> None:
    launches = rows((TRITON, 100), (SIMT, 50), (PACKED, 50))
    measured = [launch(TRITON, MMA), launch(SIMT, MMA), launch(PACKED, FMA)]
    learned = rules_from(compare(launches, measured, H100), "Nsight Compute 2025.3.1 on NVIDIA H100")
    assert [(rule.kernel, rule.verdict, rule.precision) for rule in learned] == [
        (TRITON, Verdict.TENSOR, "bf16"),
        (SIMT, Verdict.TENSOR, "bf16"),
    ]
    assert learned[0].source == (
        "Nsight Compute 2025.3.1 on NVIDIA H100: 72 matrix instructions, most HGMMA.64x64x16.F32.BF16"
    )
    again = compare(launches, measured, H100, learned)
    assert again.share(NameOutcome.AGREES) == 1
    assert rules_from(again, "") == ()


@pytest.mark.parametrize(
    ("name", "verdict"),
    [(PRODUCT, Verdict.SIMT_ELIGIBLE), (TRITON, Verdict.SIMT_ELIGIBLE), ("Kernel2", Verdict.NOT_ELIGIBLE)],
)
def test_matrix_work_without_tensor_cores_stays_eligible(name: str, verdict: Verdict) -> None:
    (rule,) = rules_from(compare(rows((name, 100)), [launch(name, FMA)], H100), "")
    assert rule.verdict is verdict


def test_launches_come_from_a_capture() -> None:
    """There is a row for each launch configuration. Rules from a file count in the choice of kernels, too."""
    builder = ExportBuilder().gpu()
    for at, blocks in enumerate((8, 8, 16)):
        builder.kernel(100 * at, 100 * at + 50, TRITON, gridX=blocks)
    settings = Settings(kernel_rules=(NameRule(TRITON, is_prefix=False, verdict=Verdict.TENSOR),))
    found = kernel_launches(find_context(trace_of(builder), settings), window(0, 1000))
    assert found[["name", "verdict", "total_ns"]].to_numpy().tolist() == [
        [TRITON, "tensor", 100],
        [TRITON, "tensor", 50],
    ]


@of_captures(["cnn_amp", "bench_source"], few={"cnn_amp"})
def test_real_captures_are_within_the_budget(name: str, real_trace: Callable[[str], Trace]) -> None:
    """Two hundred launches cover nearly all kernel time of a training program."""
    trace = real_trace(name)
    choice = choose(kernel_launches(find_context(trace), whole_session(trace)), 200)
    assert choice.launches <= 200
    assert choice.time_share > 0.97
