"""Programs of tools/ as modules."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@contextmanager
def tool_module(name: str) -> Iterator[ModuleType]:
    """Import a program with its folder on the path, as when it is started."""
    sys.path.insert(0, str(TOOLS))
    try:
        yield importlib.import_module(name)
    finally:
        sys.path.remove(str(TOOLS))
