# ruff: noqa: ANN401 - torch is not imported here, and what a program passes on may be anything
"""Keeps out of the way of ``torch.compile``: it neither traces a frame of ours nor sees a range."""

from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

from . import marker, nvtx_calls


def compile_check(torch: Any) -> Callable[[], bool]:
    """Return what tells whether torch compiles what it is called by.

    The compiler knows the answer and puts a constant in its place, so that what depends on it is not traced.
    """
    compiler = torch.compiler
    found: Callable[[], bool] = getattr(compiler, "is_dynamo_compiling", None) or compiler.is_compiling
    return found


def frame_skipper(torch: Any) -> Callable[[CodeType], object]:
    """Return what has the compiler pass over frames of a piece of code, and still look at those that it calls.

    As it passes over torch's own frames around ``forward``. It is in torch already, so the compiler itself, which takes
    seconds to import, is not.
    """
    frames: Any = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)  # noqa: SLF001
    if hasattr(frames, "set_code_exec_strategy"):
        action = frames._FrameAction  # noqa: SLF001
        strategy = frames._FrameExecStrategy(action.SKIP, action.DEFAULT)  # noqa: SLF001
        return lambda code: frames.set_code_exec_strategy(code, strategy)
    skip: Callable[[CodeType], object] = getattr(frames, "skip_code", lambda _code: None)
    return skip


def own_code() -> Iterator[CodeType]:
    """Yield the code of all that runs between a call of the program and the profiler."""
    for module in (marker, nvtx_calls):
        for thing in list(vars(module).values()):
            for part in [thing, *(vars(thing).values() if isinstance(thing, type) else ())]:
                if isinstance(part, FunctionType) and part.__module__ == module.__name__:
                    yield part.__code__
