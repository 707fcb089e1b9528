"""Memory in a step, at the bounds of modules: what the step begins with, the most of it, and which modules hold it.

::

    at the start    | kept by block 0 | kept by block 1 | gradients ...
    weights         |---- forward ----------------------|-- backward --|
    states          grows with the batch                the most        falls

PyTorch says it at the start and at the end of each call of a module in an X-ray step; of several steps the one that
holds most counts. Between two bounds there may be more for a short time, so the most is what was seen.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from nsyswrap.base import units
from nsyswrap.base.row_sums import typed_table
from nsyswrap.events.xray_record import BACKWARD, END, MODULE, STEP, HeldMemory, ProcessXray
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Fact
from nsyswrap.operators.observed_calls import module_of

TYPES: Mapping[str, type] = {"module": str, "class_name": str, "count": np.int64, "kept_bytes": np.int64}


# From here on, a factor says no more than that memory sets no limit.
MOST_TIMES = 100


@dataclass(frozen=True, slots=True)
class StepMemory:
    """The memory in a step of the process that holds most, in bytes.

    Attributes:
        start: At its start: weights, states of the optimizer, batches.
        most: The most that was seen.
        forward: At the start of the first backward pass; None where there is none.
        limit: The memory of its GPU; 0 where it is not known.
        modules: Path, class, calls and kept bytes of each module, the most first.
    """

    start: int
    most: int
    forward: int | None
    limit: int
    modules: tuple[tuple[str, str, int, int], ...]

    @property
    def room(self) -> int:
        """Return the memory that no tensor takes at the most; 0 where the GPU's memory is not known."""
        return max(self.limit - self.most, 0) if self.limit else 0

    @property
    def larger(self) -> float | None:
        """Return by which factor what the step adds could grow at most; None where that is not known."""
        added = self.most - self.start
        return 1 + self.room / added if self.limit and added > 0 else None

    @property
    def growth(self) -> str:
        """Return in words by which factor what the step adds could grow at most; empty where that is not known."""
        if self.larger is None:
            return ""
        return f"at most {self.larger:.3g}" if self.larger < MOST_TIMES else f"more than {MOST_TIMES}"


def find_step_memory(context: TraceContext) -> StepMemory | None:
    """Return the memory in a step; None where the X-ray step does not say it."""
    limit = min((each.memory_bytes for each in context.trace.gpus if each.memory_bytes), default=0)
    found = [_of(each, step, limit) for each in context.settings.xray for step in _steps(each.memory)]
    return max(found, key=lambda each: each.most, default=None)


def _steps(memory: Sequence[HeldMemory]) -> Iterator[Sequence[HeldMemory]]:
    """Yield the memory of each X-ray step that holds any."""
    starts = [0, *(place for place, each in enumerate(memory) if each.where == STEP and place), len(memory)]
    for start, end in pairwise(starts):
        if any(each.bytes for each in memory[start:end]):
            yield memory[start:end]


def _of(process: ProcessXray, memory: Sequence[HeldMemory], limit: int) -> StepMemory:
    start = memory[0].bytes
    forward = next((each.bytes for each in memory if each.where == BACKWARD), None)
    kept: dict[int, tuple[int, int]] = {}
    for module, size in _grown(memory):
        count, total = kept.get(module, (0, 0))
        kept[module] = count + 1, total + size
    rows = [(*module_of(process, module), *its) for module, its in kept.items()]
    rows.sort(key=lambda row: (-row[-1], row[0]))
    return StepMemory(start, max(each.bytes for each in memory), forward, limit, tuple(rows))


def _grown(memory: Sequence[HeldMemory]) -> Iterator[tuple[int, int]]:
    """Yield each call of a module outside of backward passes, with how much more memory there is at its end."""
    is_open: list[HeldMemory] = []
    in_backward = 0
    for each in memory:
        in_backward += (each.where == BACKWARD) - (each.where == BACKWARD + END)
        if each.where == MODULE and not in_backward:
            is_open.append(each)
        elif each.where == MODULE + END and not in_backward:
            while is_open and is_open[-1].module != each.module:
                is_open.pop()  # an exception ended it
            if is_open and each.module is not None:
                yield each.module, each.bytes - is_open.pop().bytes


def facts_of(memory: StepMemory) -> Iterator[Fact]:
    """Yield the memory in a step, and by how much a batch could be larger."""
    yield Fact("step_start_bytes", memory.start, "bytes")
    if memory.forward is not None:
        yield Fact("step_forward_bytes", memory.forward, "bytes")
    yield Fact("step_most_bytes", memory.most, "bytes")
    if memory.growth:
        yield Fact("larger_batch", f"{memory.growth} times as large", "text")


def module_rows(memory: StepMemory) -> pd.DataFrame:
    """Return the modules that keep memory for the backward pass, the most first."""
    return typed_table([each for each in memory.modules if each[-1] > 0], TYPES)


def words_on_room(memory: StepMemory, needed: int) -> str:
    """Return whether there is room for some bytes beside the most that a step takes, in a sentence."""
    if needed <= memory.room:
        return f"{units.size(memory.room)} are free at the most of a step, so the memory suffices."
    return (
        f"{units.size(memory.room)} are free at the most of a step, so it suffices for "
        f"{units.share(memory.room / needed)} of them."
    )
