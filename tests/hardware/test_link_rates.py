"""The times of collectives in a run.json are read, and say how long one of another size takes."""

import pytest

from nsyswrap.hardware.link_rates import NO_LINK_RATES, published_ns, read_link_rates

MEASURED = {"gpu": "NVIDIA H200", "gpus": 2, "rates": {"AllReduce": [[1e6, 2e4], [4e6, 5e4]]}}


def test_a_size_in_between_takes_what_lies_between_and_a_larger_one_has_the_rate_of_the_largest() -> None:
    found = read_link_rates(MEASURED)
    times = [found.expected_ns("AllReduce", size) for size in (500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000)]
    assert times == [2e4, 2e4, 3e4, 5e4, 1e5]
    assert found.expected_ns("Reduce", 1_000_000) is None
    assert read_link_rates(found.measured()) == found


@pytest.mark.parametrize("times", [None, [], [[1e6, 2e4]], [[4e6, 2e4], [1e6, 5e4]], [[1e6, 0], [2e6, 1]], [[1], [2]]])
def test_damaged_times_are_left_out_and_the_others_kept(times: object) -> None:
    found = read_link_rates({**MEASURED, "rates": {**MEASURED["rates"], "Reduce": times}})  # type: ignore[dict-item]
    assert list(found.times) == ["AllReduce"]


@pytest.mark.parametrize("measured", [None, [], {}, {"rates": []}, {**MEASURED, "gpus": "two"}])
def test_what_holds_no_times_has_none(measured: object) -> None:
    assert read_link_rates(measured) == NO_LINK_RATES


@pytest.mark.parametrize(
    ("gpu", "ns"), [("NVIDIA H200", 4.0), ("NVIDIA A100-SXM4-80GB", 6.0), ("NVIDIA B200", 2.0), ("NVIDIA L40S", None)]
)
def test_half_of_the_rate_of_the_data_sheet_counts(gpu: str, ns: float | None) -> None:
    assert published_ns(gpu, 900) == (None if ns is None else pytest.approx(ns))
