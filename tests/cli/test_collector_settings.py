"""The settings of Python's garbage collector."""

import atexit
import gc
import subprocess
import sys

from nsyswrap.cli.collector_settings import NEW_OBJECTS, tune_collector

PROGRAM = """
import atexit, gc
from nsyswrap.cli.collector_settings import tune_collector
kept = [[number] for number in range(1000)]
atexit.register(lambda: print(gc.get_freeze_count() > len(kept)))
tune_collector()
assert not gc.get_freeze_count()
"""


def test_garbage_is_looked_for_less_often_and_still_collected() -> None:
    before = gc.get_threshold()
    try:
        tune_collector()
        assert gc.get_threshold()[0] == NEW_OBJECTS > before[0]
        assert gc.isenabled()
    finally:
        gc.set_threshold(*before)
        atexit.unregister(gc.freeze)


def test_at_the_end_python_looks_at_no_objects_again() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=300, capture_output=True, text=True)
    assert done.stdout == "True\n"
