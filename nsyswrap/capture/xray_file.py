"""What a program's processes have written: `xray.json` and `steps_alone.json` in the folder of a run.

What PyTorch said of the X-ray step, from two files of each process:

::

    {"schema": "nsyswrap.xray/1", "processes": [{"pid": 123, "rank": 0, "torch": "2.11.0", "step": 163, "reason": null,
     "sites": [{"file", "line", "function", "stack", "module"}], "modules": [{"path", "class", "root"}],
     "roots": [{"class", "parameters", "trainable"}], "memory": [[where, module, bytes]],
     "operators": [{"id": 7, "name": "aten::mm", "thread": 1, "sequence": 12, "forward_thread": null, "parent": 6,
                    "inputs": [{"shape", "strides", "dtype", "storage", "device"}], "outputs": [...]}]}]}

``sites`` are numbered by the ranges ``nsyswrap xray N`` of the process, ``operators`` by the ``op_id`` of theirs. An
operator has no other entry where an exception ended it. ``stack`` has the outermost frame last; ``line`` is that of the
innermost frame that is not PyTorch's own. ``reason`` says why something is lacking. ``memory`` has what tensors
took on the GPU at the start of the step (0), of a call of a module (1) and of a backward pass (2); 3 more at its end.

Source of the operators: the file of ``torch.profiler.ExecutionTraceObserver``, schema 1.1 of Chakra, in
torch/csrc/profiler/standalone/execution_trace_observer.cpp.

The times of the steps that were not recorded::

    {"version": 1, "processes": [{"pid": 123, "rank": 0, "first_step": 3,
                                  "host_ns": [10400311, ...], "gpu_ns": [10398208, ...], "data_ns": [20100, ...]}]}

``host_ns`` has the lengths of consecutive steps by the host's clock, ``gpu_ns`` those between CUDA events at the same
places, and ``data_ns`` the parts in which the loader was waited for. ``rank`` is null in a program without ranks,
``gpu_ns`` without CUDA, and ``data_ns`` where the marks do not show the loader.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any

from nsyswrap.capture.result_folder import STEPS_ALONE_NAME, XRAY_NAME

SCHEMA = "nsyswrap.xray/1"

# Where a node of the file begins. The name of a range of the program may break the JSON of its own node only.
_NODE = re.compile(r',?\s*(?=\{\s*"id": \d+, "name": ")')
_TENSOR = re.compile(r"Tensor\((.*)\)")
# PyTorch writes the names of C++ types. Source: c10/util/typeid.cpp.
_TYPES = {
    "float": "float32",
    "double": "float64",
    "long int": "int64",
    "long": "int64",
    "int": "int32",
    "short int": "int16",
    "short": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "short unsigned int": "uint16",
    "unsigned int": "uint32",
    "long unsigned int": "uint64",
    "bool": "bool",
    "c10::BFloat16": "bfloat16",
    "c10::Half": "float16",
    "c10::complex<c10::Half>": "complex32",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
}


VERSION = 1


def write_xray(folder: Path, processes: Iterable[tuple[Mapping[str, object], Sequence[Path]]]) -> bool:
    """Write what PyTorch said of the X-ray step into the folder of a run, and return whether there is anything.

    Each process has written its lines, and the names of the files in which its operators are.
    """
    known = [
        {**lines, "operators": [each for path in paths for each in _operators(path)]} for lines, paths in processes
    ]
    if known:
        path = folder / XRAY_NAME
        path.touch(mode=0o600)
        text = json.dumps({"schema": SCHEMA, "processes": known}, separators=(",", ":"))
        path.write_text(f"{text}\n", encoding="utf-8")
    return bool(known)


def _operators(path: Path) -> Iterator[dict[str, object]]:
    """Yield the operators in the file of a process, in the order of their ends."""
    nodes = list(_nodes(path))
    numbers = {node["id"]: _attributes(node)["rf_id"] for node in nodes}
    for node in nodes:
        known = _attributes(node)
        if not known["rf_id"]:  # stands for a thread, or for the process
            continue
        yield {
            "id": known["rf_id"],
            "name": node["name"],
            "thread": known["tid"],
            "sequence": known["seq_id"] if known["seq_id"] >= 0 else None,
            "forward_thread": known["fw_tid"] or None,
            "parent": numbers.get(node["ctrl_deps"]) or None,
            "inputs": _values(node["inputs"]),
            "outputs": _values(node["outputs"]),
        }


def _nodes(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the nodes of a file that can be read; the last one may be written in part.

    A PyTorch that is older than this schema writes other ones.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for part in _NODE.split(text)[1:]:
        with suppress(ValueError):
            node = json.JSONDecoder().raw_decode(part)[0]
            if "attrs" in node and isinstance(node["inputs"], dict):
                yield node


def _attributes(node: Mapping[str, Any]) -> dict[str, Any]:
    return {each["name"]: each["value"] for each in node["attrs"]}


def _values(found: Mapping[str, Any]) -> list[object]:
    # Strides are written since PyTorch 2.6.
    columns = (found["values"], found["shapes"], found.get("strides") or (), found["types"])
    return [_value(*each) for each in zip_longest(*columns, fillvalue="")]


def _value(value: Any, shape: Any, strides: Any, kind: str) -> object:  # noqa: ANN401 - as in the file
    """Return an input or an output: a tensor, a number or a text, a list of these, or None."""
    tensor = _TENSOR.fullmatch(kind)
    if tensor and isinstance(value, list):
        if not value[-1] and not shape:  # an undefined tensor is on no device
            return None
        name = tensor[1]
        return {
            "shape": shape,
            "strides": list(strides) if len(strides) == len(shape) else None,
            "dtype": _TYPES.get(name, name.rpartition("::")[2].lower()),
            "storage": value[1] or None,
            "device": value[-1],
        }
    if isinstance(value, list):
        inner = _inner_kinds(kind)
        return [_value(*each) for each in zip_longest(value, shape or (), strides or (), inner, fillvalue="")]
    return None if isinstance(value, str) and value.startswith("<") else value


def _inner_kinds(kind: str) -> list[str]:
    """Return the types of the values in a list: those between the outer brackets, at commas outside of inner ones."""
    found, depth, start = [], 0, kind.find("[") + 1
    inner = kind[start : kind.rfind("]")] if start else ""
    begin = 0
    for place, letter in enumerate(inner):
        depth += (letter in "[(<") - (letter in "])>")
        if letter == "," and not depth:
            found.append(inner[begin:place])
            begin = place + 1
    return [*found, inner[begin:]] if inner else []


def write_steps_alone(folder: Path, processes: Iterable[Mapping[str, object]]) -> bool:
    """Write the times of the steps alone into the folder of a run, and return whether there are any."""
    known = sorted(processes, key=_place)
    if known:
        text = json.dumps({"version": VERSION, "processes": known}, separators=(",", ":"))
        path = folder / STEPS_ALONE_NAME
        path.touch(mode=0o600)
        path.write_text(f"{text}\n", encoding="utf-8")
    return bool(known)


def _place(process: Mapping[str, object]) -> tuple[int, int]:
    """Return the rank of a process, or -1, and its id."""
    rank, pid = process["rank"], process["pid"]
    return rank if isinstance(rank, int) else -1, pid if isinstance(pid, int) else 0


def ranks_in(folder: Path) -> int:
    """Return how many ranks of a job have timed steps alone; 0 where there is no such file."""
    try:
        found = json.loads((folder / STEPS_ALONE_NAME).read_text(encoding="utf-8"))
        return len({each["rank"] for each in found["processes"] if each["rank"] is not None})
    except (OSError, ValueError, KeyError, TypeError):
        return 0
