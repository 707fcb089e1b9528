"""Train one linear layer whose products are of large square matrices: `product_loop.py KIND`, as bfloat16 or tf32.

Each step multiplies three times: forward, and the gradients of the input and of the weight. The program waits after
each step, so that the power limit of the GPU does not lower its clock.
"""

import sys
import time

import torch
from torch import nn

SIZE, STEPS, PAUSE_S = 8192, 30, 0.02


def main() -> None:
    kind = sys.argv[1]
    torch.set_float32_matmul_precision("high" if kind == "tf32" else "highest")
    dtype = torch.bfloat16 if kind == "bfloat16" else torch.float32
    layer = nn.Linear(SIZE, SIZE, bias=False, device="cuda", dtype=dtype)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1e-6)
    batch = torch.randn(SIZE, SIZE, device="cuda", dtype=dtype, requires_grad=True)
    for _ in range(STEPS):
        optimizer.zero_grad()
        layer(batch).sum().backward()
        optimizer.step()
        torch.cuda.synchronize()
        time.sleep(PAUSE_S)
    print("done")


if __name__ == "__main__":
    main()
