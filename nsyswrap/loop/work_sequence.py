"""What each process launched on its GPUs and waited for, in the order of its calls, as codes: kernel, grid, thread.

::

    main thread      copy kernel kernel                 fused_adam wait | copy kernel kernel
    autograd thread                     kernel kernel                   |                    kernel kernel
    codes               1      2      3      4      5            6    7 |    1      2      3      4      5  ...
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables
from nsyswrap.events.api_calls import SYNCHRONIZATION, base_name, call_kind
from nsyswrap.events.operations import COLLECTIVE, SOURCES, Operations
from nsyswrap.intervals import Indices, Times
from nsyswrap.tables import Trace, array

# What an item of a sequence is.
KERNEL, TO_DEVICE, TO_HOST, OTHER, WAIT = range(5)
_DIRECTIONS = {"Host-to-Device": TO_DEVICE, "Device-to-Host": TO_HOST}

# Kernels of optimizers. torch's foreach and fused optimizers are multi_tensor_apply; apex, DeepSpeed and
# Transformer Engine name theirs after the algorithm. Source: the kernel names of these libraries.
OPTIMIZER_KERNEL = re.compile(
    r"multi_?tensor_?apply|(?:^|[^a-z])(?:fused_?)?(?:adam|adamw|adagrad|adafactor|lamb|lars|lion|muon|rmsprop|sgd)"
    r"(?:[^a-z]|$)|adamfunctor|sgd_?functor|fusedadam|optimizer",
    re.IGNORECASE,
)

# Kernels of a backward pass. Source: PyTorch, cuDNN, cuBLAS, FlashAttention.
BACKWARD_KERNEL = re.compile(r"backward|[_a-z]bwd|bwd_|dgrad|wgrad|_grad_", re.IGNORECASE)

# The loop's thread launches at least this share of what its process launches. Source: ours; the fewest in
# tests/captures is 9 %, under DataParallel, whose replicas launch from threads of their own.
LEAST_SHARE = 0.01

Codes = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class WorkSequence:
    """The operations of one process and the waits of its main launching thread, by start of the call.

    All arrays have one entry for each item, shape (n,).

    Attributes:
        process: Global id of the process.
        thread: Global id of the thread that runs the loop.
        start: When its call starts, in ns; where the call is unknown, when it starts on the GPU.
        end: When its call ends, in ns.
        operation: Its row of ``Operations``; -1 for a wait.
        launcher: Global id of the thread that launched it; the loop's thread where that is unknown.
        kind: KERNEL, TO_DEVICE, TO_HOST, OTHER (copies on the device, memsets) or WAIT, int8.
        exact: Code of its name, launching thread or another, grid and block, or bytes.
        named: Code of its name, and whether the loop's thread launched it.
        optimizer: Whether it is a kernel of an optimizer, by its name.
        backward_name: Whether it is a kernel of a backward pass, by its name.
    """

    process: int
    thread: int
    start: Times
    end: Times
    operation: Indices
    launcher: Times
    kind: npt.NDArray[np.int8]
    exact: Codes
    named: Codes
    optimizer: Flags
    backward_name: Flags

    @property
    def own(self) -> Flags:
        """Return which items the loop's thread launched or waited in."""
        return self.launcher == self.thread

    @property
    def foreign(self) -> Flags:
        """Return which items are kernels that another thread launched, as autograd does in the backward pass."""
        return (self.kind == KERNEL) & ~self.own


@dataclass(frozen=True, slots=True)
class _Names:
    """Columns of all operations that do not depend on the process; arrays of shape (operations,)."""

    name: npt.NDArray[np.int64]
    shape: npt.NDArray[np.int64]
    kind: npt.NDArray[np.int8]
    optimizer: Flags
    backward: Flags


def work_sequences(trace: Trace, operations: Operations) -> Iterator[WorkSequence]:
    """Yield the sequence of each process that ran operations, by process.

    Args:
        trace: The tables of one export.
        operations: Its operations.
    """
    names = _names(trace, operations)
    calls = trace[tables.CALLS]
    call_thread, call_start, call_end = (array(calls, name) for name in ("thread", "start", "end"))
    waits = np.flatnonzero(_by_call(trace, lambda name: call_kind(name) == SYNCHRONIZATION))
    for process in tables.distinct(operations.process).tolist():
        rows = np.flatnonzero((operations.process == process) & ~operations.migration)
        if not len(rows):
            continue
        call = operations.call[rows]
        known = call >= 0
        launcher = np.zeros(len(rows), np.int64)
        launcher[known] = call_thread[call[known]]
        thread = _loop_thread(launcher[known], process)
        launcher[~known] = thread
        start, end = operations.start[rows].copy(), operations.start[rows].copy()
        start[known], end[known] = call_start[call[known]], call_end[call[known]]
        mine = waits[call_thread[waits] == thread]
        yield _sequence(process, thread, names, rows, (start, end, launcher), (call_start[mine], call_end[mine]))


