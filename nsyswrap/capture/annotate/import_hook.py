"""Runs something when torch has been imported, whenever that is, and leaves no trace in the import system after."""

import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec


class AfterImport:
    """A finder that finds nothing itself: it has a module's loader call back when the module was executed.

    Args:
        name: The module waited for.
        then: Called once with the module; what it raises is not caught.
    """

    def __init__(self, name: str, then: Callable[[ModuleType], object]) -> None:
        self._name = name
        self._then = then

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        """Return what the other finders find, with a loader that calls back; None for every other module."""
        if name != self._name:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if finder is self or find is None else find(name, path, target)
            if spec is not None:
                self._watch(spec.loader)
                return spec
        return None

    def _watch(self, loader: Any) -> None:  # noqa: ANN401 - any loader
        """Have this one loader call back; its class stays as it is."""
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def executed(module: ModuleType) -> None:
            del loader.exec_module
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self._then(module)

        try:
            loader.exec_module = executed
        except AttributeError:  # a loader without attributes of its own: torch is imported, and not marked
            return


def after_import(name: str, then: Callable[[ModuleType], object]) -> None:
    """Call something with a module once it has been imported; at once where it has been."""
    if name in sys.modules:
        then(sys.modules[name])
    else:
        sys.meta_path.insert(0, AfterImport(name, then))
