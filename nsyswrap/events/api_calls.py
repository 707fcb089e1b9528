"""What a host call means for an idle GPU: its kind by its name, and whether a copy blocks the host.

Calls are those of CUDA, of the operating system, and the overhead of the profiler.
"""

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Indices
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, array, coded

# What a thread does. Of several open calls the first kind counts: the order of causes in docs/sections/idle.md.
PROFILER, MODULE_LOAD, ALLOCATION, BLOCKING_COPY, SYNCHRONIZATION, PEER_RANK_WAIT = range(6)
LOCK_WAIT, OTHER_WAIT, PEER_THREAD_WAIT, OFF_CPU = range(6, 10)
GARBAGE_COLLECTION, FILE_IO, CHECKPOINT, TOKENIZER, PAGE_FAULT, UNTRACED_WAIT, RUNNING = range(10, 17)
# What stands for the name of a call where a thread waits for pages of memory from disk, since no call is open then; and
# where it waits in a call that was not traced.
PAGE_FAULT_NAME, UNTRACED_NAME = "page faults", "a call that was not recorded"

# Kinds of memory, and directions in which the host takes no part. Source: the labels in an export.
PAGEABLE, DEVICE = "Pageable", "Device"
BETWEEN_DEVICES = ("Device-to-Device", "Peer-to-Peer")

Mask = npt.NDArray[np.bool_]

_MODULE_LOAD = re.compile(
    r"cu(?:da)?(?:Library|Module)(?:Load|Unload|Get|Enumerate)|cuLink|cuKernelGetFunction|cuKernelSetAttribute"
    r"|cuFuncLoad|cudaGetFuncBySymbol|cuInit\b|cuDevicePrimaryCtxRetain|cuCtxCreate|cudaSetDevice\b|nvrtc|nvJitLink"
    r"|cuda(?:Stream|Event|Graph|MemPool)Create|cu(?:Stream|Event|Graph|MemPool)Create|cudaGraphInstantiate"
    r"|cuGraphInstantiate|cuGetProcAddress|cudaGetDriverEntryPoint",
)
_ALLOCATION = re.compile(
    r"cuda(?:Malloc|Free|HostAlloc|HostRegister|HostUnregister|MemPoolTrim)"
    r"|cuMem(?:Alloc|Free|HostAlloc|HostRegister|HostUnregister|Create|Release|Map|Unmap|SetAccess"
    r"|AddressReserve|AddressFree|PoolTrim)"
)
_COPY = re.compile(r"cu(?:da)?Memcpy")
_KERNEL_LAUNCH = re.compile(r"cu(?:da)?Launch(?:Cooperative)?(?:Kernel|Grid)|cudaLaunch$")
_MEMSET = re.compile(r"cu(?:da)?Memset")
_ASYNC = re.compile(r"Async|Batch")
_SYNCHRONIZATION = re.compile(r"cu(?:da)?(?:Stream|Device|Event|Ctx|Context|Thread)Synchronize")

_LOCK = re.compile(r"pthread_(?:mutex|rwlock|spin)_\w*lock|pthread_cond_(?:timed|clock)wait|sem_\w*wait|futex|flock")
# How a thread of Python waits for the interpreter's lock, for 5 ms at most and then again; its other locks are
# semaphores. Source: CPython, Python/ceval_gil.c, Python/thread_pthread.h and sys.getswitchinterval().
INTERPRETER_LOCK, INTERPRETER_LOCK_NS = "pthread_cond_timedwait", 10_000_000
_PEER_THREAD = re.compile(r"pthread_cond_wait|pthread_(?:timed)?join|pthread_barrier_wait")
_WAIT = re.compile(
    r"p?poll|p?select|epoll_p?wait|recv\w*|accept4?|wait(?:pid|id|3|4)?"
    r"|(?:clock_)?nanosleep|u?sleep|sig(?:timed)?wait\w*|mq_\w*receive|msgrcv|io_getevents|connect"
)
# Those that wait for nothing but time.
SLEEP = re.compile(r"(?:clock_)?nanosleep|u?sleep")
# Calls on files. `read` and `write` may also be calls on a pipe or a socket: the capture does not show which, and only
# samples of the host may (blocked_calls).
_FILE = re.compile(
    r"(?:p?(?:read|write)v?2?|f(?:read|write|gets|puts|getc|putc|printf|flush|close|open|reopen|truncate|allocate)"
    r"|vfprintf|getc|getline|getdelim|putc|putw|open(?:at)?|creat|close|f(?:data)?sync|syncfs?|sync_file_range|msync"
    r"|posix_fallocate|sendfile|copy_file_range|rename|unlink)(?:64)?(?:_unlocked)?"
)

# What a call of `_FILE` is named after where samples of the host show that it is not on a file.
NOT_FILES = ("pipe", "socket", "terminal")
_NOT_ON_FILE = re.compile(rf".* \((?:{'|'.join(NOT_FILES)})\)")

# Calls of MPI and UCX wait for another rank, or move a message. The names of OpenACC's events are those of ``trace``.
MPI, UCX = "MPI", "UCX"
_MPI_FILE = re.compile(r"P?MPI_File_")
_MESSAGE = re.compile(r"P?MPI_|uc[pt]_")
_OPENACC = "OpenACC "
_OPENACC_KINDS = {
    **dict.fromkeys(("wait", "implicit wait"), SYNCHRONIZATION),
    **dict.fromkeys(("device init", "device shutdown", "runtime shutdown"), MODULE_LOAD),
    **dict.fromkeys(("create", "delete", "alloc", "free"), ALLOCATION),
}