def _sequence(  # noqa: PLR0913, PLR0917 - one argument a part
    process: int,
    thread: int,
    names: _Names,
    rows: Indices,
    launched: tuple[Times, Times, Times],
    waited: tuple[Times, Times],
) -> WorkSequence:
    """Return the sequence of one process from its operations and its waits, each with start and end of the call."""
    none = np.full(len(waited[0]), -1, np.int64)
    start = np.concatenate([launched[0], waited[0]])
    # Operations come in the order of the GPU, which is the order of those that one call launched.
    order = np.argsort(start, kind="stable")
    launcher = np.concatenate([launched[2], np.full(len(none), thread)])[order]
    kind = np.concatenate([names.kind[rows], np.full(len(none), WAIT, np.int8)])[order]
    name = np.concatenate([names.name[rows], none])[order] * 2 + (launcher == thread)
    shape = np.concatenate([names.shape[rows], none])[order]
    named = pd.factorize(name)[0].astype(np.int32)
    exact = pd.factorize(named.astype(np.int64) << 32 | pd.factorize(shape)[0])[0].astype(np.int32)
    return WorkSequence(
        process=process,
        thread=thread,
        start=start[order],
        end=np.concatenate([launched[1], waited[1]])[order],
        operation=np.concatenate([rows, none])[order],
        launcher=launcher,
        kind=kind,
        exact=exact,
        named=named,
        optimizer=np.append(names.optimizer[rows], np.zeros(len(none), bool))[order],
        backward_name=np.append(names.backward[rows], np.zeros(len(none), bool))[order],
    )


def _names(trace: Trace, operations: Operations) -> _Names:
    """Return the name, the shape and the kind of each operation as numbers."""
    count = len(operations.start)
    numbers, flags = np.zeros((2, count), np.int64), np.zeros((2, count), bool)
    found = _Names(*numbers, np.full(count, OTHER, np.int8), *flags)
    for index, spec in enumerate(SOURCES):
        mine = operations.from_table(spec)
        rows, frame = operations.row[mine], trace[spec]
        if spec is tables.KERNELS and len(mine):
            found.name[mine] = array(frame, "name_id")[rows] * len(SOURCES)
            found.shape[mine] = array(frame, "grid_blocks")[rows] << 11 | array(frame, "block_threads")[rows]
            found.kind[mine] = KERNEL
            meaning = tables.by_name(trace, spec, _meaning, np.int8)[rows]
            found.optimizer[mine], found.backward[mine] = meaning & 1, meaning & 2
            continue
        found.name[mine] = index
        if spec is tables.COPIES:
            copy_kind = array(frame, "copy_kind")[rows].astype(np.int64)
            found.name[mine] = copy_kind * len(SOURCES) + index
            found.shape[mine] = array(frame, "bytes")[rows]
            for code, label in trace.copy_kinds.items():
                found.kind[mine[copy_kind == code]] = _DIRECTIONS.get(label, OTHER)
        elif spec is tables.GRAPHS:
            found.kind[mine] = KERNEL
    return found


def _meaning(name: str) -> int:
    """Return what the name of a kernel says: 1 for an optimizer, 2 for a backward pass, 3 for both, 0 for neither."""
    if COLLECTIVE in name.lower():
        return 0
    return (OPTIMIZER_KERNEL.search(name) is not None) + 2 * (BACKWARD_KERNEL.search(name) is not None)


def _by_call(trace: Trace, meaning: Callable[[str], bool]) -> Flags:
    """Return which rows of ``trace[CALLS]`` have a name, without its version, that is wanted."""
    if not len(trace[tables.CALLS]):
        return np.empty(0, bool)
    found: Flags = tables.by_name(trace, tables.CALLS, lambda name: int(meaning(base_name(name))), np.int8) > 0
    return found


def _loop_thread(launcher: Times, process: int) -> int:
    """Return the thread that runs the loop: the main thread where it launches, else the first to launch.

    The first half of the launches may be set-up, so only the second half counts.

    Args:
        launcher: Thread of each known launch, in the order of the GPU, shape (n,).
        process: Global id of the process.
    """
    main = process | tables.pid(process)
    if not len(launcher):
        return main
    late = launcher[len(launcher) // 2 :]
    codes, threads = pd.factorize(late)
    share = np.bincount(codes) / len(late)
    working = threads[share >= min(LEAST_SHARE, share.max())]
    return main if main in working else int(working[0])
