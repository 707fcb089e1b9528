# ruff: noqa: ANN401, PTH110, PTH118, PTH120, SLF001 - see recording; what torch's own classes call is private
"""The X-ray steps: more steps of the recording, in which PyTorch itself says what it computes, and for which line.

::

    | warm-up | alone | recorded | X-ray A | X-ray B | X-ray A | nothing is recorded

They are left out of all times, so they may be slow. There are at most three: they end with the first one that calls the
same lines in the same order as one before, which is not kept. Three observers are on from the start to the end of each:

- the one behind ``torch.autograd.profiler.emit_nvtx``: each operator is an NVTX range with its number;
- the one behind ``torch.profiler.ExecutionTraceObserver``, which writes the inputs and outputs of the operators, by the
  same numbers, to a file of this process;
- ``Sites``: ranges with the number of the line that called, which is in the other file of this process.

They are turned on by the C functions that these classes call. The classes would also synchronize with the GPU, which an
ongoing capture of a CUDA graph does not survive. At its end the step waits for the GPU, unless a graph is captured. As
they do, the step says in Python that a profiler is on: Inductor then makes operators of its Triton kernels. A program
that turns on a profiler itself ends the observation first.
"""

import ctypes
import os
import sys
import time
from _thread import get_ident
from collections.abc import Callable
from typing import Any

from .nvtx_calls import GRAY, Sink
from .stderr import warn, write_whole
from .xray_sites import COMPILED, Sites

# The text of the range around the step, in the domain of our other ranges.
TEXT = "xray"
# Ends of the names of a process's files: the lines and modules, and what the execution trace observer writes.
SITES_SUFFIX, OPERATORS_SUFFIX = ".xray", ".execution"

# A step with an evaluation in it lasts until the next optimizer step. A minute is what a user waits, for all of them.
MOST_STEPS, MOST_NS = 3, 60_000_000_000

# The observer of operators logs, as a warning, that it is turned on. Source: c10/util/Logging.h, the level of errors.
_ERRORS = 2
# Shapes of inputs, but neither memory, nor stacks, nor floating-point operations, nor modules.
_SHAPES_ONLY = (True, False, False, False, False)


