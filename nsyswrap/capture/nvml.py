"""The state of the GPUs from NVML: clocks, why they are limited, power, temperature, energy. No package is needed.

Source: nvml.h of CUDA 12 and 13 (constants) and the NVML API reference.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
COLUMNS = ("sm_mhz", "reasons", "power_mw", "celsius", "processes")

_CLOCK_SM = 1
_TEMPERATURE_GPU = 0
_TEXT_BYTES = 96
_BUS_BYTES = 68
_INSUFFICIENT_SIZE = 7
# Both names of one call: NVIDIA renamed it in CUDA 12.2.
_REASONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")


class GpuReader:
    """Reads the state of one GPU.

    Attributes:
        description: Its number and name, the highest clock of its multiprocessors in MHz, its power limit in mW, and
            its place on the bus.
    """

    def __init__(self, library: ctypes.CDLL, handle: ctypes.c_void_p, index: int) -> None:
        self._library, self._handle = library, handle
        name = ctypes.create_string_buffer(_TEXT_BYTES)
        library.nvmlDeviceGetName(handle, name, ctypes.c_uint(_TEXT_BYTES))
        self.description: dict[str, Any] = {
            "index": index,
            "name": name.value.decode(errors="replace"),
            "max_sm_mhz": self._number("nvmlDeviceGetMaxClockInfo", _CLOCK_SM) or 0,
            "power_limit_mw": self._number("nvmlDeviceGetEnforcedPowerLimit") or 0,
            "bus": self._bus(),
        }

    def state(self) -> tuple[int, ...] | None:
        """Return the values of ``COLUMNS``; None where the clock or its limits cannot be read."""
        clock, reasons = self._number("nvmlDeviceGetClockInfo", _CLOCK_SM), self._reasons()
        if clock is None or reasons is None:
            return None
        power = self._number("nvmlDeviceGetPowerUsage") or 0
        celsius = self._number("nvmlDeviceGetTemperature", _TEMPERATURE_GPU) or 0
        # Power and temperature change all the time. Power is rounded, so that more rows are equal and need not be kept.
        return clock, reasons, round(power, -4), celsius, self._processes()

    def energy_mj(self) -> int | None:
        """Return the energy since the driver was loaded, in mJ; None where the GPU has no counter, before Volta."""
        value = ctypes.c_ulonglong()
        function = getattr(self._library, "nvmlDeviceGetTotalEnergyConsumption", None)
        failed = function is None or function(self._handle, ctypes.byref(value))
        return None if failed else int(value.value)

    def _number(self, call: str, *kind: int) -> int | None:
        value = ctypes.c_uint()
        function = getattr(self._library, call, None)
        if function is None or function(self._handle, *map(ctypes.c_uint, kind), ctypes.byref(value)):
            return None
        return int(value.value)

    def _reasons(self) -> int | None:
        value = ctypes.c_ulonglong()
        for name in _REASONS:
            function = getattr(self._library, name, None)
            if function is not None:
                return None if function(self._handle, ctypes.byref(value)) else int(value.value)
        return None

    def _processes(self) -> int:
        """Return how many processes compute on the GPU; 0 where NVML does not say."""
        function = getattr(self._library, "nvmlDeviceGetComputeRunningProcesses_v3", None)
        count = ctypes.c_uint(0)
        # With no room for the list, NVML returns only its length.
        if function is None or function(self._handle, ctypes.byref(count), None) not in {0, _INSUFFICIENT_SIZE}:
            return 0
        return int(count.value)

    def _bus(self) -> str:
        """Return the place of the GPU on the PCI bus, such as "00000000:1B:00.0"; empty where it is unknown."""
        place = ctypes.create_string_buffer(_BUS_BYTES * 2)
        function = getattr(self._library, "nvmlDeviceGetPciInfo_v3", None)
        if function is None or function(self._handle, place):
            return ""
        # struct nvmlPciInfo: 16 bytes of the old form, five numbers of 4 bytes, then 32 bytes of text.
        return ctypes.string_at(ctypes.addressof(place) + 36).decode(errors="replace")


@contextmanager
def readers(library: str = LIBRARY) -> Iterator[list[GpuReader]]:
    """Yield a reader for each GPU of the machine, as long as the block lasts; none without a driver."""
    try:
        loaded = ctypes.CDLL(library)
    except OSError:
        yield []
        return
    if loaded.nvmlInit_v2():
        yield []
        return
    try:
        yield [reader for index in range(_count(loaded)) if (reader := _reader(loaded, index)) is not None]
    finally:
        loaded.nvmlShutdown()


def _count(library: ctypes.CDLL) -> int:
    count = ctypes.c_uint()
    return 0 if library.nvmlDeviceGetCount_v2(ctypes.byref(count)) else int(count.value)


def _reader(library: ctypes.CDLL, index: int) -> GpuReader | None:
    handle = ctypes.c_void_p()
    failed = library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle))
    return None if failed else GpuReader(library, handle, index)
