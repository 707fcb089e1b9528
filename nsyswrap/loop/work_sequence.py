"""What each process launched on its GPUs and waited for, in the order of its calls, as codes: kernel, grid, thread.

What was launched but had not run when the capture ended has no name; only its call is known.

::

    main thread      copy kernel kernel                 fused_adam wait | copy kernel kernel
    autograd thread                     kernel kernel                   |                    kernel kernel
    codes               1      2      3      4      5            6    7 |    1      2      3      4      5  ...
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import NOTHING, Indices, Spans, Times, merge
from nsyswrap.events.api_calls import SLEEP, calls_named, synchronizes
from nsyswrap.events.operations import COMMUNICATION, SOURCES, Operations
from nsyswrap.hardware.kernel_names.classify import PRODUCTS, classify
from nsyswrap.hardware.kernel_names.collectives import is_collective
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, array, coded

# What an item of a sequence is.
KERNEL, TO_DEVICE, TO_HOST, OTHER, WAIT, UNFINISHED = range(6)
_DIRECTIONS = {"Host-to-Device": TO_DEVICE, "Device-to-Host": TO_HOST}

# Kernels that measure or scale gradients before an optimizer uses them: the norm and the factor of clip_grad_norm_.
# GradScaler divides gradients in its step, with the optimizer. Source: torch/nn/utils/clip_grad.py.
_GRADIENTS = "LpNorm|BinaryOpScalarTensor"
GRADIENTS_KERNEL = re.compile(rf"multi_tensor_apply.*(?:{_GRADIENTS})")

# Kernels of optimizers. torch's foreach and fused optimizers are multi_tensor_apply, and so are copies of many tensors
# (sharded weights) and of clipping. apex, DeepSpeed and Transformer Engine name their kernels after the algorithm.
# Source: the kernel names of these libraries.
OPTIMIZER_KERNEL = re.compile(
    rf"multi_?tensor_?apply(?!.*(?:Copy|{_GRADIENTS}))"
    r"|(?:^|[^a-z])(?:fused_?)?(?:adam|adamw|adagrad|adafactor|lamb|lars|lion|muon|rmsprop|sgd)(?:[^a-z]|$)"
    r"|adamfunctor|sgd_?functor|fusedadam|optimizer",
    re.IGNORECASE,
)

# Kernels of a backward pass. Source: PyTorch, cuDNN, cuBLAS, FlashAttention.
BACKWARD_KERNEL = re.compile(r"backward|[_a-z]bwd|bwd_|dgrad|wgrad|_grad_", re.IGNORECASE)

# Kernels that draw whole numbers, as `randint` and `randperm` do; dropout and noise draw others.
# Source: aten/src/ATen/native/cuda (DistributionTemplates.h, Randperm.cuh).
DRAW_KERNEL = re.compile(r"random_from_to|randperm")

# Autograd names its threads pt_autograd_0 and so on. Source: torch/csrc/autograd/engine.cpp.
AUTOGRAD_THREAD = "pt_autograd"

# Calls that launch an operation.
LAUNCH = re.compile(r"cu(?:da)?(?:Launch|GraphLaunch|Memcpy|Memset)")
# Calls with which a process receives what another one sends, as a batch from a process of the loader, or reads a file.
RECEIVE = re.compile(r"p?poll|p?select|epoll_p?wait|p?readv?(?:64)?|recv(?:from|msg)?")
# Calls in which the event loop of a server waits for requests; a loader's batch comes by `poll`, as CPython's
# multiprocessing waits (PollSelector in Lib/multiprocessing/connection.py).
REQUEST = re.compile(r"epoll_p?wait2?|accept4?")
LATEST = np.iinfo(np.int64).max

# The loop's thread launches at least this share of what its process launches. Source: ours; the fewest in
# tests/captures is 9 %, under DataParallel, whose replicas launch from threads of their own.
LEAST_SHARE = 0.01

# What the name of a kernel may say, as fields of ``WorkSequence``, and what else is known of it.
MEANINGS = ("optimizer", "backward_name", "network", "gradients", "product", "draws")
FLAGS = (*MEANINGS, "collective")

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
        length: How long it runs on the GPU, in ns; 0 for a wait or where that is not known.
        operation: Its row of ``Operations``; -1 for a wait or where it had not run when the capture ended.
        launcher: Global id of the thread that launched it; the loop's thread where that is unknown.
        kind: KERNEL, TO_DEVICE, TO_HOST, OTHER (copies on the device, memsets), WAIT or UNFINISHED, int8.
        exact: Code of its name, launching thread or another, grid and block, or bytes.
        named: Code of its name, and whether the loop's thread launched it.
        optimizer: Whether it is a kernel of an optimizer, by its name.
        gradients: Whether its name shows that it measures or scales gradients.
        collective: Whether it is a collective.
        backward_name: Whether it is a kernel of a backward pass, by its name.
        network: Whether its name shows a neural network.
        product: Whether its name shows a matrix product or a convolution.
        draws: Whether its name shows that it draws whole numbers at random, as indices of rows are.
        foreign: Whether it is a kernel that another thread launched, as autograd does in the backward pass; not where
            the names of the threads show that autograd did not.
        sleeps: When the loop's thread sleeps, in ns; apart from the items.
        receives: When it receives from another process, waits for it, or reads a file.
        requests: When it waits for requests.
    """

    process: int
    thread: int
    start: Times
    end: Times
    length: Times
    operation: Indices
    launcher: Times
    kind: npt.NDArray[np.int8]
    exact: Codes
    named: Codes
    optimizer: Flags
    gradients: Flags
    collective: Flags
    backward_name: Flags
    network: Flags
    product: Flags
    draws: Flags
    foreign: Flags
    sleeps: Spans = NOTHING
    receives: Spans = NOTHING
    requests: Spans = NOTHING

    @property
    def own(self) -> Flags:
        """Return which items the loop's thread launched or waited in."""
        is_own: Flags = self.launcher == self.thread
        return is_own


