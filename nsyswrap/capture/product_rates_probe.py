"""The program that measures the peaks that products of matrices reach on this GPU, and a copy in its memory.

The program's own Python runs it, which has its PyTorch and its libraries, and may lack nsyswrap. So it imports nothing
of ours. It prints JSON, or one line on why it measured nothing.

Calls wait in a queue, and events of the GPU time each of them: the CPU does not count::

    queue    |event|product|event|product|event|product|event|
"""

import ctypes
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

Call = Callable[[], object]

# The sizes of the square matrices: one of them is large enough for each GPU. A product of the larger takes 1.5 ms on an
# H100 in BF16, and 140 ms on a T4 in FP32.
SIZES = 4096, 8192
# How many calls of a kind warm up, and are timed at least; and how long they go on, in s.
WARM_UP, FEWEST, SPEND_S = 2, 4, 0.15
# Many times the size of a cache.
COPY_BYTES = 1 << 29
# The first compute capabilities with products in BF16 and TF32, and in FP8. Source: NVIDIA's CUDA programming guide.
AMPERE, ADA = (8, 0), (8, 9)
FP8 = "float8_e4m3fn"
# How long the process of a program that has ended may still use the GPU.
LEAVE_S = 2.0
_PLACE_BYTES = 64


def processes_on_gpu() -> int:
    """Return how many processes compute on the first GPU that is visible; 0 where the driver does not say.

    Raises:
        OSError: There is no driver or no GPU.
    """
    driver, place, device = ctypes.CDLL("libcuda.so.1"), ctypes.create_string_buffer(_PLACE_BYTES), ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0):
        raise OSError("no GPU is visible")
    driver.cuDeviceGetPCIBusId(place, _PLACE_BYTES, device)
    nvml, handle, count = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), ctypes.c_uint(0)
    if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByPciBusId_v2(place, ctypes.byref(handle)):
        return 0
    # With no room for the list, NVML returns only its length.
    nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), None)
    return count.value


def is_busy() -> bool:
    """Return whether other processes use the GPU, also after some time."""
    ends = time.monotonic() + LEAVE_S
    while processes_on_gpu():
        if time.monotonic() > ends:
            return True
        time.sleep(LEAVE_S / 10)
    return False


class Calls:
    """The calls that are timed, on a device."""

    def __init__(self, torch: Any, device: str) -> None:  # noqa: ANN401 - a module without types
        self._torch, self._device = torch, device

    def kinds(self, capability: tuple[int, int]) -> Iterator[tuple[str, list[tuple[int, Call]]]]:
        """Yield each kind with its calls: the operations or bytes of a call, and the call.

        GPUs of an older compute capability have fewer kinds.
        """
        torch = self._torch
        yield "memory", [self._copy()]
        yield "float16", [self._product(size, torch.float16) for size in SIZES]
        torch.set_float32_matmul_precision("highest")
        yield "fp32", [self._product(size, torch.float32) for size in SIZES]
        if capability >= AMPERE:
            yield "bfloat16", [self._product(size, torch.bfloat16) for size in SIZES]
            torch.set_float32_matmul_precision("high")
            yield "tf32", [self._product(size, torch.float32) for size in SIZES]
        if capability >= ADA and hasattr(torch, FP8) and hasattr(torch, "_scaled_mm"):
            yield "fp8", [self._scaled_product(size) for size in SIZES]

    def _copy(self) -> tuple[int, Call]:
        source, target = (self._torch.zeros(COPY_BYTES, dtype=self._torch.uint8, device=self._device) for _ in range(2))
        return 2 * COPY_BYTES, lambda: target.copy_(source)

    def _product(self, size: int, dtype: object) -> tuple[int, Call]:
        left, right, out = (self._matrix(size).to(dtype) for _ in range(3))
        return 2 * size**3, lambda: self._torch.mm(left, right.t(), out=out)

    def _scaled_product(self, size: int) -> tuple[int, Call]:
        left, right = (self._matrix(size).to(getattr(self._torch, FP8)) for _ in range(2))
        one = self._torch.ones((), device=self._device)
        chosen = {"scale_a": one, "scale_b": one, "out_dtype": self._torch.bfloat16, "use_fast_accum": True}
        return 2 * size**3, lambda: self._torch._scaled_mm(left, right.t(), **chosen)  # noqa: SLF001

    def _matrix(self, size: int) -> Any:  # noqa: ANN401 - a tensor
        """Return random numbers: the power that a product needs depends on them."""
        return self._torch.randn(size, size, device=self._device)


def seconds_of(torch: Any, call: Call) -> list[float]:  # noqa: ANN401 - a module without types
    """Return how long each of some calls takes on the GPU, in s."""
    for _ in range(WARM_UP):
        call()
    found: list[float] = []
    began = time.perf_counter()
    while len(found) < FEWEST or time.perf_counter() - began < SPEND_S:
        events = [torch.cuda.Event(enable_timing=True) for _ in range(FEWEST + 1)]
        events[0].record()
        for event in events[1:]:
            call()
            event.record()
        torch.cuda.synchronize()
        found += [start.elapsed_time(end) / 1e3 for start, end in pairwise(events)]
    return found


def measure(torch: Any, device: str = "cuda") -> dict[str, object]:  # noqa: ANN401 - a module without types
    """Return the GPU and its rates: of each kind the lowest, the usual and the highest, of the faster size.

    A kind that this PyTorch cannot compute is left out.

    Raises:
        AssertionError, RuntimeError: PyTorch cannot use the GPU, or there is not enough memory.
    """
    gpu = torch.cuda.get_device_properties(0)
    rates: dict[str, list[float]] = {}
    kinds = Calls(torch, device).kinds((gpu.major, gpu.minor))
    for kind, calls in kinds:
        try:
            timed = [(work, seconds_of(torch, call)) for work, call in calls]
        except (RuntimeError, TypeError) as error:
            sys.stderr.write(f"{kind}: {error}\n")
            continue
        work, seconds = max(timed, key=lambda each: each[0] / statistics.median(each[1]))
        rates[kind] = [work / each for each in (max(seconds), statistics.median(seconds), min(seconds))]
    return {"gpu": gpu.name, "multiprocessors": gpu.multi_processor_count, "rates": rates}


def main() -> int:
    """Print the rates as JSON; return 1 where they cannot be measured, with the reason."""
    try:
        if is_busy():
            sys.stderr.write("other processes use the GPU\n")
            return 1
        import torch  # noqa: PLC0415 - it takes seconds, and may be missing

        found = measure(torch)
        # Its own process is one, if the driver counts it.
        if processes_on_gpu() > 1:
            sys.stderr.write("other processes used the GPU meanwhile\n")
            return 1
    except (ImportError, OSError, AssertionError, AttributeError, RuntimeError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
