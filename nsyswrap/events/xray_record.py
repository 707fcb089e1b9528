"""What PyTorch said of one more step, the X-ray step: its operators, the lines that called them, and the modules.

It is in `xray.json` beside the capture. The ranges of the same step in the capture name operators and lines by number.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import prod
from typing import Any, NamedTuple, Union

SCHEMA = "nsyswrap.xray/1"
# Source: nsyswrap/capture/annotate/xray_sites.py.
STEP, MODULE, BACKWARD, END = 0, 1, 2, 3

# Bytes of an element of each type of PyTorch, by its name.
ITEM_BYTES: Mapping[str, int] = {
    **dict.fromkeys(("bool", "uint8", "int8", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"), 1),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), 2),
    **dict.fromkeys(("float32", "int32", "uint32", "complex32"), 4),
    **dict.fromkeys(("float64", "int64", "uint64", "complex64"), 8),
    "complex128": 16,
}


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor that an operator took or returned.

    Attributes:
        strides: Its strides in elements; None where they are not known.
        dtype: Its type, such as "bfloat16"; empty where it is not known.
        storage: Number of its memory; None where it is not known.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    dtype: str = ""
    storage: int | None = None

    @property
    def elements(self) -> int:
        """Return how many elements it has."""
        return prod(self.shape)

    @property
    def bytes(self) -> int | None:
        """Return the size of its distinct elements: stride 0 repeats them; None for an unknown type."""
        size = ITEM_BYTES.get(self.dtype)
        strides = self.strides or (1,) * len(self.shape)
        return None if size is None else size * prod(n for n, step in zip(self.shape, strides, strict=True) if step)


Argument = Union[Tensor, float, str, None, tuple["Argument", ...]]  # noqa: UP007 - it names itself


def tensors_of(arguments: Sequence[Argument]) -> Iterator[Tensor]:
    """Yield the tensors among arguments, those in lists included."""
    for each in arguments:
        if isinstance(each, Tensor):
            yield each
        elif isinstance(each, tuple):
            yield from tensors_of(each)


@dataclass(frozen=True, slots=True)
class RecordedOperator:
    """One call of an operator.

    Attributes:
        name: Its name, such as "aten::mm".
        thread: Number of its thread, in PyTorch's own count.
        sequence: Its sequence number, which the backward operator has, too; None where it has none.
        forward_thread: Of a backward operator, the thread of the forward one.
    """

    name: str
    thread: int = 0
    sequence: int | None = None
    forward_thread: int | None = None
    inputs: tuple[Argument, ...] = ()
    outputs: tuple[Argument, ...] = ()


@dataclass(frozen=True, slots=True)
class CallSite:
    """A line of the program that calls PyTorch.

    Attributes:
        file, line, function: Where it is.
        stack: The frames around it: file, line and function, the outermost last.
        module: Index of the module whose code it is; None outside modules.
    """

    file: str
    line: int
    function: str
    stack: tuple[tuple[str, int, str], ...] = ()
    module: int | None = None


@dataclass(frozen=True, slots=True)
class ModuleName:
    """A module of the program.

    Attributes:
        path: Its path, such as "encoder.layers.3"; empty for a model itself.
        root: Index of its model.
    """

    path: str
    class_name: str
    root: int = 0


class HeldMemory(NamedTuple):
    """How much memory tensors took on the GPU at a bound in the step.

    Attributes:
        where: ``STEP``, ``MODULE`` or ``BACKWARD`` for the start of one, and ``END`` more for its end.
        module: Index of the module; None for others.
    """

    where: int
    module: int | None
    bytes: int


@dataclass(frozen=True, slots=True)
class ProcessXray:
    """The X-ray step of one process.

    Attributes:
        rank: Its rank; None where it has none.
        reason: Why something is lacking; empty where nothing is.
        sites: The lines, by the number in the ranges.
        roots: Class of each model.
        operators: The operators, by the number in the ranges.
        memory: The memory at the bounds of the step, of modules and of backward passes, in order.
        report: Number of the report that it is of, where those of several ranks are one.
    """

    pid: int
    rank: int | None = None
    reason: str = ""
    sites: tuple[CallSite, ...] = ()
    modules: tuple[ModuleName, ...] = ()
    roots: tuple[str, ...] = ()
    operators: Mapping[int, RecordedOperator] = field(default_factory=dict)
    memory: tuple[HeldMemory, ...] = ()
    report: int = 0


XrayRecord = tuple[ProcessXray, ...]


def read_xray(found: object) -> XrayRecord:
    """Return what an `xray.json` holds; a process that cannot be read is left out.

    Args:
        found: What the file holds; None for no file.
    """
    if not isinstance(found, Mapping) or found.get("schema") != SCHEMA:
        return ()
    processes = found.get("processes")
    return tuple(_processes(processes if isinstance(processes, list) else []))


def _processes(found: list[Any]) -> Iterator[ProcessXray]:
    for each in found:
        try:
            yield _process(each)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError):
            continue


def _process(found: Mapping[str, Any]) -> ProcessXray:
    rank = found.get("rank")
    return ProcessXray(
        pid=int(found["pid"]),
        rank=None if rank is None else int(rank),
        reason=str(found.get("reason") or ""),
        sites=tuple(_site(each) for each in found.get("sites") or ()),
        modules=tuple(
            ModuleName(str(each["path"]), str(each["class"]), int(each["root"])) for each in found.get("modules") or ()
        ),
        roots=tuple(str(each["class"]) for each in found.get("roots") or ()),
        operators={int(each["id"]): read_operator(each) for each in found.get("operators") or ()},
        memory=tuple(
            HeldMemory(int(where), None if module is None else int(module), int(size))
            for where, module, size in found.get("memory") or ()
        ),
    )


def _site(found: Mapping[str, Any]) -> CallSite:
    stack = tuple((str(file), int(line), str(function)) for file, line, function in found.get("stack") or ())
    return CallSite(str(found["file"]), int(found["line"]), str(found["function"]), stack, found.get("module"))


def read_operator(found: Mapping[str, Any]) -> RecordedOperator:
    """Return an operator as a file describes it."""
    return RecordedOperator(
        name=str(found["name"]),
        thread=int(found.get("thread") or 0),
        sequence=found.get("sequence"),
        forward_thread=found.get("forward_thread"),
        inputs=tuple(_argument(each) for each in found.get("inputs") or ()),
        outputs=tuple(_argument(each) for each in found.get("outputs") or ()),
    )


def read_tensor(found: Mapping[str, Any]) -> Tensor:
    """Return a tensor as a file describes it."""
    strides = found.get("strides")
    return Tensor(
        shape=tuple(map(int, found["shape"])),
        strides=tuple(map(int, strides)) if strides is not None and len(strides) == len(found["shape"]) else None,
        dtype=str(found.get("dtype") or ""),
        storage=found.get("storage"),
    )


def _argument(found: object) -> Argument:
    if isinstance(found, Mapping):
        return read_tensor(found)
    if isinstance(found, list):
        return tuple(_argument(each) for each in found)
    return found if isinstance(found, int | float | str) else None


def cleaned_xray(record: XrayRecord, name: Callable[[str], str], file: Callable[[str], str]) -> dict[str, object]:
    """Return a record as `xray.json` has it, fit to share: texts among the arguments of operators are left out.

    Args:
        record: The record.
        name: Cleans the name of a function, a class, a module or an operator.
        file: Cleans the path of a file.
    """
    return {"schema": SCHEMA, "processes": [_cleaned(each, name, file) for each in record]}


def _cleaned(process: ProcessXray, name: Callable[[str], str], file: Callable[[str], str]) -> dict[str, object]:
    return {
        "pid": process.pid,
        "rank": process.rank,
        "reason": name(process.reason) or None,
        "sites": [
            {
                "file": file(each.file),
                "line": each.line,
                "function": name(each.function),
                "stack": [(file(where), line, name(function)) for where, line, function in each.stack],
                "module": each.module,
            }
            for each in process.sites
        ],
        "modules": [
            {"path": name(each.path), "class": name(each.class_name), "root": each.root} for each in process.modules
        ],
        "roots": [{"class": name(each)} for each in process.roots],
        "memory": [list(each) for each in process.memory],
        "operators": [
            {
                "id": number,
                "name": name(each.name),
                "thread": each.thread,
                "sequence": each.sequence,
                "forward_thread": each.forward_thread,
                "inputs": written_argument(each.inputs, texts=False),
                "outputs": written_argument(each.outputs, texts=False),
            }
            for number, each in process.operators.items()
        ],
    }


def written_argument(argument: Argument, *, texts: bool = True) -> object:
    """Return an argument as files have it; without its texts where these may be private."""
    if isinstance(argument, Tensor):
        return {each.name: getattr(argument, each.name) for each in fields(argument)}
    if isinstance(argument, tuple):
        return [written_argument(each, texts=texts) for each in argument]
    return None if isinstance(argument, str) and not texts else argument
