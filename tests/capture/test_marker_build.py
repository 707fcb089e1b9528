"""The compiled marker is made where there is a C compiler, and nothing else happens where there is none."""

import os
from pathlib import Path
from types import ModuleType

import pytest

from nsyswrap.capture.marker_build import NAME, built_marker


def test_the_source_compiles_without_warnings(compiled_module: ModuleType, tmp_path: Path) -> None:
    """``CC`` may hold options, too."""
    assert compiled_module
    path = built_marker(tmp_path, {**os.environ, "CC": "cc -Wall -Wextra -Wno-unused-parameter -Werror"})
    assert path == tmp_path / NAME


@pytest.mark.parametrize("compiler", ["false", "true", "no-such-compiler"])
def test_without_a_compiler_there_is_no_compiled_marker(tmp_path: Path, compiler: str) -> None:
    """The same is true of a compiler that fails, or writes nothing."""
    assert built_marker(tmp_path, {**os.environ, "CC": compiler}) is None
    assert list(tmp_path.iterdir()) == []


def test_without_the_headers_of_python_there_is_no_compiled_marker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda _name: str(tmp_path))
    assert built_marker(tmp_path, os.environ) is None
