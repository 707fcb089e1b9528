"""Small operations run in two streams in turn, and each waits for an event of the one before it.

The host has launched them all while passes over a large tensor ran, and nothing runs side by side: what is lost is the
way from one stream to the other. Fixed, all operations run in one stream.
"""

import common
import torch
from torch import Tensor

from faults import training
from faults.training import Run

SHAPE = "passes over a large matrix, then small kernels that each wait for an event of another stream"
LIBRARY = ""
EXPECTS = {"": ("gpu/between_operations",), "--fixed": ()}

LARGE, PASSES, CELLS, INSTANTS, STEPS = 1 << 31, 3, 1 << 21, 200, 16


class Turns:
    """Two streams that take turns; none of their own, where they do not."""

    def __init__(self, run: Run) -> None:
        """Take what the program was started with."""
        both = run.device.type == "cuda" and not run.fixed
        self.streams = [torch.cuda.Stream() for _ in range(2)] if both else []
        self.events = [torch.cuda.Event() for _ in self.streams]

    def follow(self, state: Tensor, drive: Tensor, instants: int) -> None:
        """Let leaky cells follow what drives them, an operation an instant, in place; both float32 [cells]."""
        if not self.streams:
            for _ in range(instants):
                state.lerp_(drive, 0.05)
            return
        self.events[1].record()
        for number in range(instants):
            mine = self.streams[number % 2]
            mine.wait_event(self.events[(number + 1) % 2])
            with torch.cuda.stream(mine):
                state.lerp_(drive, 0.05)
            self.events[number % 2].record(mine)
        torch.cuda.current_stream().wait_event(self.events[(instants + 1) % 2])


def main(arguments: list[str] | None = None) -> None:
    """Simulate, and print the mean of the cells."""
    run = training.started(__doc__, arguments, STEPS)
    large = torch.ones(run.size(LARGE), device=run.device)
    drive = torch.rand(run.size(CELLS), device=run.device)
    state = torch.zeros_like(drive)
    turns = Turns(run)
    for _ in training.steps(run):
        with common.phase("forward"):
            for _ in range(PASSES):
                large.mul_(0.999)
            turns.follow(state, drive, run.size(INSTANTS, 10))
    print(f"mean {state.mean().item():.4f}, largest {large[0].item():.4f}")


if __name__ == "__main__":
    main()