@dataclass(frozen=True, slots=True)
class _Names:
    """Columns of all operations that do not depend on the process; arrays of shape (operations,)."""

    name: npt.NDArray[np.int64]
    shape: npt.NDArray[np.int64]
    length: Times
    kind: npt.NDArray[np.int8]
    flags: Mapping[str, Flags]


def work_sequences(trace: Trace, operations: Operations) -> Iterator[WorkSequence]:
    """Yield the sequence of each process that ran operations, by process."""
    names = _names(trace, operations)
    calls = trace[tables.CALLS]
    call_thread, call_start, call_end = coded(calls, "thread"), array(calls, "start"), array(calls, "end")
    waits, launches = (np.flatnonzero(calls_named(trace, wanted)) for wanted in (synchronizes, LAUNCH.match))
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
        late = launches[call_start[launches] > (int(start[known].max()) if known.any() else LATEST)]
        late = late[tables.process_of(call_thread[late]) == process]
        calls_only = np.concatenate([mine, late])
        others = call_start[calls_only], call_end[calls_only], call_thread[calls_only]
        kinds = np.repeat(np.array([WAIT, UNFINISHED], np.int8), [len(mine), len(late)])
        sequence = _sequence(trace, process, thread, names, rows, (start, end, launcher), others, kinds)
        of_autograd = _of_autograd(trace, sequence.launcher, process)
        yield replace(sequence, foreign=(sequence.kind == KERNEL) & ~sequence.own & of_autograd)


