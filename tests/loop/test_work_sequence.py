"""The thread that runs the loop."""

import numpy as np
import pytest
from export_builder import MAIN, PROCESS, thread

from nsyswrap.loop.work_sequence import _loop_thread

WORKER = thread(4712)


@pytest.mark.parametrize(("launches", "runs"), [(12, MAIN), (8, WORKER)])
def test_the_main_thread_runs_the_loop_where_it_launches_a_hundredth(launches: int, runs: int) -> None:
    """The others are those of a thread that replicates the model."""
    launcher = np.array([*[MAIN] * launches, *[WORKER] * (1_000 - launches)] * 2)
    assert _loop_thread(launcher, PROCESS) == runs
