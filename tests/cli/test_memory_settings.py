"""The allocator settings: one heap for all threads, freed memory is reused, pages are small, BLAS starts no threads."""

import os
import subprocess
import sys

import pytest

from nsyswrap.cli.memory_settings import BLAS_THREADS

# Eight threads allocate and free one after another. If each has its own heap, each keeps its freed memory.
PROGRAM = """
import ctypes, sys, threading
from nsyswrap.cli.memory_settings import tune_heap
if sys.argv[1] == "one": tune_heap()
heaps = set()
def work():
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    heaps.add(libc.malloc(1000) >> 26)
    barrier.wait()
barrier = threading.Barrier(8)
threads = [threading.Thread(target=work) for _ in range(8)]
for each in threads: each.start()
for each in threads: each.join()
print(len(heaps))
"""


def heaps(wanted: str) -> int:
    """Return the number of heaps, blocks of 64 MiB, from which eight threads allocate."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, wanted], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_threads_share_one_heap() -> None:
    """Without the settings they use several."""
    assert heaps("one") < heaps("many")


FAULTS = """
import resource, sys
from nsyswrap.cli.memory_settings import tune_heap
if sys.argv[1] == "one": tune_heap()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    b"1" * 50_000_000
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_freed_arrays_are_reused() -> None:
    """Without the settings the kernel provides and zeroes the pages of a large array each time."""

    def faults(wanted: str) -> int:
        done = subprocess.run([sys.executable, "-c", FAULTS, wanted], capture_output=True, text=True, check=True)
        return int(done.stdout)

    assert faults("one") * 5 < faults("many")


ADVISED = """
import sys
import numpy as np
from nsyswrap.cli.memory_settings import tune_pages
if sys.argv[1] == "one": tune_pages()
kept = np.ones(50_000_000, np.uint8)
print(sum(line.startswith("VmFlags:") and " hg" in line for line in open("/proc/self/smaps")))
"""


def test_numpy_asks_for_no_large_pages() -> None:
    """Without the settings it does. The kernel marks the memory for which a program asked for them."""

    def advised(wanted: str) -> int:
        done = subprocess.run([sys.executable, "-c", ADVISED, wanted], capture_output=True, text=True, check=True)
        return int(done.stdout)

    if not advised("many"):
        pytest.skip("this kernel has no large pages, or does not say who asks for them")
    assert advised("one") == 0


LOADED = """
import os, sys
from nsyswrap.cli.memory_settings import load_numpy
before = dict(os.environ)
load_numpy()
assert "numpy" in sys.modules and dict(os.environ) == before
print(len(os.listdir("/proc/self/task")))
"""


def test_numpy_is_loaded_without_threads() -> None:
    """Without the setting BLAS may start some. The programs that this one starts are given no such setting."""
    environ = {name: value for name, value in os.environ.items() if name != BLAS_THREADS}
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, env=environ)
    assert int(done.stdout) == 1


def test_the_user_decides_how_many_threads_numpy_has() -> None:
    environ = {**os.environ, BLAS_THREADS: "2"}
    program = f"{LOADED}\nassert os.environ['{BLAS_THREADS}'] == '2'"
    subprocess.run([sys.executable, "-c", program.replace('"numpy" in sys.modules and ', "")], check=True, env=environ)
