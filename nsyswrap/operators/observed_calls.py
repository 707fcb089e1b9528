"""The launches of the X-ray step, each with the operator, the module and the line that it comes from.

The ranges around a launch say it: those of operators have the number of the operator in `xray.json`, and ours that of
the line that called PyTorch::

    main thread    |----- nsyswrap xray 7 ----------|         line 7 of the table: model.py:31, module encoder.layers.3
                     |--- aten::linear, seq = 12 --|
                       |- aten::addmm, seq = 12 -|
                            launch

A backward operator takes line and module from the forward operator with its sequence number: of those that have it, the
last one to begin made the node. Source: torch/csrc/autograd/profiler and at::sequence_number, which counts nodes.

    autograd       |-- autograd::engine::evaluate_function: AddmmBackward0 --|
                     |--- AddmmBackward0, seq = 12 ------------------------|
                          |-- aten::mm --|

An operator in it that has a sequence number of its own is part of a forward pass that is computed again. What the
backward pass launches without a forward operator has the line that runs it.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base import units
from nsyswrap.base.intervals import Indices, Spans, Times
from nsyswrap.events.host_record import injected
from nsyswrap.events.operations import COMPUTE, SOURCES, Operations, find_operations, launch_rows
from nsyswrap.events.python_stacks import shown_files
from nsyswrap.events.xray_record import (
    Argument,
    CallSite,
    ProcessXray,
    RecordedOperator,
    Tensor,
    XrayRecord,
    tensors_of,
)
from nsyswrap.hardware.kernel_names.classify import classify
from nsyswrap.loop.range_nesting import RangeNesting
from nsyswrap.loop.xray_step import numbers_of
from nsyswrap.operators.fused_names import fused_operators
from nsyswrap.operators.optimizers import optimizer_of, optimizers_in
from nsyswrap.operators.work import OperatorWork, products_of, work_of
from nsyswrap.ranks.join import REPORT_BITS
from nsyswrap.trace import tables
from nsyswrap.trace.tables import CodedIds, Frame, Trace, array, coded

BACKWARD, RECOMPUTED = "backward", "recomputed"

# Source: torch/csrc/autograd/profiler_legacy.cpp and torch/autograd/profiler.py, emit_nvtx.
_OPERATOR = re.compile(
    r"^(?P<name>.+?), (?:seq = (?P<sequence>\d+), )?op_id = (?P<id>\d+)"
    r"(?:, sizes = (?P<sizes>.*?)(?:, input_op_ids = .*)?)?$",
    re.DOTALL,
)
_SITE = re.compile(r"^(?:nsyswrap )?xray (\d+)$")
_ENGINE = "autograd::engine::evaluate_function"
# Names under which modules that wrap others hold them: those of torch.compile, FSDP, checkpointing and DDP.
_WRAPPERS = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
# Files of PyTorch whose code runs backward passes.
_BACKWARD = ("torch/autograd/graph.py", "torch/autograd/__init__.py")
_PARALLEL = frozenset({"DistributedDataParallel", "DataParallel"})


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """One call of an operator that launched something.

    Attributes:
        name: Its name, such as "aten::mm", or the operators that a compiled kernel fuses; empty outside operators.
        shapes: Shapes of the tensors that it took.
        dtypes: Their types.
        module: Path of the module that called it, or whose forward pass it is the backward pass of.
        class_name: Class of that module.
        line: File and line of the program that called it.
        function: Function of that line.
        optimizer: Class of the optimizer whose step called it; empty for none.
        role: ``BACKWARD``, ``RECOMPUTED``, or empty for what the engine of autograd does not run.
        work: Its work; None where it is not known.
        operator: What it took and returned; None where that is not known.
        forward: The operator of the forward pass that autograd knows, around the call or differentiated by it.
        in_graph: Of a kernel in a CUDA graph, whose operators ran when the graph was captured, the operation that its
            name shows, such as ``gemm``; empty for others.
    """

    name: str = ""
    shapes: str = ""
    dtypes: str = ""
    module: str = ""
    class_name: str = ""
    line: str = ""
    function: str = ""
    optimizer: str = ""
    role: str = ""
    work: OperatorWork | None = None
    operator: RecordedOperator | None = None
    forward: RecordedOperator | None = None
    in_graph: str = ""


@dataclass(frozen=True, slots=True)
class ObservedCalls:
    """The launches of the X-ray steps, by thread and start of the call: arrays of equal length.

    Attributes:
        operation: Row of each in ``operations``.
        thread: Global id of the thread that launched it.
        step: Number of its X-ray step.
        call: Index into ``calls``.
        part: Its part of the work of that call: of its time on the GPU, without copies and memsets.
        calls: The calls of operators.
        operations: What the X-ray step ran.
        trace: Its tables.
    """

    operation: Indices
    thread: Times
    step: Indices
    call: Indices
    part: npt.NDArray[np.float64]
    calls: tuple[OperatorCall, ...]
    operations: Operations
    trace: Trace


class _Named(NamedTuple):
    """The operator in the text of a range.

    Attributes:
        name: Its name.
        sequence: Its sequence number; None where it has none.
        number: Its number in `xray.json`.
        sizes: The sizes of what it took, as a list of lists.
    """

    name: str
    sequence: int | None
    number: int
    sizes: str

    @property
    def is_engine(self) -> bool:
        return self.name.startswith(_ENGINE)


class _Around(NamedTuple):
    """What is open around a call: the rows of the ranges of operators, the outermost first, and of the innermost line.

    Attributes:
        operators: Rows of operators.
        site: Row of the line; -1 for none.
    """

    operators: list[int]
    site: int


class _Origin(NamedTuple):
    """The origin of a launch: rows of its operator and its line, its role, a fused kernel, the row of ``forward``.

    ``in_graph`` is that of ``OperatorCall``.
    """

    operator: int
    site: int
    role: str
    kernel: str
    forward: int
    in_graph: str


def find_observed(trace: Trace, record: XrayRecord) -> ObservedCalls:
    """Return the launches of the X-ray step.

    Args:
        trace: The tables of that step alone.
        record: What PyTorch said of it.
    """
    operations, calls = find_operations(trace), trace[tables.CALLS]
    rows = np.flatnonzero(operations.call >= 0)
    thread = coded(calls, "thread")[operations.call[rows]]
    order = np.lexsort((rows, operations.call[rows], thread))
    rows, thread = rows[order], thread[order]
    call = operations.call[rows]
    step = _Step(trace, record)
    around = step.around(thread, Spans(array(calls, "start")[call], array(calls, "end")[call]))
    kernels = _kernel_names(trace, operations, rows)
    running = step.running_backward(thread, array(calls, "start")[call])
    launches_graph = np.isin(call, launch_rows(trace)).tolist()
    in_graph = [_operation(name) if its else "" for name, its in zip(kernels, launches_graph, strict=True)]
    origins = [step.origin(*each) for each in zip(around, running, kernels, in_graph, strict=True)]
    place: dict[_Origin, int] = {}
    codes = np.array([place.setdefault(each, len(place)) for each in origins], np.intp)
    owner = np.array([each.operator for each in origins], np.intp) + 1
    length = np.where(operations.kind == COMPUTE, np.maximum(operations.end - operations.start, 1), 0)[rows]
    part = length / np.maximum(np.bincount(owner, length), 1)[owner] if len(rows) else np.empty(0)
    described = tuple(step.described(each) for each in place)
    numbers = numbers_of(trace, thread, array(calls, "start")[call])
    return ObservedCalls(rows, thread, numbers, codes, part, described, operations, trace)


def _kernel_names(trace: Trace, operations: Operations, rows: Indices) -> list[str]:
    """Return the name of each launch that is a kernel; empty for others."""
    names = np.full(len(rows), -1, np.int64)
    kernel = operations.table[rows] == SOURCES.index(tables.KERNELS)
    names[kernel] = coded(trace[tables.KERNELS], "name_id")[operations.row[rows[kernel]]]
    return ["" if each < 0 else trace.text(each) for each in names.tolist()]


@lru_cache(maxsize=1 << 12)
def _operation(kernel: str) -> str:
    """Return the operation that the name of a kernel shows, else just "kernels"."""
    return classify(kernel).op or "kernels"


class _Step:
    """The ranges of the X-ray step.

    Args:
        trace: The tables of that step alone.
        record: What PyTorch said of it.
    """

    def __init__(self, trace: Trace, record: XrayRecord) -> None:
        ranges = trace[tables.RANGES]
        texts = [str(each) for each in ranges["text"].cat.categories]
        thread, ended_on = array(ranges, "thread"), array(ranges, "end_thread")
        own = ranges.assign(end_thread=np.where(ended_on == thread, 0, ended_on))
        self._nesting = RangeNesting(own)
        self._record = {(each.report, each.pid): each for each in record}
        code = ranges["text"].cat.codes.to_numpy()
        each_named = [named(text) for text in texts]
        self._named = {row: found for row, each in enumerate(code.tolist()) if (found := each_named[each]) is not None}
        matches = [_SITE.match(text) for text in texts]
        site = np.array([-1 if each is None else int(each[1]) for each in matches], np.int64)
        self._site = np.where(injected(ranges), site[code], -1) if len(ranges) else np.empty(0, np.int64)
        self._thread, self._start, self._end = (array(ranges, name) for name in ("thread", "start", "end"))
        self._threads = self._numbered_threads()
        self._optimizers = {key: optimizers_in(each) for key, each in self._record.items()}
        self._shown = shown_files([frames_of(site) for each in record for site in each.sites])
        self._forward, self._node = self._by_sequence()

    def around(self, thread: Times, spans: Spans) -> list[_Around]:
        """Return what is open around each of some calls."""
        operators: list[list[int]] = [[] for _ in range(len(thread))]
        sites: list[list[int]] = [[-1] for _ in range(len(thread))]
        codes, ids = pd.factorize(thread, sort=True)
        inside = self._nesting.enclosing(CodedIds(codes, ids), lambda some: Spans(*(side[some] for side in spans)))
        for which, rows in inside:
            for item, row in zip(which.tolist(), rows.tolist(), strict=True):
                if row in self._named:
                    operators[item].append(row)
                elif self._site[row] >= 0:
                    sites[item].append(row)
        # Ranges that cross have levels without an order.
        outermost_first = np.empty(len(self._thread), np.intp)
        outermost_first[np.lexsort((-self._end, self._start))] = np.arange(len(self._thread))
        place = outermost_first.tolist()
        return [
            _Around(sorted(each, key=place.__getitem__), max(lines, key=lambda row: -1 if row < 0 else place[row]))
            for each, lines in zip(operators, sites, strict=True)
        ]

    def running_backward(self, thread: Times, at: Times) -> list[int]:
        """Return the row of the line that runs a backward pass in the process of each thread at a time; -1 for none."""
        process, found = tables.process_of(self._thread), np.full(len(at), -1, np.intp)
        rows = [each for each in np.flatnonzero(self._site >= 0).tolist() if self._runs_backward(each)]
        for row in sorted(rows, key=self._start.__getitem__):
            inside = (tables.process_of(thread) == process[row]) & (at >= self._start[row]) & (at < self._end[row])
            found[inside] = row
        return found.tolist()

    def _runs_backward(self, row: int) -> bool:
        site = self._site_of(row)
        return site is not None and any(frame.file.endswith(_BACKWARD) for frame in frames_of(site)[:2])

    def origin(self, around: _Around, running: int, kernel: str, in_graph: str) -> _Origin:
        """Return the origin of a launch.

        Args:
            around: What is open around it.
            running: Row of the line that runs a backward pass at that time; -1 for none.
            kernel: Its name.
            in_graph: As in ``OperatorCall``.
        """
        rows, site = around
        names = [self._named[row] for row in rows]
        fused = kernel if fused_operators(kernel) else ""
        engine = max((at for at, each in enumerate(names) if each.is_engine), default=None)
        operator = self._working(rows)
        known = (row for row, each in zip(reversed(rows), reversed(names), strict=True) if each.sequence is not None)
        if engine is None:
            if site < 0 <= running:
                return _Origin(operator, running, BACKWARD, fused, next(known, operator), in_graph)
            return _Origin(operator, site, "", fused, next(known, operator), in_graph)
        again = any(each.sequence is not None for each in names[engine + 2 :])
        if again and site >= 0 and self._start[site] >= self._start[rows[engine]]:
            return _Origin(operator, site, RECOMPUTED, fused, next(known), in_graph)
        called, forward = self._differentiated(self._node.get(rows[engine], -1))
        called = running if called < 0 else called
        if again:
            return _Origin(operator, called, RECOMPUTED, fused, next(known), in_graph)
        return _Origin(operator, called, BACKWARD, fused, forward, in_graph)

    def described(self, origin: _Origin) -> OperatorCall:
        """Return an operator with its work, its module and its line."""
        name, operator = "", None
        # What is around the launch of a graph is no operator of the kernels in it.
        if origin.operator >= 0 and not origin.in_graph:
            operator = self._recorded(origin.operator)
            name = operator.name
        if origin.kernel:
            name = " + ".join(fused_operators(origin.kernel))
            operator = operator if operator is not None and operator.name == origin.kernel else None
        inputs = () if operator is None else operator.inputs
        made = OperatorCall(
            name,
            _shapes(inputs),
            _dtypes(inputs),
            role=origin.role,
            work=work_of(operator) if operator else None,
            operator=operator,
            forward=self._recorded(origin.forward) if origin.forward >= 0 else None,
            in_graph=origin.in_graph,
        )
        site = self._site_of(origin.site)
        process = None if site is None else self._process(int(self._thread[origin.site]))
        if site is None or process is None:
            return made
        number = self._named[origin.operator].number if origin.operator >= 0 else -1
        module, class_name = module_of(process, site.module)
        return replace(
            made,
            line=f"{self._shown[site.file]}:{site.line}",
            function=site.function.rpartition("<locals>.")[2],
            module=module,
            class_name=class_name,
            optimizer="" if module else optimizer_of(site, number, self._optimizers[process.report, process.pid]),
        )

    def _site_of(self, row: int) -> CallSite | None:
        """Return the line of a range; None where it is not known, and for -1."""
        process = self._process(int(self._thread[row])) if row >= 0 else None
        number = int(self._site[row]) if process is not None else -1
        return process.sites[number] if process is not None and 0 <= number < len(process.sites) else None

    def _process(self, thread: int) -> ProcessXray | None:
        """Return what PyTorch said in the process of a thread, by its global id; None where it said nothing."""
        return self._record.get((thread >> REPORT_BITS, tables.pid(thread)))

    def _working(self, rows: Sequence[int]) -> int:
        """Return the innermost of some operators; of those of attention, the innermost whose work is known."""
        inner = rows[-1] if rows else -1
        if inner < 0 or "attention" not in self._named[inner].name:
            return inner
        known = (row for row in reversed(rows) if products_of(self._recorded(row)) is not None)
        return next(known, inner)

    def _recorded(self, row: int) -> RecordedOperator:
        """Return the operator of a range as PyTorch described it, else with the sizes that the range has."""
        found = self._named[row]
        process = self._process(int(self._thread[row]))
        known = None if process is None else process.operators.get(found.number)
        return known or RecordedOperator(found.name, sequence=found.sequence, inputs=_sizes(found.sizes))

    def _numbered_threads(self) -> Mapping[tuple[int, int], int]:
        """Return the global id of each thread, by that of its process and its number in PyTorch's count."""
        counts: dict[tuple[int, int], Counter[int]] = {}
        for row, each in self._named.items():
            thread = int(self._thread[row])
            process = self._process(thread)
            known = None if process is None else process.operators.get(each.number)
            if process is not None and known is not None:
                counts.setdefault((thread & ~tables.THREAD_MASK, known.thread), Counter())[thread] += 1
        return {key: max(its, key=its.__getitem__) for key, its in counts.items()}

    def _by_sequence(self) -> tuple[Mapping[tuple[int, int], tuple[int, int]], Mapping[int, int]]:
        """Return the forward operators and where they were called, and the nodes of the backward pass.

        Returns:
            The row of the line of each forward operator and its own, by global id of its thread and its sequence
            number; the row of the node that each range of the engine runs, by the row of that range.
        """
        rows = [row for row, each in self._named.items() if each.sequence is not None and not each.is_engine]
        forward: dict[tuple[int, int], tuple[int, int]] = {}
        nodes: dict[int, int] = {}
        around = self.around(self._thread[rows], Spans(self._start[rows], self._end[rows]))
        for row, (operators, site) in zip(rows, around, strict=True):
            outer, sequence = operators[: operators.index(row)], self._named[row].sequence
            if outer and self._named[outer[-1]].is_engine:
                nodes[outer[-1]] = row  # it has the number of its forward operator
            elif sequence is not None:
                forward[int(self._thread[row]), sequence] = site, row
        return forward, nodes

    def _differentiated(self, node: int) -> tuple[int, int]:
        """Return the rows of the line and of the forward operator of a node; -1 where they are not known."""
        sequence = self._named[node].sequence if node >= 0 else None
        if sequence is None:
            return -1, -1
        thread = int(self._thread[node])
        process = self._process(thread)
        known = None if process is None else process.operators.get(self._named[node].number)
        origin = None if known is None else self._threads.get((thread & ~tables.THREAD_MASK, known.forward_thread or 0))
        main = thread & ~tables.THREAD_MASK | tables.pid(thread)
        threads = (main, thread) if origin is None else (origin,)
        return next((self._forward[each, sequence] for each in threads if (each, sequence) in self._forward), (-1, -1))


