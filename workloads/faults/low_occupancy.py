"""A kernel whose blocks request far more shared memory than they use: a multiprocessor holds one of them at a time.

Each thread goes through a chain of products, and two warps cannot hide how long each of them takes. Fixed, its blocks
request only what they use.
"""

import common
import torch
from torch import Tensor

from faults import training

SHAPE = "a kernel of its own, by hand; blocks that reserve too much shared memory"
EXPECTS = {"": ("occupancy/low",), "--fixed": ()}

VALUES, BLOCK, HOPS = 1 << 24, 64, 256
RESERVED_BYTES, USED_BYTES = 200 * 1024, BLOCK * 4
RATE = 3.7
CODE = """
extern "C" __global__ void logistic_map(const float* values, float* after, int hops, int count) {
    extern __shared__ float kept[];
    int mine = blockIdx.x * blockDim.x + threadIdx.x;
    if (mine >= count) return;
    kept[threadIdx.x] = values[mine];
    float value = kept[threadIdx.x];
    for (int hop = 0; hop < hops; hop++) value = 3.7f * value * (1.0f - value);
    after[mine] = value;
}
"""


class LogisticMap:
    """Values between 0 and 1 that follow the logistic map for some hops."""

    def __init__(self, device: torch.device, shared_bytes: int) -> None:
        """Compile the kernel where there is a GPU, with the shared memory that a block reserves."""
        self.shared_bytes = shared_bytes
        self.kernel = None
        if device.type == "cuda":
            self.kernel = torch.cuda._compile_kernel(CODE, "logistic_map")  # noqa: SLF001 - its name
            self.kernel.set_shared_memory_config(shared_bytes)

    def __call__(self, values: Tensor) -> Tensor:
        """Return where float32 values [n] are after the hops."""
        if self.kernel is None:
            for _ in range(HOPS):
                values = RATE * values * (1 - values)
            return values
        after = torch.empty_like(values)
        grid = -(-len(values) // BLOCK), 1, 1
        self.kernel(grid, (BLOCK, 1, 1), (values, after, HOPS, len(values)), shared_mem=self.shared_bytes)
        return after


def main(arguments: list[str] | None = None) -> None:
    """Follow the map, and print the mean."""
    run = training.started(__doc__, arguments)
    values = torch.rand(run.size(VALUES, 1000), device=run.device)
    follow = LogisticMap(run.device, USED_BYTES if run.fixed else RESERVED_BYTES)
    for _ in training.steps(run):
        with common.phase("forward"):
            values = follow(values)
    print(f"mean {values.mean().item():.4f}")


if __name__ == "__main__":
    main()
