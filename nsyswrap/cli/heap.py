"""One heap for all threads, so that what one frees another can use."""

import contextlib
import ctypes

# From glibc's malloc.h.
M_ARENA_MAX = -8


def share_one_heap() -> None:
    """Ask glibc to keep one heap for all threads of this process.

    By default each thread gets one of its own, and arrays that a thread has freed stay with it: the analysis of 2.3
    million kernels then peaks at 2.2 to 2.6 GB, with one heap at 2.1 GB, in the same time. Other C libraries are left
    alone.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
