"""GPU clocks are read with NVML. Its calls are replaced, because tests run without a driver."""

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from nsyswrap.capture.nvml import COLUMNS, GpuReader, readers

MISSING, NO_ROOM = 3, 7


def gives(number: int) -> Callable[..., int]:
    """Return a call that writes a number to its last argument."""

    def call(*arguments: Any) -> int:  # noqa: ANN401 - values of ctypes
        written(arguments[-1], number)
        return 0

    return call


def written(place: Any, number: int) -> None:  # noqa: ANN401 - a reference of ctypes
    """Write a number where a reference of ctypes points to."""
    place._obj.value = number  # noqa: SLF001 - the only way to what byref() refers to


def _name(_handle: object, text: Any, _size: object) -> int:  # noqa: ANN401
    text.value = b"NVIDIA H200"
    return 0


def _running(_handle: object, count: Any, _list: object) -> int:  # noqa: ANN401
    written(count, 2)
    return NO_ROOM


def _place(_handle: object, place: Any) -> int:  # noqa: ANN401
    ctypes.memmove(ctypes.addressof(place) + 36, b"00000000:1B:00.0\0", 17)
    return 0


def driver() -> SimpleNamespace:
    """Return a library with the calls of NVML that a reader makes."""
    return SimpleNamespace(
        nvmlDeviceGetName=_name,
        nvmlDeviceGetMaxClockInfo=gives(1980),
        nvmlDeviceGetEnforcedPowerLimit=gives(700_000),
        nvmlDeviceGetClockInfo=gives(1410),
        nvmlDeviceGetCurrentClocksEventReasons=gives(0x4),
        nvmlDeviceGetPowerUsage=gives(698_765),
        nvmlDeviceGetTemperature=gives(61),
        nvmlDeviceGetComputeRunningProcesses_v3=_running,
        nvmlDeviceGetPciInfo_v3=_place,
        nvmlDeviceGetTotalEnergyConsumption=gives(5_000_000_000),
    )


def reader_of(library: Any) -> GpuReader:  # noqa: ANN401 - a stand-in for a library
    return GpuReader(library, ctypes.c_void_p(1), 0)


def test_a_reader_describes_its_gpu() -> None:
    about = reader_of(driver()).description
    assert about["name"] == "NVIDIA H200"
    assert about["bus"] == "00000000:1B:00.0"
    assert (about["max_sm_mhz"], about["power_limit_mw"]) == (1980, 700_000)


def test_a_reader_returns_the_state_of_its_gpu() -> None:
    """Power is rounded to 10 W, so that rows are often equal."""
    assert dict(zip(COLUMNS, reader_of(driver()).state() or (), strict=True)) == {
        "sm_mhz": 1410,
        "reasons": 4,
        "power_mw": 700_000,
        "celsius": 61,
        "processes": 2,
    }


def test_the_energy_is_more_than_four_bytes_hold() -> None:
    assert reader_of(driver()).energy_mj() == 5_000_000_000


def test_a_gpu_without_a_counter_has_no_energy() -> None:
    without, failing = driver(), driver()
    del without.nvmlDeviceGetTotalEnergyConsumption
    failing.nvmlDeviceGetTotalEnergyConsumption = lambda *_arguments: MISSING
    assert [reader_of(each).energy_mj() for each in (without, failing)] == [None, None]


def test_an_older_driver_has_another_name_for_the_reasons() -> None:
    old = driver()
    del old.nvmlDeviceGetCurrentClocksEventReasons
    assert reader_of(old).state() is None
    old.nvmlDeviceGetCurrentClocksThrottleReasons = gives(0x20)
    state = reader_of(old).state()
    assert state is not None
    assert state[1] == 0x20


@pytest.mark.parametrize("missing", ["nvmlDeviceGetClockInfo", "nvmlDeviceGetCurrentClocksEventReasons"])
def test_without_clock_or_reasons_there_is_no_state(missing: str) -> None:
    broken = driver()
    setattr(broken, missing, lambda *_arguments: MISSING)
    assert reader_of(broken).state() is None


def test_without_a_driver_there_are_no_gpus() -> None:
    with readers("libno-such-library.so.1") as found:
        assert found == []