class XRay:
    """Takes the X-ray steps of this process.

    ``path`` is the start of the names of the files of this process, the rank None in a program without ranks.

    Attributes:
        goes_on: Whether the step after the last one is to be observed, too.
    """

    def __init__(
        self,
        torch: Any,
        sink: Sink,
        path: str,
        rank: "int | None",
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._torch, self._sink, self._path, self._clock = torch, sink, path, clock
        self._record: dict[str, Any] = {"pid": os.getpid(), "rank": rank, "torch": str(torch.__version__)}
        self._reasons: list[str] = []
        self._sites: Sites | None = None
        self._undo: list[Callable[[], object]] = []
        self._thread = self._range = self._began = self._step_began = 0
        self._has_ranges = self.goes_on = False
        # What the steps called, by the file of their operators.
        self._paths: dict[str, int] = {}

    def begin(self, step: int) -> bool:
        """Begin an X-ray step, and return whether it can be taken; if not, the file of this process says why."""
        self._thread, self._step_began = get_ident(), self._clock()
        self._began = self._began or self._step_began
        self._record.setdefault("step", step)
        try:
            self._begin_observing()
        except Exception as error:  # noqa: BLE001 - no error here may end the program
            self._stop(str(error) if isinstance(error, LookupError) else f"{type(error).__name__}: {error}")
            self._write()
            return False
        self._range = self._sink.start(self._sink.domain, self._sink.described(TEXT, GRAY))
        return True

    def end(self) -> None:
        """End an X-ray step, and write the file of this process."""
        self._stop()
        # The profiler loses kernels that run when the recording ends.
        cuda = self._torch.cuda
        try:
            if cuda.is_initialized() and not cuda.is_current_stream_capturing():
                cuda.synchronize()
        except Exception as error:  # noqa: BLE001 - see begin
            self._reasons.append(f"{type(error).__name__}: {error}")
        self._sink.end(self._sink.domain, self._range)
        path = self._sites.path_of(self._thread) if self._sites else 0
        is_known, file = path in self._paths.values(), self._operators_file
        if is_known and os.path.exists(file):
            os.remove(file)  # noqa: PTH107
        self._paths[file] = path
        now = self._clock()
        is_left = len(self._paths) < MOST_STEPS and now - self._began + now - self._step_began <= MOST_NS
        self.goes_on = is_left and not is_known and not self._reasons
        self._write()

    def abandon(self) -> None:
        """Observe nothing any more: in a forked process, whose files are not its own."""
        self._undo = [each for each in self._undo if each != self._remove_operators]
        self._stop()

    @property
    def _operators_file(self) -> str:
        return f"{self._path}{f'.{len(self._paths) + 1}' if self._paths else ''}{OPERATORS_SUFFIX}"

    def _begin_observing(self) -> None:
        """Turn everything on."""
        if not hasattr(sys, "monitoring"):
            raise LookupError(f"Python {sys.version_info[0]}.{sys.version_info[1]} cannot monitor calls, 3.12 can")
        torch, autograd = self._torch, self._torch._C._autograd
        profiler: Any = torch._C._profiler
        if autograd._profiler_enabled() or torch.autograd.profiler._is_profiler_enabled:
            raise LookupError("the program uses a profiler of PyTorch")
        if torch._C._current_graph_task_id() != -1:
            raise LookupError("the steps of the program end inside of backward passes")
        if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
            raise LookupError("the program is capturing a CUDA graph")
        if self._sites is None:
            guarded = frozenset(map(id, self._guarded()))
            self._sites = Sites(torch, self._sink, guarded, self._stop, self._is_over)
        self._sites.reserve()
        self._undo.append(self._sites.stop)
        file = self._operators_file
        self._quietly(profiler._add_execution_trace_observer, file)
        if not os.path.exists(file):
            raise LookupError("the program uses an execution trace observer")
        self._undo += [self._disable_operators, self._remove_operators]
        self._quietly(profiler._enable_execution_trace_observer)
        if torch.version.cuda is None:
            self._reasons.append("this PyTorch is built without CUDA, so operators have no ranges")
        else:
            config = profiler.ProfilerConfig(profiler.ProfilerState.NVTX, *_SHAPES_ONLY, profiler._ExperimentalConfig())
            # Not the ranges that the program itself opens: one that is open at the end would fail to close.
            scopes = {profiler.RecordScope.FUNCTION, profiler.RecordScope.BACKWARD_FUNCTION}
            autograd._enable_profiler(config, set(), scopes)
            self._has_ranges = torch.autograd.profiler._is_profiler_enabled = True
        self._sites.start()

    def _guarded(self) -> "list[Callable[..., object]]":
        """Return the functions with which a program turns on a profiler, or sees that one is on."""
        functions = [getattr(vars(sys)["monitoring"], name) for name in ("use_tool_id", "get_tool")]
        functions += [self._torch.autograd.profiler._run_on_profiler_start]
        functions += [self._torch._C._profiler._add_execution_trace_observer]
        names = (
            "_prepare_profiler",
            "_enable_profiler",
            "_enable_profiler_legacy",
            "_profiler_enabled",
            "_profiler_type",
        )
        return [*functions, *(getattr(self._torch._C._autograd, name) for name in names)]

    def _disable_operators(self) -> None:
        self._quietly(self._torch._C._profiler._disable_execution_trace_observer)

    def _remove_operators(self) -> None:
        self._quietly(self._torch._C._profiler._remove_execution_trace_observer)

    def _disable_ranges(self) -> None:
        # They are on in one thread, and in the backward passes that it begins.
        if self._has_ranges and get_ident() == self._thread:
            self._has_ranges = self._torch.autograd.profiler._is_profiler_enabled = False
            self._torch._C._autograd._disable_profiler()

    def _is_over(self) -> bool:
        return self._clock() - self._began > MOST_NS

    def _stop(self, reason: str = "") -> None:
        """Turn everything off that is on."""
        if reason:
            self._reasons.append(reason)
        undo, self._undo = self._undo, []
        # Ranges of operators that are open in a backward pass would fail to end, where a compiler runs in it.
        if reason != COMPILED or self._torch._C._current_graph_task_id() == -1:
            undo = [*undo, self._disable_ranges]
        for call in undo:
            try:
                call()
            except Exception as error:  # noqa: BLE001 - the rest is to be turned off, too
                self._reasons.append(f"{type(error).__name__}: {error}")

    def _quietly(self, call: Callable[..., object], *arguments: object) -> None:
        """Call a C function of torch that logs a warning each time, without it."""
        library = os.path.join(os.path.dirname(self._torch.__file__), "lib", "libc10.so")
        level = ctypes.c_int.in_dll(ctypes.PyDLL(library), "FLAGS_caffe2_log_level")
        before = level.value
        level.value = max(before, _ERRORS)
        try:
            call(*arguments)
        finally:
            level.value = before

    def _write(self) -> None:
        """Write the file of this process; it appears whole."""
        try:
            tables = self._sites.tables() if self._sites else {"sites": [], "modules": [], "roots": [], "memory": []}
            found = {**self._record, "reason": "; ".join(self._reasons) or None, **tables}
            write_whole(f"{self._path}{SITES_SUFFIX}", found)
        except Exception as error:  # noqa: BLE001 - see begin
            warn(f"the lines of the X-ray step are lost: {type(error).__name__}: {error}")
