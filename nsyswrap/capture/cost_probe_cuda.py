"""The CUDA calls of the program that measures what nsys adds to a call, through the C interface of CUDA.

It launches through the CUDA runtime, as PyTorch does, where a runtime is installed that can load a kernel from its
text; else through the driver.
"""

import ctypes
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

Call = Callable[[], object]

SMALL_BYTES = 4096
GRAPH_NODES = 20
# Kernels that wait in the queue while one runs, to time them without the host: fewer than a stream holds. In a graph
# about as many as a network of some layers launches.
QUEUED, QUEUED_NODES = 400, 100
# Clock cycles of the kernel that the others wait for, and of a kernel as short as the shortest ones of PyTorch: 6 ms
# and 1 us at 2 GHz.
LONG_CYCLES, SHORT_CYCLES = 12_000_000, 2_000

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
        self._values = [[ctypes.c_uint64(cycles)] * PARAMETERS for cycles in (LONG_CYCLES, SHORT_CYCLES)]
        self.arguments, self._short = (
            (ctypes.c_void_p * PARAMETERS)(*(ctypes.addressof(each) for each in values)) for values in self._values
        )
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
        yield "driver_launch", partial(self._launch, self.nothing, self.arguments)
        event = ctypes.c_void_p()
        self._check(self.driver.cuEventCreate(ctypes.byref(event), 2))
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
            graph = self._graph(partial(self._launch, self.nothing, self.arguments), nodes)
            yield f"graph_{nodes}", lambda graph=graph: runtime.cudaGraphLaunch(graph, stream)  # type: ignore[misc]

    def _launch(self, kernel: ctypes.c_void_p, arguments: Any) -> int:  # noqa: ANN401 - an array of pointers
        none = ctypes.c_void_p()
        return int(self.driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, self.stream, arguments, none))

    def _graph(self, launch: Callable[[], int], nodes: int) -> ctypes.c_void_p:
        graph, ready = ctypes.c_void_p(), ctypes.c_void_p()
        cuda = self.driver
        self._check(cuda.cuStreamBeginCapture_v2(self.stream, 2))
        for _ in range(nodes):
            self._check(launch())
        self._check(cuda.cuStreamEndCapture(self.stream, ctypes.byref(graph)))
        self._check(cuda.cuGraphInstantiateWithFlags(ctypes.byref(ready), graph, ctypes.c_ulonglong(0)))
        return ready

    def settle(self) -> None:
        """Wait until the GPU has done all work."""
        self._check(self.driver.cuStreamSynchronize(self.stream))

    def queues(self) -> Iterator[tuple[str, Callable[[], float]]]:
        """Yield what times kernels that wait in a queue of the GPU: the mean time from one to the next, in ns.

        They are launched one by one, or all in a graph. Kernels that do nothing follow each other faster than real
        ones, and recording adds less to them in a graph.
        """
        for name, kernel, arguments in (("empty", self.nothing, self.arguments), ("short", self.spin, self._short)):
            launch = partial(self._launch, kernel, arguments)
            yield f"queued_{name}_kernel", partial(self._queued, launch, QUEUED, 1)
            if self.runtime is not None:
                graph = partial(self.driver.cuGraphLaunch, self._graph(launch, QUEUED_NODES), self.stream)
                yield f"queued_{name}_node", partial(self._queued, graph, 1, QUEUED_NODES)

    def _queued(self, launch: Callable[[], int], launches: int, kernels: int) -> float:
        """Return the mean time of a kernel that waits in the queue, in ns."""
        cuda, length_ms = self.driver, ctypes.c_float()
        first, last = self._timed
        self._check(self._launch(self.spin, self.arguments))
        self._check(cuda.cuEventRecord(first, self.stream))
        for _ in range(launches):
            launch()
        self._check(cuda.cuEventRecord(last, self.stream))
        self.settle()
        self._check(cuda.cuEventElapsedTime(ctypes.byref(length_ms), first, last))
        return length_ms.value * 1e6 / (launches * kernels)

    @staticmethod
    def _check(result: int) -> None:
        if result:
            raise OSError(f"CUDA answered {result}")


def runtimes(places: Iterable[str] | None = None) -> Iterator[str]:
    """Yield the paths of the CUDA runtimes of this machine: those of this Python first, then those of the system.

    ``places`` are folders of packages; None for those of this Python.
    """
    for place in map(Path, sys.path if places is None else places):
        if place.is_dir():
            yield from map(str, sorted(place.glob(RUNTIME), reverse=True))
    for pattern in SYSTEM_RUNTIMES:
        yield from map(str, sorted(Path("/").glob(pattern), reverse=True))
