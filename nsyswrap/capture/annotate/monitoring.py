# ruff: noqa: ANN401 - the functions of a program may return anything
"""Observes calls of chosen functions with ``sys.monitoring`` (Python 3.12 and newer): nothing is replaced.

Python runs a callback when the code of such a function starts and when it returns. Other code pays nothing, and neither
``sys.settrace`` nor ``sys.setprofile`` sees the callbacks. Source: PEP 669.
"""

import sys

from .stderr import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, ModuleType
    from typing import Any

# Tools have numbers. Python reserves 0, 1, 2 and 5 for debuggers, coverage, profilers and optimizers.
TOOLS = (4, 3)
NAME = "nsyswrap"


class Monitor:
    """The number of nsyswrap among the tools that observe this process.

    Raises:
        LookupError: Other tools have taken the numbers for tools, or this Python cannot monitor calls.
    """

    def __init__(self) -> None:
        found = getattr(sys, "monitoring", None)
        if found is None:
            raise LookupError("only Python 3.12 and newer can monitor calls")
        self._monitoring = found
        self._tool = take_tool(found)
        self._then: dict[str, Callable[[ModuleType], object]] = {}
        bootstrap: Any = sys.modules["_frozen_importlib"]
        self._import: CodeType = bootstrap._load_unlocked.__code__  # noqa: SLF001 - where each import ends
        found.register_callback(
            self._tool, found.events.PY_RETURN, lambda code, _, value: self.note_import(code, value)
        )

    def on_calls(
        self, started: "Callable[[CodeType, int], object]", returned: "Callable[[CodeType, int, Any], object]"
    ) -> None:
        """Call two functions when watched code starts, and when it returns.

        Of a call that an exception ends, only the start is seen. Both get the code and an offset in it, ``returned``
        the value as well; for code that is not watched it calls ``note_import``.
        """
        events = self._monitoring.events
        self._monitoring.register_callback(self._tool, events.PY_START, started)
        self._monitoring.register_callback(self._tool, events.PY_RETURN, returned)

    def watch(self, code: "CodeType", *, starts: bool = True, returns: bool = True) -> None:
        """Observe the starts and the returns of some code, or only one of the two."""
        events = self._monitoring.events
        wanted = (events.PY_START if starts else 0) | (events.PY_RETURN if returns else 0)
        self._monitoring.set_local_events(self._tool, code, wanted)

    def after_import(self, name: str, then: "Callable[[ModuleType], object]") -> None:
        """Call a function with a module once it has been imported; at once if it is imported already.

        Exceptions of ``then`` are printed as a warning.
        """
        if name in sys.modules:
            then(sys.modules[name])
            return
        self._then[name] = then
        self._monitoring.set_local_events(self._tool, self._import, self._monitoring.events.PY_RETURN)

    def note_import(self, code: "CodeType", value: "Any") -> None:
        """Note that code returns; if it is that of an import, call what waits for the module."""
        then = self._then.pop(getattr(value, "__name__", ""), None) if code is self._import else None
        if then is None:
            return
        try:
            then(value)
        except Exception as error:  # noqa: BLE001 - the import goes on, without marks
            warn(f"{value.__name__} is not marked: {type(error).__name__}: {error}")


def take_tool(found: "Any") -> int:
    """Take a number for tools, and return it.

    Raises:
        LookupError: Other tools have them.
    """
    for number in TOOLS:
        try:
            found.use_tool_id(number, NAME)
        except ValueError:
            continue
        return int(number)
    raise LookupError("other tools monitor the calls of this process")
