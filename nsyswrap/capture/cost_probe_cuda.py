"""The CUDA calls of the program that measures what nsys adds to a call, through the C interface of CUDA.

It launches through the CUDA runtime, as PyTorch does, where a runtime is installed that can load a kernel from its
text; else through the driver.
"""

import ctypes
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

Call = Callable[[], object]

SMALL_BYTES = 4096
GRAPH_NODES = 20
# Kernels that wait in the queue while one runs, to time them without the host: fewer than a stream holds.
QUEUED = 400
SPIN_CYCLES = 12_000_000

DRIVER = "libcuda.so.1"
RUNTIME = "nvidia/*/lib/libcudart.so.*"
SYSTEM_RUNTIMES = ("usr/local/cuda*/lib64/libcudart.so.*", "usr/lib/*-linux-gnu/libcudart.so.*")
# cudaLibraryLoadData is in the runtime since this version; without it only the driver can launch this program's kernel.
LIBRARY_VERSION = 12080

PARAMETERS = 8
PTX = """.version 6.3
.target sm_75
.address_size 64
.visible .entry nothing({parameters}) {{ ret; }}
.visible .entry spin(.param .u64 cycles) {{
  .reg .u64 %r<4>;
  .reg .pred %p;
  ld.param.u64 %r1, [cycles];
  mov.u64 %r2, %clock64;
again:
  mov.u64 %r3, %clock64;
  sub.u64 %r3, %r3, %r2;
  setp.lt.u64 %p, %r3, %r1;
  @%p bra again;
  ret;
}}
""".format(parameters=", ".join(f".param .u64 p{number}" for number in range(PARAMETERS)))


class Dim3(ctypes.Structure):
    """The size of a grid or a block."""

    _fields_ = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))


ONE = Dim3(1, 1, 1)


