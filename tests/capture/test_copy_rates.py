"""The rates of pinned copies are measured on a GPU only, and a failed measurement does not end a capture."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nsyswrap.capture import copy_rates
from nsyswrap.capture.kept_measurement import DRIVER
from nsyswrap.capture.process import Output
from nsyswrap.hardware.link_rates import read_rates

MEASURED = {"Host-to-Device": {"low_bytes_per_second": 20e9, "high_bytes_per_second": 25e9}}
HAS_DRIVER = DRIVER.exists()


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Output | Exception], list[Any]]:
    """Return a function that sets the result of the measuring process and returns its calls. A driver is present."""

    def ends(how: Output | Exception) -> list[Any]:
        calls: list[Any] = []

        def output_of(argv: list[str], timeout_s: float) -> Output:
            calls.append((argv, timeout_s))
            if isinstance(how, Exception):
                raise how
            return how

        monkeypatch.setattr(copy_rates, "output_of", output_of)
        return calls

    version = tmp_path / "version"
    version.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module\n")
    monkeypatch.setattr(copy_rates, "DRIVER", version)
    return ends


def test_a_machine_without_a_driver_starts_no_process(
    ran: Callable[[Output | Exception], list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = ran(Output(0, json.dumps(MEASURED), ""))
    monkeypatch.setattr(copy_rates, "DRIVER", tmp_path / "missing")
    assert (copy_rates.copy_rates(), calls) == ({}, [])


def test_rates_are_what_a_process_of_its_own_prints(ran: Callable[[Output | Exception], list[Any]]) -> None:
    """The measurement has a separate process, so no CUDA context stays open while the program runs."""
    calls = ran(Output(0, json.dumps(MEASURED) + "\n", ""))
    assert copy_rates.copy_rates() == MEASURED
    assert calls == [([sys.executable, "-m", "nsyswrap.capture.copy_rates"], copy_rates.TIMEOUT_S)]


@pytest.mark.parametrize(
    "how", [Output(1, "", "the driver cannot be loaded"), Output(-9, "", ""), TimeoutError(), OSError("no memory")]
)
def test_a_measurement_that_fails_leaves_no_rates(
    how: Output | Exception, ran: Callable[[Output | Exception], list[Any]]
) -> None:
    calls = ran(how)
    assert (copy_rates.copy_rates(), len(calls)) == ({}, 1)


def test_rates_are_those_of_the_slowest_and_the_fastest_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are eight copies. The first takes longest because it warms up, and does not count."""
    seconds = [9.0, 2.0, 1.0, 4.0, 2.0, 2.0, 2.0, 2.0]
    edges = iter([at for length in seconds for at in (0.0, length)])
    monkeypatch.setattr("nsyswrap.capture.copy_rates.time.perf_counter", lambda: next(edges))
    copied = []

    def copy() -> int:
        copied.append(1)
        return 0

    found = copy_rates._rates(copy)  # noqa: SLF001 - the rule behind the numbers
    assert found == {
        "low_bytes_per_second": copy_rates.COPY_BYTES / 4,
        "high_bytes_per_second": copy_rates.COPY_BYTES / 1,
    }
    assert len(copied) == len(seconds)


def test_an_error_of_the_driver_is_an_error() -> None:
    with pytest.raises(OSError, match="the CUDA driver answered 2"):
        copy_rates._rates(lambda: 2)  # noqa: SLF001 - a copy that fails must not count as a fast one


def test_the_program_says_why_nothing_was_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A library that does not exist simulates a machine without a driver."""
    monkeypatch.setattr(copy_rates, "LIBRARY", "libcuda-that-does-not-exist.so.1")
    assert copy_rates.main() == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("nsyswrap: copy rates were not measured: libcuda-that-does-not-exist.so.1")


@pytest.mark.skipif(not HAS_DRIVER, reason="this machine has no GPU")
def test_a_gpu_copies_both_ways_at_a_rate_of_its_bus() -> None:
    """The rates are between 1 GB/s, which the oldest bus reaches, and 1 TB/s, which no bus reaches yet."""
    rates = read_rates(copy_rates.copy_rates())
    assert set(rates) == {"Host-to-Device", "Device-to-Host"}
    assert all(1e9 < rate.low <= rate.high < 1e12 for rate in rates.values())
