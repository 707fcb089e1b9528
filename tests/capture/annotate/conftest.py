"""The compiled marker, for the tests of marks."""

import os
from types import ModuleType

import pytest

from nsyswrap.capture.annotate.compiled import loaded
from nsyswrap.capture.marker_build import built_marker


@pytest.fixture(scope="session")
def compiled_module(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """Return the compiled marker's module, compiled here."""
    path = built_marker(tmp_path_factory.mktemp("compiled"), os.environ)
    if path is None:
        pytest.skip("no C compiler, or no headers of Python")
    module = loaded(str(path))
    assert module
    return module
