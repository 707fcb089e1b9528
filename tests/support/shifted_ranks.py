"""Ranks that take the same steps at different times, as exports: each step of each rank has a compute time of its own.

::

    rank 0    |copy|## 6 kernels ##|.... idle ....|copy|## 6 kernels ##|.... idle ....|
    rank 1           |copy|## 6 kernels ##|.... idle ....|copy|## 6 kernels ##|.... idle ....|
              | shift

Times are microseconds: ``US``.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from export_builder import ExportBuilder, global_id

US = 1000
FIRST, FIRST_PID = 50 * US, 6000
KERNELS, COPY, QUEUED, CALL = 6, 20 * US, 15 * US, 2 * US
GEMM = "void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_f16_128x128_32x4_nn_align8>(Params)"


@dataclass(frozen=True)
class ShiftedRanks:
    """A job whose ranks do not start together.

    Attributes:
        compute_us: Compute of each step, by rank, at most 700 us; all ranks have as many steps.
        shifts_us: How much later than the job each rank starts.
        named: Whether ranges name the steps.
        between_us: Time between two steps, which no range names.
        step_us: From the start of a step to the start of the next.
    """

    compute_us: tuple[tuple[int, ...], ...]
    shifts_us: tuple[int, ...]
    named: bool = True
    between_us: int = 0
    step_us: int = 1000

    def built(self) -> ExportBuilder:
        made = ExportBuilder().session()
        for rank, steps in enumerate(self.compute_us):
            made.gpu(rank)
            made.row("PROCESSES", globalPid=global_id(FIRST_PID + rank), pid=FIRST_PID + rank, name="python3")
            for number, compute in enumerate(steps):
                at = FIRST + (self.shifts_us[rank] + number * self.step_us) * US
                self._step(made, rank, number, at, compute * US)
        return made

    def _step(self, made: ExportBuilder, rank: int, number: int, at: int, compute: int) -> None:
        process, main = global_id(FIRST_PID + rank), global_id(FIRST_PID + rank, FIRST_PID + rank)
        about: dict[str, Any] = {"device": rank, "process": process, "thread": main}
        copied = at + QUEUED + COPY
        made.copy(at + QUEUED, copied, launched=(at + US, at + US + CALL), **about)
        edges = [copied + compute * part // KERNELS for part in range(KERNELS + 1)]
        for part, (start, end) in enumerate(pairwise(edges)):
            call = at + (1 + part) * 2 * CALL
            made.kernel(start, end, GEMM, launched=(call, call + CALL), gridX=4000, blockX=256, **about)
        made.call("cudaStreamSynchronize", at + 40 * US, edges[-1] + 3 * US, thread=main)
        if self.named:
            made.range(f"step {number}", at, at + (self.step_us - self.between_us) * US, thread=main)
