"""A profiler library that logs its calls, for the tests of marks."""

from pathlib import Path

import pytest
from listener_library import build_listener


@pytest.fixture(scope="session")
def listener(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile a profiler library that logs its calls, with the interface of the NVTX headers."""
    try:
        return build_listener(tmp_path_factory.mktemp("listener"))
    except FileNotFoundError:
        pytest.skip("there is no C compiler")