_LOADED = re.compile(r"dlopen|dlclose|dlmopen")
# The end of a call's name: its version, and ptds or ptsz where each thread has a default stream of its own. The runtime
# and the driver write the two in different order. Source: cuda_runtime_api.h and cuda.h.
_VERSION = re.compile(r"(?:_pt[ds][sz])?(?:_v\d+)?(?:_pt[ds][sz])?$")


def base_name(name: str) -> str:
    """Return a call's name without its version and default stream: cudaMemcpy for cudaMemcpy_ptds_v7000."""
    return _VERSION.sub("", name)


def calls_named(trace: Trace, wanted: Callable[[str], object]) -> Mask:
    """Return which rows of ``trace[CALLS]`` have a name that is wanted, without its version and default stream."""
    return tables.rows_named(trace, tables.CALLS, lambda name: wanted(base_name(name)))


def call_kind(name: str) -> int | None:
    """Return the kind of a CUDA call; None for a call that does not explain idle time, such as a launch."""
    if _SYNCHRONIZATION.match(name):
        return SYNCHRONIZATION
    if _ALLOCATION.match(name):
        return ALLOCATION
    if _COPY.match(name) and not _ASYNC.search(name):
        return BLOCKING_COPY
    return MODULE_LOAD if _MODULE_LOAD.match(name) else None


def synchronizes(name: str) -> bool:
    """Return whether the call waits for the GPU."""
    return call_kind(name) == SYNCHRONIZATION


def is_copy(name: str) -> bool:
    """Return whether the call copies memory, blocking or not."""
    return _COPY.match(name) is not None


def is_memset(name: str) -> bool:
    """Return whether the call sets memory."""
    return _MEMSET.match(name) is not None


def launches_kernel(name: str) -> bool:
    """Return whether the call launches one kernel; each such call has a record of the GPU."""
    return _KERNEL_LAUNCH.match(name) is not None


def is_launch(name: str) -> bool:
    """Return whether the call launches a kernel or a memset, which the driver runs as a kernel."""
    return launches_kernel(name) or is_memset(name)


def os_call_kind(name: str) -> int | None:
    """Return the kind of an operating system call: a kind of wait or a call on files; None for any other call."""
    if _LOCK.fullmatch(name):
        return LOCK_WAIT
    if _PEER_THREAD.fullmatch(name):
        return PEER_THREAD_WAIT
    if _FILE.fullmatch(name):
        return FILE_IO
    return OTHER_WAIT if _WAIT.fullmatch(name) or _NOT_ON_FILE.fullmatch(name) else None


def library_call_kind(name: str) -> int | None:
    """Return the kind of a call of MPI, UCX or OpenACC; None where the calls inside it explain more than it does."""
    if _MPI_FILE.match(name):
        return FILE_IO
    if _MESSAGE.match(name):
        return PEER_RANK_WAIT
    return _OPENACC_KINDS.get(name.removeprefix(_OPENACC)) if name.startswith(_OPENACC) else None


def library_of(name: str) -> str:
    """Return whose call a wait for other ranks is: "MPI" or "UCX"."""
    return MPI if name.startswith(("MPI_", "PMPI_")) else UCX


def named_after(call: str, on: str) -> str:
    """Return the name of a call on a pipe, a socket or a terminal: "read (pipe)". It is a wait for another process."""
    return f"{call} ({on})"


def overhead_kind(name: str) -> int:
    """Return the kind of a row of profiler overhead: nsys records the loading of libraries there, which it hooks."""
    return MODULE_LOAD if _LOADED.match(name) else PROFILER


def is_pageable(trace: Trace, rows: Indices) -> Mask:
    """Return which rows of ``trace[COPIES]`` copy from or to pageable memory."""
    return np.logical_or(*_ends(trace, rows, PAGEABLE))


def blocks_host(trace: Trace, rows: Indices, call: Indices) -> Mask:
    """Return which copies block the host until they are done.

    Args:
        trace: The tables of one export.
        rows: Rows of ``trace[COPIES]``.
        call: Row in ``trace[CALLS]`` of the call of each copy; -1 where it is unknown, and then the copy does not
            count as blocking. The call of a copy inside a CUDA graph is the graph's launch, which does not wait.
    """
    # Which calls copy, and which of these block the host by their name; the launch of a graph does neither.
    known = call >= 0
    copying, blocking = np.zeros(len(call), bool), np.zeros(len(call), bool)
    codes, ids = pd.factorize(coded(trace[tables.CALLS], "name_id")[call[known]])
    names = [base_name(trace.text(int(each))) for each in ids]
    copying[known] = np.array([is_copy(name) for name in names], bool)[codes]
    blocking[known] = np.array([call_kind(name) == BLOCKING_COPY for name in names], bool)[codes]
    kinds = [kind for kind, label in trace.copy_kinds.items() if label in BETWEEN_DEVICES]
    without_host = np.isin(array(trace[tables.COPIES], "copy_kind")[rows], kinds)
    without_host |= np.logical_and(*_ends(trace, rows, DEVICE))
    blocks: Mask = copying & (is_pageable(trace, rows) | (blocking & ~without_host))
    return blocks


def _ends(trace: Trace, rows: Indices, label: str) -> tuple[Mask, Mask]:
    """Return which copies read from a kind of memory, and which write to it."""
    wanted = [kind for kind, each in trace.memory_kinds.items() if each == label]
    copies = trace[tables.COPIES]
    return np.isin(array(copies, "source_kind")[rows], wanted), np.isin(array(copies, "target_kind")[rows], wanted)
