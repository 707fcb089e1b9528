"""Kernels of many shapes, to check theoretical occupancy against Nsight Compute: threads, registers, shared memory.

Each shape is compiled as a kernel of its own, `shape_<threads>_<registers>_<KiB>`, and launched once by CuPy.
"""

import importlib
from typing import Any, NamedTuple

SOURCE = """
extern "C" __global__ void __launch_bounds__({threads}) {name}(float* out, int rounds) {{
    extern __shared__ float held[];
    float part[{width}];
    #pragma unroll
    for (int at = 0; at < {width}; ++at) part[at] = out[(threadIdx.x + at * 31) & 1023];
    for (int round = 0; round < rounds; ++round) {{
        #pragma unroll
        for (int at = 0; at < {width}; ++at) part[at] = part[at] * 1.0001f + part[(at + 1) % {width}];
    }}
    float sum = 0.f;
    #pragma unroll
    for (int at = 0; at < {width}; ++at) sum += part[at];
    if ({shared} > 0) {{ held[threadIdx.x % ({shared} / 4 + 1)] = sum; __syncthreads(); sum += held[0]; }}
    out[(blockIdx.x * blockDim.x + threadIdx.x) & 1023] = sum;
}}
"""


class Shape(NamedTuple):
    """One launch: threads of a block, about how many registers, KiB of dynamic shared memory, blocks."""

    threads: int
    width: int
    shared_kib: int
    blocks: int


SHAPES = (
    Shape(32, 4, 0, 4096),
    Shape(64, 4, 0, 2048),
    Shape(96, 16, 0, 1000),
    Shape(128, 32, 0, 264),
    Shape(192, 64, 0, 512),
    Shape(256, 24, 0, 264),
    Shape(256, 64, 0, 264),
    Shape(256, 120, 0, 132),
    Shape(320, 48, 8, 300),
    Shape(384, 80, 0, 132),
    Shape(512, 40, 0, 64),
    Shape(768, 32, 0, 132),
    Shape(1024, 16, 0, 132),
    Shape(1024, 40, 0, 12),
    Shape(128, 16, 16, 1056),
    Shape(128, 16, 48, 264),
    Shape(256, 16, 64, 264),
    Shape(256, 100, 100, 132),
    Shape(64, 8, 5, 3000),
    Shape(128, 8, 227, 132),
)


def main() -> None:
    cupy: Any = importlib.import_module("cupy")
    out = cupy.zeros(1024, cupy.float32)
    for threads, width, shared_kib, blocks in SHAPES:
        name, shared = f"shape_{threads}_{width}_{shared_kib}", shared_kib * 1024
        source = SOURCE.format(name=name, threads=threads, width=width, shared=shared)
        kernel = cupy.RawKernel(source, name)
        if shared > 48 * 1024:
            kernel.max_dynamic_shared_size_bytes = shared
        kernel((blocks,), (threads,), (out, cupy.int32(20)), shared_mem=shared)
    cupy.cuda.Device().synchronize()
    print(f"launched {len(SHAPES)} shapes")


if __name__ == "__main__":
    main()
