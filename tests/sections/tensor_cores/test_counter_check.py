"""The tensor-core counter: its share of kernel time, and where it disagrees with the names of kernels."""

import pytest
from analysis_fixtures import run_section, window
from export_builder import ExportBuilder, trace_of

from nsyswrap.loop.context import find_context
from nsyswrap.model import Section, Severity
from nsyswrap.sections.tensor_cores import section as tensor_cores
from nsyswrap.trace.tables import Trace

TENSOR = (
    "sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"
)
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
UNKNOWN = "my_own_kernel(float*)"


def section(trace: Trace, start: int = 0, end: int = 1000) -> Section:
    """Return the section on tensor cores."""
    return run_section(tensor_cores, find_context(trace), window(start, end))


def share(trace: Trace, start: int = 0, end: int = 1000) -> float | None:
    fact = section(trace, start, end).fact("counter_share")
    assert fact is not None
    assert not isinstance(fact.value, str)
    return fact.value


def share_low(trace: Trace) -> float:
    """Return the lower bound of the share by counter."""
    fact = section(trace).fact("counter_share_low")
    assert fact is not None
    assert isinstance(fact.value, float)
    return fact.value


def rules(trace: Trace) -> list[str]:
    """Return the rules of the findings about the counter."""
    return [finding.headline for finding in section(trace).findings if finding.rule == "tensor_cores/counter_disagrees"]


def run(name: str, value: int, busy: int = 1000) -> ExportBuilder:
    """Return a kernel from 0 to ``busy``, with a counter that is ``value`` during the kernel and 0 after it."""
    samples = [(at, value if at < busy else 0) for at in range(0, 1100, 100)]
    return ExportBuilder().gpu().kernel(0, busy, name).metric("Tensor Active [Throughput %]", samples)


def test_the_share_is_the_integral_over_kernel_time() -> None:
    """The counter is 40 % during 500 ns of kernels. Idle time does not lower the share."""
    assert share(trace_of(run(TENSOR, 40, busy=500))) == pytest.approx(0.4)


def test_kernels_that_overlap_count_once() -> None:
    assert share(trace_of(run(TENSOR, 40).kernel(0, 1000, ELEMENTWISE, stream=8))) == pytest.approx(0.4)


def test_copies_and_collectives_are_not_kernel_time() -> None:
    builder = run(TENSOR, 40, busy=500).copy(500, 700).kernel(700, 1000, "ncclDevKernel_AllReduce")
    assert share(trace_of(builder)) == pytest.approx(0.4)


def test_only_time_that_was_sampled_counts() -> None:
    """The kernel continues after the last sample."""
    builder = ExportBuilder().kernel(0, 1000, TENSOR).metric("Tensor Active", [(0, 30), (100, 30), (200, 30)])
    assert share(trace_of(builder)) == pytest.approx(0.3)


def test_without_the_counter_there_is_no_share() -> None:
    assert share(trace_of(ExportBuilder().kernel(0, 10, TENSOR))) is None


def test_without_samples_of_each_gpu_there_is_no_share() -> None:
    """A share of one GPU alone cannot be compared with bounds over both GPUs."""
    assert share(trace_of(run(TENSOR, 40).kernel(0, 10, TENSOR, device=1))) is None


def test_two_sampled_gpus_are_weighted_by_their_kernel_time() -> None:
    builder = run(TENSOR, 40).kernel(0, 500, TENSOR, device=1)
    builder.metric("Tensor Active [Throughput %]", [(0, 10), (500, 0)], device=1)
    assert share(trace_of(builder)) == pytest.approx((400 + 50) / 1500)


def test_turings_counter_is_no_tensor_share() -> None:
    """On Turing it counts half-precision arithmetic of the ordinary cores as well."""
    builder = ExportBuilder().kernel(0, 100, TENSOR)
    assert share(trace_of(builder.metric("Tensor Active / FP16 Active [Throughput %]", [(0, 40), (50, 40)]))) is None


def test_a_window_without_samples_has_no_share() -> None:
    builder = ExportBuilder().kernel(0, 900, TENSOR).metric("Tensor Active", [(5000, 1), (5100, 1)])
    assert share(trace_of(builder)) is None


def test_tensor_work_in_kernels_named_as_without_it_is_a_finding() -> None:
    trace = trace_of(run(ELEMENTWISE, 3))
    assert rules(trace) == ["The hardware counted more tensor-core work than the kernels' names allow."]
    (finding,) = section(trace).findings
    assert finding.severity is Severity.NOTE
    assert finding.evidence[0] == "tensor pipes active 2.0 to 3.0 % of the time in kernels, by counter"


@pytest.mark.parametrize(("tensor", "found"), [(9, 1), (11, 0)])
def test_a_hundredth_of_kernel_time_is_noise(tensor: int, found: int) -> None:
    """Tensor pipes were active for 20 ns of 1000 at least, and a kernel of some ns uses them by its name."""
    samples = [(at, 5 if at < 500 else 0) for at in range(0, 1100, 100)]
    builder = ExportBuilder().gpu().kernel(0, tensor, TENSOR).kernel(tensor, 1000, ELEMENTWISE)
    assert len(rules(trace_of(builder.metric("Tensor Active [Throughput %]", samples)))) == found


def test_samples_that_are_all_but_idle_are_no_finding() -> None:
    """A kernel of 1 ns in each 100 ns gives a counter of 1 %, as if it were active all the time."""
    samples = [(at, 1) for at in range(0, 1100, 100)]
    builder = ExportBuilder().metric("Tensor Active", samples)
    for at in range(0, 1000, 100):
        builder.kernel(at, at + 1, ELEMENTWISE)
    trace = trace_of(builder)
    assert share(trace) == pytest.approx(1.0)
    assert share_low(trace) == 0
    assert rules(trace) == []


def test_the_share_has_a_lower_bound() -> None:
    assert share_low(trace_of(run(TENSOR, 40, busy=500))) == pytest.approx(0.39)


def test_a_kernel_of_unknown_name_may_do_the_work() -> None:
    assert rules(trace_of(run(UNKNOWN, 60))) == []


def test_a_graph_traced_as_a_whole_may_do_the_work() -> None:
    builder = ExportBuilder().kernel(0, 10, ELEMENTWISE).graph(10, 1000)
    samples = [(at, 50) for at in range(0, 1000, 100)]
    assert rules(trace_of(builder.metric("Tensor Active", samples))) == []


def test_more_work_than_the_tensor_kernels_had_time_for_is_a_finding() -> None:
    """A tensor kernel that ran a tenth of the time cannot have used half of the pipes all the time."""
    samples = [(at, 50) for at in range(0, 1000, 100)]
    builder = ExportBuilder().kernel(0, 100, TENSOR).kernel(100, 1000, ELEMENTWISE)
    assert len(rules(trace_of(builder.metric("Tensor Active", samples)))) == 1


@pytest.mark.parametrize(("value", "few"), [(0, True), (2, True), (4, False)])
def test_tensor_kernels_that_do_almost_no_tensor_work_are_a_finding(value: int, *, few: bool) -> None:
    said = "By their names kernels use tensor cores, but the hardware counted almost no tensor-core work."
    assert rules(trace_of(run(TENSOR, value))) == [said] * few


def test_a_difference_within_rounding_is_no_finding() -> None:
    """A kernel with 4 % in a twentieth of each sample gives a counter of 0."""
    assert rules(trace_of(run(TENSOR, 0, busy=200))) == []
