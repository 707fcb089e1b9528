"""The name and the grid of a kernel give bounds for its work: elements and bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.hardware.kernel_work import ElementWork, LaunchWork, element_work, is_newer, launch_work

ADD = (
    "void at::native::vectorized_elementwise_kernel<(int)8, at::native::CUDAFunctor_add<c10::BFloat16>, "
    "std::array<char *, (unsigned long)3>>(int, T2, T3)"
)
CLAMP = (
    "void at::native::vectorized_elementwise_kernel<(int)4, at::native::<unnamed>::launch_clamp_scalar("
    "at::TensorIteratorBase &, c10::Scalar, c10::Scalar, at::native::detail::ClampLimits)::[lambda() (instance 1)]::"
    "operator ()() const::[lambda() (instance 7)]::operator ()() const::[lambda(float) (instance 1)], "
    "std::array<char *, (unsigned long)2>>(int, T2, T3)"
)
TO_HALF = (
    "void at::native::vectorized_elementwise_kernel<(int)8, at::native::bfloat16_copy_kernel_cuda("
    "at::TensorIteratorBase &)::[lambda(float) (instance 1)], std::array<char *, (unsigned long)2>>(int, T2, T3)"
)
COMPARED = (
    "void at::native::vectorized_elementwise_kernel<(int)4, at::native::BinaryFunctor<float, float, bool, "
    "at::native::<unnamed>::CompareGTFunctor<float>>, std::array<char *, (unsigned long)3>>(int, T2, T3)"
)
GREATER = (
    "void at::native::vectorized_elementwise_kernel<(int)4, at::native::<unnamed>::CompareFunctor<float>, "
    "std::array<char *, (unsigned long)3>>(int, T2, T3)"
)
COMPARED_WITH_A_NUMBER = (
    "void at::native::vectorized_elementwise_kernel<(int)4, void at::native::compare_scalar_kernel<long>("
    "at::TensorIteratorBase &, at::native::<unnamed>::OpType, T1)::[lambda(long) (instance 1)], "
    "std::array<char *, (unsigned long)2>>(int, T2, T3)"
)
FILLED = (
    "void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<unsigned char>, "
    "std::array<char *, (unsigned long)1>>(int, T2, T3)"
)
MASKED = (
    "void at::native::vectorized_elementwise_kernel<(int)4, void at::native::<unnamed>::masked_scale_kernel<bool, "
    "float, float>(at::Tensor &, const at::Tensor &, const at::Tensor &, T3)::[lambda(float, bool) (instance 1)], "
    "std::array<char *, (unsigned long)3>>(int, T2, T3)"
)
SCALED = (
    "void at::native::vectorized_elementwise_kernel<(int)4, at::native::BUnaryFunctor<float, float, float, "
    "at::native::binary_internal::MulFunctor<float>>, std::array<char *, (unsigned long)2>>(int, T2, T3)"
)
INDEXED = (
    "void at::native::elementwise_kernel<(int)128, (int)4, void at::native::gpu_kernel_impl_nocast<at::native::"
    "BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float>>>("
    "at::TensorIteratorBase &, const T1 &)::[lambda(int) (instance 1)]>(int, T3)"
)
CAST = (
    "void at::native::unrolled_elementwise_kernel<at::native::CUDAFunctor_add<float>, std::array<char *, "
    "(unsigned long)3>, (int)4, TrivialOffsetCalculator<(int)2, unsigned int>, TrivialOffsetCalculator<(int)1, "
    "unsigned int>, at::native::memory::LoadWithCast<(int)2>, at::native::memory::StoreWithCast<(int)1>>(int, T1, T2)"
)
UNALIGNED = CAST.replace("LoadWithCast<(int)2>", "LoadWithoutCast").replace("StoreWithCast<(int)1>", "StoreWithoutCast")
DEPTHWISE = (
    "void at::native::<unnamed>::conv_depthwise2d_forward_kernel<(int)3, c10::BFloat16, int>("
    "at::GenericPackedTensorAccessor<const T2, (unsigned long)4, at::DefaultPtrTraits, int>, int)"
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (ADD, ElementWork(8, 8, (2, 2), 2, 3, contiguous=True)),
        (TO_HALF, ElementWork(8, 8, (4,), 2, 2, contiguous=True)),
        (CLAMP, ElementWork(4, 8, (4,), 4, 2, contiguous=True)),
        (COMPARED, ElementWork(4, 8, (4, 4), 1, 3, contiguous=True)),
        (GREATER, ElementWork(4, 8, (4, 4), 1, 3, contiguous=True)),
        (COMPARED_WITH_A_NUMBER, ElementWork(4, 8, (8,), 1, 2, contiguous=True)),
        (MASKED, ElementWork(4, 8, (4, 1), 4, 3, contiguous=True)),
        (SCALED, ElementWork(4, 8, (4,), 4, 2, contiguous=True)),
        (FILLED, ElementWork(4, 16, (), 1, 1, contiguous=True)),
        (INDEXED, ElementWork(4, 4, (2, 2), 2, 3, contiguous=False)),
        (CAST, ElementWork(4, 4, None, None, 3, contiguous=False)),
        (UNALIGNED, ElementWork(4, 4, (4, 4), 4, 3, contiguous=True)),
        (DEPTHWISE, ElementWork(1, 1, None, 2, 2, contiguous=False)),
    ],
)
def test_a_name_shows_elements_and_types(name: str, expected: ElementWork) -> None:
    assert element_work(name) == expected


def test_a_capture_of_a_newer_version_has_eight_elements_a_thread() -> None:
    """A vector of 8 shows the version; then kernels with a vector of 4 have 8 elements as well, and 16 of one byte."""
    assert [is_newer(name) for name in (ADD, CLAMP)] == [True, False]
    assert element_work(CLAMP, newer=True) == ElementWork(8, 8, (4,), 4, 2, contiguous=True)
    assert element_work(FILLED, newer=True) == ElementWork(16, 16, (), 1, 1, contiguous=True)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "triton_poi_fused_add_0",
        "my_elementwise_kernel",
        "void at::native::vectorized_elementwise_kernel<",
        "void at::native::elementwise_kernel<T, N>(int)",
        "void at::native::reduce_kernel<(int)512, (int)1, float>(T3)",
        "nvjet_sm90_tst_128x192_64x5_2x1_v_bz_coopB_NTN",
    ],
)
def test_what_a_name_does_not_show_is_unknown(name: str) -> None:
    assert element_work(name) is None


def test_a_type_that_is_not_known_leaves_the_bytes_unknown() -> None:
    """The number of elements is still known."""
    found = element_work(ADD.replace("c10::BFloat16", "my::Type"), newer=True)
    assert found is not None
    assert launch_work(found, 10, 128) == LaunchWork(9 * 1024 + 1, 10 * 1024, None, None)


def test_repeated_tensors_move_at_least_the_result() -> None:
    """At least the result is moved, 2 bytes an element. Each of the two inputs may be one repeated row."""
    found = element_work(INDEXED)
    assert found is not None
    assert launch_work(found, 3, 128) == LaunchWork(1025, 1536, 2050, 9216)


@given(st.integers(1, 1 << 31), st.sampled_from([ADD, CLAMP, INDEXED, UNALIGNED]), st.booleans())
def test_the_true_size_is_within_the_bounds(elements: int, name: str, newer: bool) -> None:  # noqa: FBT001 - drawn
    """The grid for a number of elements is computed as in PyTorch. All inputs may be the same tensor."""
    found = element_work(name, newer=newer)
    assert found is not None
    threads = 128
    for a_thread in {found.a_thread_low, found.a_thread_high}:
        blocks = -(-elements // (threads * a_thread))
        work = launch_work(found, blocks, threads)
        assert work.elements_low <= elements <= work.elements_high
        assert found.read is not None
        assert found.written is not None
        for read in (sum(found.read), max(found.read)):
            assert (work.bytes_low or 0) <= elements * (read + found.written) <= (work.bytes_high or 0)
