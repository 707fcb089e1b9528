"""Calls a function once torch has been imported, and then removes itself from the import system."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


class AfterImport:
    """A finder that finds nothing itself: it makes the loader of one module call a function after the import.

    Exceptions of ``then`` are not caught.
    """

    def __init__(self, name: str, then: "Callable[[ModuleType], object]") -> None:
        self._name = name
        self._then = then

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        """Return the spec of the other finders, with a loader that makes the call; None for every other module."""
        if name != self._name or self not in sys.meta_path:
            return None
        # Those before this one had no spec.
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if find is None else find(name, path, target)
            if spec is not None:
                self._watch(spec.loader)
                return spec
        return None

    def _watch(self, loader: "Any") -> None:  # noqa: ANN401 - any loader
        """Make this loader call the function after the import; its class is not changed."""
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def executed(module: "ModuleType") -> None:
            vars(loader).pop("exec_module", None)
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self._then(module)

        # A traceback leaves out such frames of the import system, in which the import of a module fails.
        executed.__code__ = executed.__code__.replace(
            co_filename="<frozen importlib._bootstrap>", co_name="_call_with_frames_removed"
        )
        try:
            loader.exec_module = executed
        except AttributeError:  # a loader without instance attributes: torch is imported but not marked
            return


def after_import(name: str, then: "Callable[[ModuleType], object]") -> None:
    """Call a function with a module after its import; at once if it is imported already."""
    if name in sys.modules:
        then(sys.modules[name])
    else:
        sys.meta_path.insert(0, AfterImport(name, then))
