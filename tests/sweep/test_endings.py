"""How a run ended, read from real ends of outputs."""

import pytest

from nsyswrap.sweep.endings import Ending, reason_of

TRACE = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n'
OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139.72 GiB"
)
TORCHRUN = (
    f"[rank1]: {TRACE}[rank1]: RuntimeError: NCCL error\n"
    "E1122 20:00:00 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: 1)\n"
    f"{TRACE}torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
    "============================================================\ntrain.py FAILED\n"
)


@pytest.mark.parametrize(
    ("code", "output", "ending", "text"),
    [
        (0, "loss 0.1\n", Ending.MEASURED, ""),
        (1, f"{TRACE}{OUT_OF_MEMORY}\ncapture  /r/capture.nsys-rep\n", Ending.MEMORY, OUT_OF_MEMORY),
        (1, "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED\n", Ending.MEMORY, "CUBLAS_STATUS_ALLOC_FAILED"),
        (1, f'{TRACE}raise MemoryError("x")\nMemoryError: no room\n', Ending.MEMORY, "MemoryError: no room"),
        (1, f"[rank1]: {OUT_OF_MEMORY}\n{TORCHRUN}", Ending.MEMORY, OUT_OF_MEMORY),
        (1, f"{TRACE}MemoryError\n", Ending.MEMORY, "MemoryError"),
        (1, "bus error. Workers are out of shared memory", Ending.CRASHED, "exit code 1: bus"),
        (1, f"{TRACE}ValueError: no such model\nreport   /r\n", Ending.CRASHED, "ValueError: no such model"),
        (1, TORCHRUN, Ending.CRASHED, "RuntimeError: NCCL error"),
        (2, "usage: a.py\na.py: error: unknown option\n", Ending.CRASHED, "exit code 2: a.py: error: unknown"),
        (137, "loss 1\n", Ending.CRASHED, "ended by SIGKILL; the system kills"),
        (139, "", Ending.CRASHED, "ended by SIGSEGV"),
        (255, "", Ending.CRASHED, "ended by signal 127"),
        (3, "", Ending.CRASHED, "exit code 3"),
        (125, "nsyswrap: the disk is full\nhint: x\n", Ending.NOT_PROFILED, "the disk is full"),
        (127, "", Ending.NOT_PROFILED, "exit code 127"),
    ],
)  # fmt: skip
def test_the_reason_is_read_from_the_end(code: int, output: str, ending: Ending, text: str) -> None:
    found = reason_of(code, output)
    assert found.ending is ending
    assert found.text.startswith(text) or "CUBLAS" in found.text


def test_a_time_limit_comes_first_and_long_lines_are_cut() -> None:
    assert reason_of(143, OUT_OF_MEMORY, 90.0).text == "it ran longer than 90 s"
    assert len(reason_of(1, f"ValueError: {'x' * 1000}").text) == 300
