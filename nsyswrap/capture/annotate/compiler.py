# ruff: noqa: ANN401 - torch is not imported here, and what a program passes on may be anything
"""Hides nsyswrap's frames from ``torch.compile``, so that it traces neither them nor ranges."""

import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

from . import marker, nvtx_calls, step_clock, thread_state
from .import_hook import after_import

TRACER = "torch._dynamo.symbolic_convert"
# Has an item from when the compiler first traces code in this process. Until then no mark has to check whether it is
# being traced, which would be another call in each module that is called.
TRACED: list[bool] = []
# What is called then.
BEFORE_TRACING: list[Callable[[], object]] = []


def watch_tracing() -> None:
    """Put an item into ``TRACED`` before the compiler traces anything; at once if it may have begun to."""
    if TRACER in sys.modules:
        _note_tracing()
    else:
        after_import(TRACER, _watch_tracer)


def _watch_tracer(module: Any) -> None:
    """Note the first tracer that is made; every trace has one."""
    tracer = getattr(module, "InstructionTranslatorBase", None)
    if tracer is None:  # another version of torch
        _note_tracing()
        return
    begin = tracer.__init__

    def begin_tracing(self: Any, *args: Any, **kwargs: Any) -> None:
        _note_tracing()
        begin(self, *args, **kwargs)

    tracer.__init__ = begin_tracing


def _note_tracing() -> None:
    if not TRACED:
        TRACED.append(True)
        while BEFORE_TRACING:
            BEFORE_TRACING.pop()()


def exchange_for_tracer(old: object, new: object) -> None:
    """Tell the compiler that a call of torch is another function now: it goes straight to the calls that it knows.

    Source: torch/_dynamo/variables/nn_module.py.
    """
    for name in ("torch._dynamo.utils", "torch._dynamo.variables.nn_module"):
        module: Any = sys.modules.get(name)
        if getattr(module, "unpatched_nn_module_call", None) is old:
            module.unpatched_nn_module_call = new


def compile_check(torch: Any) -> Callable[[], bool]:
    """Return the function of torch that returns whether its caller is being compiled.

    The compiler replaces the call by a constant, so it does not trace code that depends on the result.
    """
    compiler = torch.compiler
    found: Callable[[], bool] = getattr(compiler, "is_dynamo_compiling", None) or compiler.is_compiling
    return found


def frame_skipper(torch: Any) -> Callable[[CodeType], object]:
    """Return a function that makes the compiler skip the frames of a code object, but not the frames that it calls.

    The compiler treats torch's own frames around ``forward`` in this way. The function is part of torch's C extension,
    so the compiler itself, which takes seconds to import, is not imported.
    """
    frames: Any = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)  # noqa: SLF001
    if hasattr(frames, "set_code_exec_strategy"):
        action = frames._FrameAction  # noqa: SLF001
        strategy = frames._FrameExecStrategy(action.SKIP, action.DEFAULT)  # noqa: SLF001
        return lambda code: frames.set_code_exec_strategy(code, strategy)
    skip: Callable[[CodeType], object] = getattr(frames, "skip_code", lambda _code: None)
    return skip


def own_code() -> Iterator[CodeType]:
    """Yield the code objects of all functions that open and close ranges."""
    for module in (marker, nvtx_calls, step_clock, thread_state):
        for value in list(vars(module).values()):
            for part in [value, *(vars(value).values() if isinstance(value, type) else ())]:
                if isinstance(part, FunctionType) and part.__module__ == module.__name__:
                    yield part.__code__