def _sequence(  # noqa: PLR0913, PLR0917 - one argument a part
    trace: Trace,
    process: int,
    thread: int,
    names: _Names,
    rows: Indices,
    launched: tuple[Times, Times, Times],
    others: tuple[Times, Times, Times],
    other_kinds: npt.NDArray[np.int8],
) -> WorkSequence:
    """Return the sequence of one process from start, end and thread of each call that launched, and of each other.

    Autograd's kernels are left out.
    """

    def both(of_rows: npt.NDArray[Any], of_others: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.append(of_rows, of_others)[order]

    start, end, launcher = (np.concatenate(each) for each in zip(launched, others, strict=True))
    # Operations come in the order of the GPU, which is the order of those that one call launched.
    order = np.argsort(start, kind="stable")
    without, false = np.full(len(other_kinds), -1, np.int64), np.zeros(len(other_kinds), bool)
    name = both(names.name[rows], -1 - other_kinds.astype(np.int64)) * 2 + (launcher == thread)[order]
    shape, named = (pd.factorize(each)[0].astype(np.int32) for each in (both(names.shape[rows], without), name))
    return WorkSequence(
        process=process,
        thread=thread,
        start=start[order],
        end=end[order],
        length=both(names.length[rows], false),
        operation=both(rows, without),
        launcher=launcher[order],
        kind=both(names.kind[rows], other_kinds),
        exact=pd.factorize(named.astype(np.int64) << 32 | shape)[0].astype(np.int32),
        named=named,
        foreign=np.zeros(len(order), bool),
        sleeps=_os_calls(trace, thread, SLEEP),
        receives=_os_calls(trace, thread, RECEIVE),
        requests=_os_calls(trace, thread, REQUEST),
        **{name: both(flags[rows], false) for name, flags in names.flags.items()},
    )


def _of_autograd(trace: Trace, launcher: Times, process: int) -> Flags:
    """Return which operations a thread launched that is one of autograd's, or may be: where no thread has its name.

    A thread that has another name is not.
    """
    threads, names = array(trace[tables.THREADS], "thread"), trace[tables.THREADS]["name"].astype(str)
    mine = tables.process_of(threads) == process
    autograd = names.str.startswith(AUTOGRAD_THREAD).to_numpy(bool)
    if (mine & autograd).any():
        return np.isin(launcher, threads[mine & autograd])
    return ~np.isin(launcher, threads[mine & (names != "").to_numpy(bool)])


def _os_calls(trace: Trace, thread: int, pattern: re.Pattern[str]) -> Spans:
    """Return when a thread is in a call of the operating system whose name matches."""
    calls = trace[tables.OS_CALLS]
    named = tables.rows_named(trace, tables.OS_CALLS, pattern.fullmatch)
    rows = np.flatnonzero(named & coded(calls, "thread").equal(thread))
    return merge(array(calls, "start")[rows], array(calls, "end")[rows])


def _names(trace: Trace, operations: Operations) -> _Names:
    """Return the name, the shape and the kind of each operation as numbers."""
    count = len(operations.start)
    flags = {name: np.zeros(count, bool) for name in FLAGS}
    length, kind = operations.end - operations.start, np.full(count, OTHER, np.int8)
    name, shape = np.zeros((2, count), np.int64)
    names = _Names(name, shape, length, kind, flags)
    for index, spec in enumerate(SOURCES):
        mine = operations.from_table(spec)
        rows, frame = operations.row[mine], trace[spec]
        if spec is tables.KERNELS and len(mine):
            names.name[mine] = coded(frame, "name_id")[rows] * len(SOURCES)
            names.shape[mine] = coded(frame, "grid_blocks")[rows] << 11 | coded(frame, "block_threads")[rows]
            names.kind[mine] = KERNEL
            meaning = tables.by_name(trace, spec, meaning_of_kernel, np.int8)[rows]
            for bit, flag in enumerate(MEANINGS):
                flags[flag][mine] = meaning & 1 << bit
            flags["collective"][mine] = operations.kind[mine] == COMMUNICATION
            continue
        names.name[mine] = index
        if spec is tables.COPIES:
            copy_kind = array(frame, "copy_kind")[rows].astype(np.int64)
            names.name[mine] = copy_kind * len(SOURCES) + index
            names.shape[mine] = array(frame, "bytes")[rows]
            for code, label in trace.copy_kinds.items():
                names.kind[mine[copy_kind == code]] = _DIRECTIONS.get(label, OTHER)
        elif spec is tables.GRAPHS:
            names.kind[mine] = KERNEL
    return names


def meaning_of_kernel(name: str) -> int:
    """Return what the name of a kernel says: the sum of ``1 << n`` for each n-th of ``MEANINGS`` that it shows."""
    if is_collective(name):
        return 0
    kind = classify(name)
    optimizer, backward, gradients, draws = (
        each.search(name) for each in (OPTIMIZER_KERNEL, BACKWARD_KERNEL, GRADIENTS_KERNEL, DRAW_KERNEL)
    )
    shown = (optimizer, backward, kind.is_of_network, gradients, kind.op in PRODUCTS, draws)
    return sum(1 << bit for bit, each in enumerate(shown) if each)


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
