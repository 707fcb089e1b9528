"""A kernel whose blocks ask for far more shared memory than they use: a multiprocessor holds one of them at a time.

It reads scattered values, and few warps hide little of the wait for memory. Mended, its blocks ask for what they use.
"""

import common
import torch
from torch import Tensor

from faults import training

EXPECTS = {"": ("occupancy/low",), "--mended": ()}

VALUES, BLOCK = 1 << 24, 64
ASKED_BYTES, USED_BYTES = 200 * 1024, BLOCK * 4
CODE = """
extern "C" __global__ void gather_mean(const float* values, const int* places, float* means, int count) {
    extern __shared__ float kept[];
    int mine = blockIdx.x * blockDim.x + threadIdx.x;
    if (mine >= count) return;
    kept[threadIdx.x] = 0;
    int place = mine;
    for (int hop = 0; hop < 8; hop++) {
        place = places[place];
        kept[threadIdx.x] += values[place];
    }
    means[mine] = kept[threadIdx.x] / 8;
}
"""


class Gather:
    """The mean of the values at eight places, each of which tells the next."""

    def __init__(self, device: torch.device, shared_bytes: int) -> None:
        """Compile the kernel where there is a GPU, with the shared memory that a block asks for."""
        self.shared_bytes = shared_bytes
        self.kernel = None
        if device.type == "cuda":
            self.kernel = torch.cuda._compile_kernel(CODE, "gather_mean")  # noqa: SLF001 - its name
            self.kernel.set_shared_memory_config(shared_bytes)

    def __call__(self, values: Tensor, places: Tensor) -> Tensor:
        """Return the means of float32 values [n], by way of int32 places [n]."""
        if self.kernel is None:
            total, at = torch.zeros_like(values), torch.arange(len(values))
            for _ in range(8):
                at = places[at].long()
                total += values[at]
            return total / 8
        means = torch.empty_like(values)
        grid = -(-len(values) // BLOCK), 1, 1
        self.kernel(grid, (BLOCK, 1, 1), (values, places, means, len(values)), shared_mem=self.shared_bytes)
        return means


def main(arguments: list[str] | None = None) -> None:
    """Gather, and print the mean of means."""
    run = training.started(__doc__, arguments)
    count = run.size(VALUES, 1000)
    values = torch.rand(count, device=run.device)
    places = torch.randperm(count, device=run.device, dtype=torch.int32)
    gather = Gather(run.device, USED_BYTES if run.mended else ASKED_BYTES)
    means = values
    for _ in training.steps(run):
        with common.phase("forward"):
            means = gather(means, places)
    print(f"mean {means.mean().item():.4f}")


if __name__ == "__main__":
    main()
