"""Each step appends to a history with torch.cat, so it allocates larger tensors than all steps before.

No free block is large enough, so the allocator requests memory from the driver. Where its share of the GPU is full, it
frees old blocks first. Fixed, the history has its whole length from the start, and each step writes its part.
"""

import common
import torch
from torch import Tensor

from faults import training
from faults.training import Run

SHAPE = "a network that learns from all that it saw; tensors that grow, in a bounded share of the memory"
EXPECTS = {"": ("memory/churn",), "--fixed": ()}

WIDTH, ROWS, FIELDS, MORE, STEPS = 4096, 4096, 12, 512, 30
# Memory that the program may use: enough for about two steps with the longest history.
SHARE_BYTES = 8 << 30


class History:
    """What was seen so far, in fields of float32 [rows, width]."""

    def __init__(self, run: Run) -> None:
        self.more, self.width = run.size(MORE, 4), run.size(WIDTH)
        rows = self.more * run.steps if run.fixed else 0
        self.fields = [torch.empty(rows, self.width, device=run.device) for _ in range(FIELDS)]
        self.rows = 0
        self.whole = run.fixed

    def append(self, seen: Tensor) -> None:
        """Append rows to each field."""
        if self.whole:
            for field in self.fields:
                field[self.rows : self.rows + self.more] = seen
        else:
            self.fields = [torch.cat([field, seen]) for field in self.fields]
        self.rows += self.more

    def sample(self, count: int) -> Tensor:
        """Return some rows of the first field."""
        chosen = torch.randint(self.rows, (count,), device=self.fields[0].device)
        return self.fields[0].index_select(0, chosen)


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments, STEPS)
    if run.device.type == "cuda":
        whole = torch.cuda.get_device_properties(run.device).total_memory
        torch.cuda.set_per_process_memory_fraction(SHARE_BYTES / whole)
    width, rows = run.size(WIDTH), run.size(ROWS)
    model = training.network(run, width, WIDTH)
    optimizer = training.sgd(model, run)
    wanted = training.rows(run, rows, training.OUTPUTS)
    history = History(run)
    seen = training.rows(run, history.more, width)
    loss = torch.zeros(())
    for _ in training.steps(run):
        with common.phase("data"):
            history.append(seen)
            inputs = history.sample(rows)
        loss = training.train(model, optimizer, inputs, wanted)
    print(f"loss {loss.item():.4f}, learnt from {history.rows} rows")


if __name__ == "__main__":
    main()
