"""Measure how fast this machine copies between pinned memory and a GPU: the speed that pageable copies could reach.

Run as a program it prints the rates as JSON; `profile` runs it in a separate process, so that no CUDA context stays
open. It calls only the driver (libcuda), so it needs neither torch nor the CUDA runtime.
"""

import ctypes
import json
import sys
import time
from collections.abc import Callable

from nsyswrap.capture.kept_measurement import DRIVER
from nsyswrap.capture.process import output_of

# Large enough that starting a copy does not count, small enough to be quick: 64 MiB take about a millisecond.
COPY_BYTES = 64 << 20
REPEATS = 7
TIMEOUT_S = 30
LIBRARY = "libcuda.so.1"


def copy_rates() -> dict[str, dict[str, float]]:
    """Return the rates of pinned copies by direction, as `run.json` keeps them; empty where there is no GPU.

    Each direction, "Host-to-Device" and "Device-to-Host", has ``low_bytes_per_second`` and ``high_bytes_per_second``,
    the slowest and the fastest of several copies.
    """
    if not DRIVER.exists():
        return {}
    try:
        found = output_of([sys.executable, "-m", "nsyswrap.capture.copy_rates"], timeout_s=TIMEOUT_S)
    except (OSError, TimeoutError):
        return {}
    try:
        rates: dict[str, dict[str, float]] = {} if found.code else json.loads(found.stdout)
    except ValueError:
        return {}
    return rates


def measure() -> dict[str, dict[str, float]]:
    """Measure the rates in this process.

    Raises:
        OSError: The driver cannot be loaded, or one of its calls fails.
    """
    cuda = ctypes.CDLL(LIBRARY)
    _check(cuda.cuInit(0))
    device, context = ctypes.c_int(), ctypes.c_void_p()
    _check(cuda.cuDeviceGet(ctypes.byref(device), 0))
    _check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    _check(cuda.cuCtxSetCurrent(context))
    host, there = ctypes.c_void_p(), ctypes.c_uint64()
    _check(cuda.cuMemHostAlloc(ctypes.byref(host), ctypes.c_size_t(COPY_BYTES), 0))
    _check(cuda.cuMemAlloc_v2(ctypes.byref(there), ctypes.c_size_t(COPY_BYTES)))
    size = ctypes.c_size_t(COPY_BYTES)
    return {
        "Host-to-Device": _rates(lambda: cuda.cuMemcpyHtoD_v2(there, host, size)),
        "Device-to-Host": _rates(lambda: cuda.cuMemcpyDtoH_v2(host, there, size)),
    }


def _rates(copy: Callable[[], int]) -> dict[str, float]:
    """Return the slowest and the fastest rate of some copies; the first one warms up and does not count."""
    times = []
    for _ in range(REPEATS + 1):
        began = time.perf_counter()
        _check(copy())
        times.append(time.perf_counter() - began)
    return {
        "low_bytes_per_second": COPY_BYTES / max(times[1:]),
        "high_bytes_per_second": COPY_BYTES / min(times[1:]),
    }


def _check(result: int) -> None:
    """Raise an error where a call of the driver failed."""
    if result:
        raise OSError(f"the CUDA driver answered {result}")


def main() -> int:
    """Print the rates as JSON; return 1 where they cannot be measured."""
    try:
        sys.stdout.write(json.dumps(measure()) + "\n")
    except OSError as error:
        sys.stderr.write(f"nsyswrap: copy rates were not measured: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
