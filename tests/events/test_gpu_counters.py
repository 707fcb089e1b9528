"""Samples of counters have a length, and integrals over intervals equal the sums over nanoseconds."""

import numpy as np
import pytest
from export_builder import ExportBuilder, trace_of
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.events.gpu_counters import CounterSamples, counter_samples, find_counter_samples, period_ns

LENGTHS = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 100), st.booleans()), min_size=1, max_size=12)


def samples_of(builder: ExportBuilder) -> CounterSamples:
    (found,) = find_counter_samples(trace_of(builder))
    return found


def one_after_another(samples: list[tuple[int, int, bool]]) -> CounterSamples:
    """Place samples of a length and a value one after another from 0; the flag leaves 5 ns free after a sample."""
    start, at = [], 0
    for length, _, hole in samples:
        start.append(at)
        at += length + 5 * hole
    starts = np.array(start, np.int64)
    lengths = np.array([length for length, _, _ in samples], np.int64)
    values = np.array([value for _, value, _ in samples], np.int64)
    return counter_samples("SM Active", 0, starts, starts + lengths, values)


def by_nanosecond(one: CounterSamples) -> dict[int, int]:
    spans = zip(one.start.tolist(), one.end.tolist(), one.value.tolist(), strict=True)
    return {at: value for start, end, value in spans for at in range(start, end)}


@given(LENGTHS, st.integers(-3, 150), st.integers(0, 150))
def test_an_integral_is_the_sum_over_nanoseconds(samples: list[tuple[int, int, bool]], start: int, length: int) -> None:
    one = one_after_another(samples)
    values = by_nanosecond(one)
    inside = [values[at] for at in range(start, start + length) if at in values]
    at, end = np.array([start]), np.array([start + length])
    assert one.integral(at, end).tolist() == [sum(inside)]
    assert one.sampled(at, end).tolist() == [len(inside)]


@given(LENGTHS, st.lists(st.integers(-3, 150), min_size=2, max_size=6))
def test_the_parts_of_an_interval_add_up_to_it(samples: list[tuple[int, int, bool]], cuts: list[int]) -> None:
    one, edges = one_after_another(samples), np.array(sorted(cuts))
    parts = one.integral(edges[:-1], edges[1:])
    assert int(parts.sum()) == int(one.integral(edges[:1], edges[-1:])[0])


def test_a_sample_lasts_to_the_next_one() -> None:
    """Timestamps jitter by a nanosecond, which is not a hole. The last sample lasts one period."""
    found = samples_of(ExportBuilder().metric("SM Active", [(0, 1), (100, 2), (199, 3), (299, 4)]))
    assert found.end.tolist() == [100, 199, 299, 399]
    assert period_ns(found.start) == 100


def test_a_hole_between_samples_is_not_covered() -> None:
    found = samples_of(ExportBuilder().metric("SM Active", [(0, 1), (100, 2), (200, 3), (900, 4)]))
    assert found.end.tolist() == [100, 200, 300, 1000]
    assert [each.tolist() for each in found.spans] == [[0, 900], [300, 1000]]


def test_a_single_sample_has_no_length() -> None:
    """The length of a single sample is unknown."""
    found = samples_of(ExportBuilder().metric("SM Active", [(5, 80)]))
    assert period_ns(found.start) == 0
    assert found.sampled(np.array([0]), np.array([10])).tolist() == [0]


def test_each_counter_of_each_gpu_has_its_samples() -> None:
    builder = ExportBuilder().metric("Tensor Active", [(0, 1), (10, 2)], device=1, number=5)
    builder.metric("SM Active", [(0, 3), (10, 4)], device=1, number=4).metric("SM Active", [(5, 6)], number=4)
    found = find_counter_samples(trace_of(builder))
    assert [(each.device_id, each.name, each.value.tolist()) for each in found] == [
        (0, "SM Active", [6]),
        (1, "SM Active", [3, 4]),
        (1, "Tensor Active", [1, 2]),
    ]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("SMs Active", "sm_active"),
        ("SM Active", "sm_active"),
        ("Tensor Active / FP16 Active", "tensor_active_fp16_active"),
        ("NVLink RX Requests User Data", "nvlink_rx_requests_user_data"),
    ],
)
def test_the_key_is_the_name_in_the_form_of_a_column(name: str, key: str) -> None:
    empty = np.empty(0, np.int64)
    assert counter_samples(name, 0, empty, empty, empty).key == key


def test_a_sample_may_be_up_to_one_per_cent_less() -> None:
    """Values are rounded up: 1 means anything from above 0 to 1, and 0 means 0."""
    found = samples_of(ExportBuilder().metric("SM Active", [(0, 0), (10, 1), (20, 40)]))
    whole = np.array([0]), np.array([30])
    assert found.integral(*whole).tolist() == [410]
    assert found.at_least.integral(*whole).tolist() == [390]


def test_the_largest_value_is_that_of_samples_that_overlap() -> None:
    found = samples_of(ExportBuilder().metric("SM Active", [(0, 9), (10, 3), (20, 5), (30, 8)]))
    assert found.most(10, 25) == 5
    assert found.most(100, 200) == 0
