# ruff: noqa: ANN401 - the functions of a program may return anything
"""Observes calls of chosen functions with ``sys.monitoring`` (Python 3.12 and newer): nothing is replaced.

Python runs a callback when the code of such a function starts and when it returns. Other code pays nothing, and neither
``sys.settrace`` nor ``sys.setprofile`` sees the callbacks. Source: PEP 669.
"""

import sys

from .process_start import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType, ModuleType
    from typing import Any

    FrameCall = Callable[[FrameType], object]

# Tools have numbers. Python reserves 0, 1, 2 and 5 for debuggers, coverage, profilers and optimizers.
TOOLS = (4, 3)
NAME = "nsyswrap"


class CallMonitor:
    """Calls functions when watched code starts and returns.

    Raises:
        LookupError: Other tools have taken the numbers for tools, or this Python cannot monitor calls.
    """

    def __init__(self) -> None:
        found = getattr(sys, "monitoring", None)
        if found is None:
            raise LookupError("only Python 3.12 and newer can monitor calls")
        self._monitoring = found
        self._tool = _taken(found)
        # By id: Python would read all of a code object for its hash, at each call.
        self._calls: dict[int, tuple[CodeType, FrameCall, FrameCall]] = {}
        self._import: CodeType | None = None
        self._then: dict[str, Callable[[ModuleType], object]] = {}
        found.register_callback(self._tool, found.events.PY_START, self._started)
        found.register_callback(self._tool, found.events.PY_RETURN, self._returned)

    @property
    def codes(self) -> "tuple[CodeType, ...]":
        """Return the code that is watched."""
        return tuple(code for code, _, _ in self._calls.values())

    def watch(self, code: "CodeType", starts: "FrameCall", ends: "FrameCall") -> None:
        """Call two functions with the frame of a call when code starts, and when it returns.

        Of a call that an exception ends, only the start is seen.
        """
        self._calls[id(code)] = code, starts, ends
        events = self._monitoring.events
        self._monitoring.set_local_events(self._tool, code, events.PY_START | events.PY_RETURN)

    def after_import(self, name: str, then: "Callable[[ModuleType], object]") -> None:
        """Call a function with a module once it has been imported; at once if it is imported already.

        Args:
            name: Name of the module.
            then: What to call; its exceptions are printed as a warning.
        """
        if name in sys.modules:
            then(sys.modules[name])
            return
        self._then[name] = then
        bootstrap: Any = sys.modules["_frozen_importlib"]
        self._import = bootstrap._load_unlocked.__code__  # noqa: SLF001 - where each import ends
        self._monitoring.set_local_events(self._tool, self._import, self._monitoring.events.PY_RETURN)

    def _started(self, code: "CodeType", _offset: int) -> None:
        found = self._calls.get(id(code))
        if found is not None:
            found[1](sys._getframe(1))  # noqa: SLF001 - the watched call

    def _returned(self, code: "CodeType", _offset: int, value: "Any") -> None:
        found = self._calls.get(id(code))
        if found is not None:
            found[2](sys._getframe(1))  # noqa: SLF001 - the watched call
        elif code is self._import and self._then:
            then = self._then.pop(getattr(value, "__name__", ""), None)
            if then is None:
                return
            try:
                then(value)
            except Exception as error:  # noqa: BLE001 - the import goes on, without marks
                warn(f"{value.__name__} is not marked: {type(error).__name__}: {error}")


def _taken(found: "Any") -> int:
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
