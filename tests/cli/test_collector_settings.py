"""The settings of Python's garbage collector."""

import gc

from nsyswrap.cli.collector_settings import NEW_OBJECTS, tune_collector


def test_garbage_is_looked_for_less_often_and_still_collected() -> None:
    before = gc.get_threshold()
    try:
        tune_collector()
        assert gc.get_threshold()[0] == NEW_OBJECTS > before[0]
        assert gc.isenabled()
    finally:
        gc.set_threshold(*before)
