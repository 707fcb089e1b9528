"""Replacements for the profiler in tests of `nsyswrap.capture.annotate`."""

import ctypes
from dataclasses import dataclass, field
from types import ModuleType

from nsyswrap.capture.annotate.compiled import marker_of
from nsyswrap.capture.annotate.marker import Marker
from nsyswrap.capture.annotate.nvtx_calls import (
    _CORE2,
    _CREATE_DOMAIN,
    _POP,
    _PUSH,
    NvtxCalls,
    Prepared,
    Tables,
    _Attributes,
)


@dataclass
class Recorder:
    """A profiler that records ranges as an indented list.

    Attributes:
        lines: Each range in the order of opening, indented by its depth.
        depth: Number of open ranges.
        kept: What must live as long as the recorder.
    """

    lines: list[str] = field(default_factory=list)
    depth: int = 0
    kept: list[object] = field(default_factory=list)

    def opener(self, name: str, color: int) -> Prepared:
        """Return a prepared call that opens a range."""
        assert 0 <= color <= 0xFFFFFF
        return self._open, (name,)

    def closer(self) -> Prepared:
        """Return a prepared call that closes the last range."""
        return self._close, ()

    def _open(self, name: str) -> None:
        self.lines.append(" " * self.depth + name)
        self.depth += 1

    def _close(self) -> None:
        self.depth -= 1
        assert self.depth >= 0


class Broken:
    """A profiler that fails when a range is opened."""

    def opener(self, name: str, color: int) -> Prepared:
        """Return a prepared call that fails."""
        assert color
        return self._fail, (name,)

    def closer(self) -> Prepared:
        """Return a prepared call that fails."""
        return self._fail, ("an end",)

    def _fail(self, name: str) -> None:
        raise OSError(f"no room for {name}")


_DOMAIN = 1234
_CREATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)
_OPEN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Attributes))
_CLOSE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class CompiledRecorder(NvtxCalls):
    """Calls of the C interface of a profiler that gives each range to a recorder.

    Args:
        recorder: It records the ranges.
    """

    def __init__(self, recorder: Recorder) -> None:
        def opened(domain: int, attributes: "ctypes._Pointer[_Attributes]") -> int:
            given = attributes.contents
            assert (domain, given.version, given.size) == (_DOMAIN, 3, ctypes.sizeof(_Attributes))
            call, arguments = recorder.opener(given.message.decode(), given.color & 0xFFFFFF)
            call(*arguments)
            return 0

        def closed(domain: int) -> int:
            assert domain == _DOMAIN
            recorder.closer()[0]()
            return 0

        self._functions = {_CREATE_DOMAIN: _CREATE(lambda _: _DOMAIN), _PUSH: _OPEN(opened), _POP: _CLOSE(closed)}
        tables = Tables()
        for slot, function in self._functions.items():
            tables.slots[_CORE2][slot] = ctypes.cast(function, ctypes.c_void_p).value
        super().__init__(tables)


def compiled_recording(module: ModuleType, recorder: Recorder) -> Marker:
    """Return a compiled marker whose ranges a recorder gets."""
    calls = CompiledRecorder(recorder)
    recorder.kept.append(calls)
    return marker_of(module, calls)