@lru_cache(maxsize=1 << 16)
def named(text: str) -> _Named | None:
    """Return the operator in the text of a range; None for other ranges."""
    found = _OPERATOR.match(text)
    if found is None:
        return None
    sequence = found["sequence"]
    return _Named(found["name"], None if sequence is None else int(sequence), int(found["id"]), found["sizes"] or "")


def _sizes(text: str) -> tuple[Argument, ...]:
    """Return the tensors whose sizes a range has; of scalars it has an empty list."""
    try:
        found = json.loads(text) if text else []
    except json.JSONDecodeError:
        return ()
    return tuple(_of_sizes(each) for each in found) if isinstance(found, list) else ()


def _of_sizes(found: object) -> Argument:
    if not isinstance(found, list) or not found:
        return None
    return Tensor(tuple(found)) if all(isinstance(each, int) for each in found) else tuple(map(_of_sizes, found))


def _shapes(inputs: Sequence[Argument]) -> str:
    texts = []
    for each in inputs:
        if isinstance(each, Tensor):
            texts.append(str(list(each.shape)))
        elif isinstance(each, tuple) and (inner := list(tensors_of(each))):
            texts.append(f"{units.counted(len(inner), 'tensor')} of {units.counted(_elements(inner), 'element')}")
    return ", ".join(texts)


