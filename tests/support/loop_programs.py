"""Made sequences of launches and waits of programs, in which tests look for the steps of any kind of loop.

::

    program = Program()
    for _ in range(20):
        program.to_device().kernels("conv", "relu", "loss").backward(3).kernels("adam").wait()
        program.begins.append(...)
    program.sequence()
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nsyswrap.loop.nested_pattern import find_step_pattern
from nsyswrap.loop.step_bounds import StepParts, find_parts
from nsyswrap.loop.work_sequence import KERNEL, OTHER, TO_DEVICE, TO_HOST, WAIT, WorkSequence, meaning_of_kernel

PROCESS = 7 << 24
MAIN = PROCESS | 7
AUTOGRAD = PROCESS | 9
CALL_NS, GAP_NS, KERNEL_NS = 5_000, 10_000, 8_000
# A link of 25 GB/s.
BYTES_PER_NS = 25


@dataclass
class Program:
    """A program under construction; every method returns it.

    Attributes:
        steps: Start of each of its steps, in ns, as recorded by ``step``.
        seed: Seed of the small differences in the length of calls.
    """

    seed: int = 0
    steps: list[int] = field(default_factory=list)
    _rows: list[tuple[int, int, int, int, str, int]] = field(default_factory=list)
    _now: int = 1_000

    def __post_init__(self) -> None:
        """Create the random number generator for the differences."""
        self._random = random.Random(self.seed)  # noqa: S311 - no secret

    def step(self) -> "Program":
        """Record the start of a step."""
        self.steps.append(self._now)
        return self

    def pause(self, ns: int) -> "Program":
        """Add time in which the host does something else."""
        self._now += ns
        return self

    def kernels(self, *names: str, thread: int = MAIN, grid: int = 1) -> "Program":
        for name in names:
            self._call(KERNEL, name, grid, thread)
        return self

    def layers(self, count: int, *names: str, thread: int = MAIN) -> "Program":
        """Launch the same kernels for each of several layers."""
        return self.kernels(*names * count, thread=thread)

    def backward(self, *names: str, count: int = 1) -> "Program":
        """Launch kernels from autograd's thread."""
        return self.kernels("ones").kernels(*names * count, thread=AUTOGRAD)

    def to_device(self, size: int = 4096) -> "Program":
        return self._call(TO_DEVICE, "to device", size, MAIN)

    def to_host(self, size: int = 4) -> "Program":
        """Copy to the host, and wait for it."""
        return self._call(TO_HOST, "to host", size, MAIN).wait()

    def memset(self) -> "Program":
        """Set memory."""
        return self._call(OTHER, "memset", 0, MAIN)

    def wait(self) -> "Program":
        return self._call(WAIT, "wait", 0, MAIN)

    def _call(self, kind: int, name: str, shape: int, thread: int) -> "Program":
        length = CALL_NS + self._random.randrange(CALL_NS)
        self._rows.append((self._now, self._now + length, kind, thread, name, shape))
        self._now += length + GAP_NS
        return self

    def sequence(self) -> WorkSequence:
        """Return the launches and waits of the program."""
        start, end, kind, thread, name, shape = zip(*self._rows, strict=True)
        named = _codes([(each, of == MAIN) for each, of in zip(name, thread, strict=True)])
        meaning = np.array(
            [meaning_of_kernel(each) if of == KERNEL else 0 for each, of in zip(name, kind, strict=True)]
        )
        return WorkSequence(
            process=PROCESS,
            thread=MAIN,
            start=np.array(start, np.int64),
            end=np.array(end, np.int64),
            length=np.select(
                [np.array(kind) == KERNEL, np.isin(kind, (TO_DEVICE, TO_HOST))],
                [KERNEL_NS, np.array(shape) // BYTES_PER_NS],
            ),
            operation=np.where(np.array(kind) == WAIT, -1, np.arange(len(start))),
            launcher=np.array(thread, np.int64),
            kind=np.array(kind, np.int8),
            exact=_codes(list(zip(named.tolist(), shape, strict=True))),
            named=named,
            optimizer=meaning & 1 > 0,
            gradients=meaning & 8 > 0,
            collective=np.array(["nccl" in each for each in name]),
            backward_name=meaning & 2 > 0,
            network=meaning & 4 > 0,
            product=meaning & 16 > 0,
            draws=meaning & 32 > 0,
            foreign=np.isin(np.array(kind), [KERNEL]) & (np.array(thread, np.int64) == AUTOGRAD),
        )


def parts_of(program: Program) -> StepParts | None:
    """Return the steps that are found in a program."""
    sequence = program.sequence()
    pattern = find_step_pattern(sequence)
    return None if pattern is None else find_parts(sequence, pattern)


def _codes(values: Sequence[object]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """Return a code for each value, in the order of their first occurrence."""
    known: dict[object, int] = {}
    return np.array([known.setdefault(each, len(known)) for each in values], np.int32)
