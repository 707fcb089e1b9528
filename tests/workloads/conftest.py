"""Fixtures of the programs in workloads."""

import contextlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

WORKLOADS = Path(__file__).resolve().parents[2] / "workloads"


@pytest.fixture(scope="module")
def shared() -> Iterator[ModuleType]:
    """Import workloads/common.py with its folder on the path, as when a program is started there."""
    sys.path.insert(0, str(WORKLOADS))
    yield importlib.import_module("common")
    sys.path.remove(str(WORKLOADS))


@pytest.fixture
def events(shared: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return which ranges were opened (+) and closed (-), recorded by a fake nvtx."""
    written: list[str] = []

    @contextlib.contextmanager
    def annotate(message: str, color: int) -> Iterator[None]:
        assert 0 <= color <= 0xFFFFFF
        written.append(f"+{message}")
        yield
        written.append(f"-{message}")

    monkeypatch.setattr(shared.nvtx, "annotate", annotate)
    return written