def _elements(tensors: Sequence[Tensor]) -> int:
    return sum(each.elements for each in tensors)


def _dtypes(inputs: Sequence[Argument]) -> str:
    return ", ".join(dict.fromkeys(each.dtype for each in tensors_of(inputs) if each.dtype))


def frames_of(site: CallSite) -> tuple[Frame, ...]:
    """Return the frames of a line that calls PyTorch, the innermost first."""
    return (Frame(site.function, site.file, site.line), *(Frame(name, file, line) for file, line, name in site.stack))


def module_classes(record: XrayRecord) -> Mapping[str, str]:
    """Return the class of each module, by the path that ``OperatorCall`` has of it."""
    return dict(module_of(process, at) for process in record for at in range(len(process.modules)))


def module_of(process: ProcessXray, index: int | None) -> tuple[str, str]:
    """Return the path of a module and its class; with several models, the path begins with the class of its model."""
    if index is None or not 0 <= index < len(process.modules):
        return "", ""
    module = process.modules[index]
    model = process.roots[module.root].rpartition(".")[2] if module.root < len(process.roots) else ""
    parts = [each for each in module.path.split(".") if each and each not in _WRAPPERS]
    if model in _PARALLEL and parts[:1] == ["module"]:
        parts = parts[1:]
    is_one = len(process.roots) < 2 and parts  # noqa: PLR2004 - several models
    return ".".join(parts if is_one else [model, *parts]), module.class_name
