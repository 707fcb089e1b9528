"""The rates of products in a run.json are read, belong to the GPU that they were measured on, and survive a file."""

import json

import pytest

from nsyswrap.base.interval import Interval
from nsyswrap.hardware.peak_rates import NO_PRODUCT_RATES, MeasuredRates, read_product_rates
from nsyswrap.model import Gpu

MEASURED = {
    "gpu": "NVIDIA H200",
    "multiprocessors": 132,
    "rates": {"bfloat16": [650e12, 700e12, 720e12], "float16": [600e12, 680e12, 700e12], "memory": [3e12, 4e12, 4e12]},
}
H200 = Gpu(0, "NVIDIA H200", (9, 0), sm_count=132)


def test_the_peak_is_the_usual_rate_of_the_fastest_type() -> None:
    """BF16 and FP16 have one peak; what was not measured has none."""
    found = read_product_rates(MEASURED)
    assert [found.peak(H200, target) for target in ("half", "memory", "fp8")] == [700e12, 4e12, None]


@pytest.mark.parametrize("gpu", [Gpu(0, "NVIDIA H100", sm_count=132), Gpu(0, "NVIDIA H200", sm_count=66)])
def test_another_gpu_has_no_measured_peak(gpu: Gpu) -> None:
    assert read_product_rates(MEASURED).peak(gpu, "half") is None


@pytest.mark.parametrize(
    "rate", [None, 5e12, [1e12, 2e12], [2e12, 1e12, 3e12], [0, 1e12, 2e12], [1e12, "?", 2e12], [1e12, 2e12, 1e400]]
)
def test_a_damaged_rate_is_left_out_and_the_others_kept(rate: object) -> None:
    found = read_product_rates({**MEASURED, "rates": {"fp32": rate, "tf32": [1e12, 2e12, 3e12]}})
    assert found.rates == {"tf32": Interval(1e12, 2e12, 3e12)}


@pytest.mark.parametrize("measured", [None, [], "fast", {}, {"rates": []}, {**MEASURED, "multiprocessors": "many"}])
def test_what_holds_no_rates_has_none(measured: object) -> None:
    assert read_product_rates(measured) == NO_PRODUCT_RATES


def test_a_failure_is_kept() -> None:
    busy = {"rates": {}, "failure": "other processes use the GPU"}
    assert read_product_rates(busy) == MeasuredRates(failure="other processes use the GPU")


def test_rates_survive_a_file() -> None:
    found = read_product_rates(MEASURED)
    assert read_product_rates(json.loads(json.dumps(found.measured()))) == found