class Cuda:
    """Calls of the CUDA runtime, or of the driver where there is no runtime.

    Raises:
        OSError: There is no driver, no GPU, or a call fails.
    """

    def __init__(self) -> None:
        self.driver = ctypes.CDLL(DRIVER)
        self._check(self.driver.cuInit(0))
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._check(self.driver.cuDeviceGet(ctypes.byref(device), 0))
        self._check(self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        self._check(self.driver.cuCtxSetCurrent(context))
        self.stream = ctypes.c_void_p()
        self._check(self.driver.cuStreamCreate(ctypes.byref(self.stream), 1))
        module = ctypes.c_void_p()
        self._check(self.driver.cuModuleLoadData(ctypes.byref(module), PTX.encode()))
        self.nothing, self.spin = ctypes.c_void_p(), ctypes.c_void_p()
        self._check(self.driver.cuModuleGetFunction(ctypes.byref(self.nothing), module, b"nothing"))
        self._check(self.driver.cuModuleGetFunction(ctypes.byref(self.spin), module, b"spin"))
        values = [ctypes.c_uint64(SPIN_CYCLES) for _ in range(PARAMETERS)]
        self._values = values
        self.arguments = (ctypes.c_void_p * PARAMETERS)(*(ctypes.addressof(each) for each in values))
        self.host, self.there = ctypes.c_void_p(), ctypes.c_uint64()
        self._check(self.driver.cuMemHostAlloc(ctypes.byref(self.host), ctypes.c_size_t(SMALL_BYTES), 0))
        self._check(self.driver.cuMemAlloc_v2(ctypes.byref(self.there), ctypes.c_size_t(SMALL_BYTES)))
        self._timed = ctypes.c_void_p(), ctypes.c_void_p()
        for event in self._timed:
            self._check(self.driver.cuEventCreate(ctypes.byref(event), 0))
        self.runtime, self.kernel = self._loaded_runtime()

    def _loaded_runtime(self) -> tuple[Any, ctypes.c_void_p]:
        for path in runtimes():
            version, library, kernel = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
            try:
                runtime = ctypes.CDLL(path)
                self._check(runtime.cudaRuntimeGetVersion(ctypes.byref(version)))
                if version.value < LIBRARY_VERSION:
                    continue
                none = ctypes.c_void_p()
                code = PTX.encode()
                self._check(runtime.cudaLibraryLoadData(ctypes.byref(library), code, none, none, 0, none, none, 0))
                self._check(runtime.cudaLibraryGetKernel(ctypes.byref(kernel), library, b"nothing"))
            except (OSError, AttributeError):
                continue
            return runtime, kernel
        return None, ctypes.c_void_p()

    def kinds(self) -> Iterator[tuple[str, Call]]:
        """Yield the kinds of calls.

        PyTorch asks for the device before a launch, in the guard of the operator and in its kernel, and for the last
        error after it. nsys slows these queries down without recording them. So a launch is timed with and
        without these queries.
        """
        cuda, none = self.driver, ctypes.c_void_p()
        yield (
            "driver_launch",
            lambda: cuda.cuLaunchKernel(self.nothing, 1, 1, 1, 1, 1, 1, 0, self.stream, self.arguments, none),
        )
        event = ctypes.c_void_p()
        self._check(cuda.cuEventCreate(ctypes.byref(event), 2))
        yield from self._of_driver(event) if self.runtime is None else self._of_runtime(event)

    def _of_driver(self, event: ctypes.c_void_p) -> Iterator[tuple[str, Call]]:
        cuda, stream, size = self.driver, self.stream, ctypes.c_size_t(SMALL_BYTES)
        yield "copy", lambda: cuda.cuMemcpyHtoDAsync_v2(self.there, self.host, size, stream)
        yield "memset", lambda: cuda.cuMemsetD8Async(self.there, 0, size, stream)
        yield "event_record", lambda: cuda.cuEventRecord(event, stream)
        yield "event_query", lambda: cuda.cuEventQuery(event)
        yield "synchronize", lambda: cuda.cuStreamSynchronize(stream)

    def _of_runtime(self, event: ctypes.c_void_p) -> Iterator[tuple[str, Call]]:
        runtime, stream, size = self.runtime, self.stream, ctypes.c_size_t(SMALL_BYTES)
        there, device, status = ctypes.c_void_p(self.there.value), ctypes.c_int(), ctypes.c_int()

        def launch() -> int:
            return int(runtime.cudaLaunchKernel(self.kernel, ONE, ONE, self.arguments, ctypes.c_size_t(0), self.stream))

        def with_queries() -> int:
            runtime.cudaGetDevice(ctypes.byref(device))
            runtime.cudaGetDevice(ctypes.byref(device))
            return launch() or int(runtime.cudaGetLastError())

        yield "launch", launch
        yield "launch_with_queries", with_queries
        yield "copy", lambda: runtime.cudaMemcpyAsync(there, self.host, size, 1, stream)
        yield "memset", lambda: runtime.cudaMemsetAsync(there, 0, size, stream)
        yield "event_record", lambda: runtime.cudaEventRecord(event, stream)
        yield "event_query", lambda: runtime.cudaEventQuery(event)
        yield "stream_wait", lambda: runtime.cudaStreamWaitEvent(stream, event, 0)
        yield "is_capturing", lambda: runtime.cudaStreamIsCapturing(stream, ctypes.byref(status))
        yield "synchronize", lambda: runtime.cudaStreamSynchronize(stream)

    def graphs(self) -> Iterator[tuple[str, Call]]:
        """Yield launches of graphs; none without a runtime."""
        runtime, stream = self.runtime, self.stream
        for nodes in (1, GRAPH_NODES) if runtime is not None else ():
            graph = self._graph(nodes)
            yield f"graph_{nodes}", lambda graph=graph: runtime.cudaGraphLaunch(graph, stream)  # type: ignore[misc]

    def _graph(self, nodes: int) -> ctypes.c_void_p:
        graph, ready = ctypes.c_void_p(), ctypes.c_void_p()
        runtime = self.runtime
        self._check(runtime.cudaStreamBeginCapture(self.stream, 2))
        for _ in range(nodes):
            self._check(
                runtime.cudaLaunchKernel(self.kernel, ONE, ONE, self.arguments, ctypes.c_size_t(0), self.stream)
            )
        self._check(runtime.cudaStreamEndCapture(self.stream, ctypes.byref(graph)))
        self._check(runtime.cudaGraphInstantiate(ctypes.byref(ready), graph, ctypes.c_ulonglong(0)))
        return ready

    def settle(self) -> None:
        """Wait until the GPU has done all work."""
        self._check(self.driver.cuStreamSynchronize(self.stream))

    def queued(self) -> float:
        """Return the mean time of a kernel on the GPU when all kernels wait in the queue, in ns."""
        cuda, none, length_ms = self.driver, ctypes.c_void_p(), ctypes.c_float()
        first, last = self._timed
        cuda.cuLaunchKernel(self.spin, 1, 1, 1, 1, 1, 1, 0, self.stream, self.arguments, none)
        cuda.cuEventRecord(first, self.stream)
        for _ in range(QUEUED):
            cuda.cuLaunchKernel(self.nothing, 1, 1, 1, 1, 1, 1, 0, self.stream, self.arguments, none)
        cuda.cuEventRecord(last, self.stream)
        self.settle()
        self._check(cuda.cuEventElapsedTime(ctypes.byref(length_ms), first, last))
        return length_ms.value * 1e6 / QUEUED

    @staticmethod
    def _check(result: int) -> None:
        if result:
            raise OSError(f"CUDA answered {result}")


def runtimes(places: Iterable[str] | None = None) -> Iterator[str]:
    """Yield the paths of the CUDA runtimes of this machine: those of this Python first, then those of the system.

    Args:
        places: Folders of packages; None for those of this Python.
    """
    for place in map(Path, sys.path if places is None else places):
        if place.is_dir():
            yield from map(str, sorted(place.glob(RUNTIME), reverse=True))
    for pattern in SYSTEM_RUNTIMES:
        yield from map(str, sorted(Path("/").glob(pattern), reverse=True))
