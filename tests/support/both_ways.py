"""Compare what the compiled functions return with what numpy returns."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from nsyswrap.compiled import rows, sorted_times


class Given:
    """Stands for the library: its functions are those that a test gives."""

    found: ctypes.CDLL | None = None

    def functions(self) -> ctypes.CDLL | None:
        """Return them."""
        return self.found


@contextmanager
def library_of(functions: ctypes.CDLL) -> Iterator[Given]:
    """Let these be the functions of the library, and let it take arrays of any length."""
    library = Given()
    library.found = functions
    with pytest.MonkeyPatch.context() as patch:
        for module in (rows, sorted_times):
            patch.setattr(module, "LIBRARY", library)
            patch.setattr(module, "FEW_ROWS", 1)
        yield library


def both(library: Given, make: Callable[[], Any]) -> tuple[Any, Any]:
    """Return what a function returns with the compiled functions, and without them."""
    compiled = make()
    functions, library.found = library.found, None
    try:
        return compiled, make()
    finally:
        library.found = functions


def check(library: Given, make: Callable[[], Any]) -> None:
    """Check that both ways return arrays with the same values, and of the same types."""
    for found, wanted in zip(
        *(each if isinstance(each, tuple) else (each,) for each in both(library, make)), strict=True
    ):
        assert found.dtype == wanted.dtype
        assert found.tolist() == wanted.tolist()
