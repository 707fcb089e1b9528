"""Settings of the C library's allocator, of numpy, its BLAS and the garbage collector that make commands faster."""

import atexit
import contextlib
import ctypes
import gc
import importlib
import os

# From glibc's malloc.h.
M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4
M_ARENA_MAX = -8
KEPT_BYTES = 1 << 30
LARGE_PAGES = False
BLAS_THREADS = "OPENBLAS_NUM_THREADS"
# Python looks for garbage after each 700 new objects, and now and then among all of them. Loading the libraries makes
# some 400,000 objects that stay, and a report has no cycles to speak of.
NEW_OBJECTS = 100_000


def tune_heap() -> None:
    """Make glibc use one heap for all threads of this process and keep freed memory in it.

    This comes before any library that starts threads is loaded, such as numpy: a thread keeps the heap that it has.

    By default glibc gives each thread its own heap, and memory that one thread frees cannot be used by another. It also
    takes large arrays from the kernel each time, and the kernel zeroes every page again: in the analysis of 2.3 million
    kernels that took a third of the processor time. With other C libraries this does nothing.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_ARENA_MAX, 1)
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)


def tune_pages() -> None:
    """Make numpy use small pages of memory.

    It asks the kernel for pages of 2 MiB. To make one, the kernel may have to move other memory first. In the same
    analysis on a virtual machine, large pages cost the kernel 1.6 seconds more than small ones (bench_analysis.py).
    """
    # numpy has a variable of the environment for this, which it reads when it is loaded; the programs that nsyswrap
    # starts would inherit it.
    with contextlib.suppress(ImportError, AttributeError):
        numpy = importlib.import_module("numpy._core.multiarray")
        numpy._set_madvise_hugepage(LARGE_PAGES)  # noqa: SLF001 - there is no public function


def load_numpy() -> None:
    """Load numpy without the threads of its BLAS, unless the user wants some: the analysis multiplies no matrices.

    BLAS starts a thread for each core when it is loaded, and they wait for work in a loop: 0.1 to 0.4 CPU seconds
    on two cores (bench/bench_analysis.py). The variable is taken back: programs that nsyswrap starts would inherit it.
    """
    if BLAS_THREADS in os.environ:
        return
    os.environ[BLAS_THREADS] = "1"
    try:
        with contextlib.suppress(ImportError):
            importlib.import_module("numpy")
    finally:
        del os.environ[BLAS_THREADS]


def tune_collector() -> None:
    """Make Python look for garbage less often, and not at the end, when the system takes all memory back."""
    gc.set_threshold(NEW_OBJECTS)
    # Python's last look at all objects takes 0.15 seconds after an analysis. It passes over those that are frozen.
    atexit.register(gc.freeze)
