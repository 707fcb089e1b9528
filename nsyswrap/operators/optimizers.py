"""The optimizer that runs a line: of the frames around it, one is of the optimizer's step, and no other code is inside.

::

    adam.py:623         _multi_tensor_adam                         of PyTorch, or of the file that defines the step
    adam.py:248         Adam.step                                  AdamW inherits it
    optimizer.py:533    Optimizer.profile_hook_step.<locals>.wrapper
    train.py:31         train

A step may call back into the program, which computes the loss there: that is no part of the optimizer. PyTorch records
each step with the class of its optimizer, as in ``Optimizer.step#AdamW.step``. Source: torch/optim/optimizer.py.
"""

import re
from collections.abc import Mapping, Sequence

from nsyswrap.events.xray_record import CallSite, ProcessXray
from nsyswrap.trace.tables import Frame

_FILE, _ENTRIES = "torch/optim/optimizer.py", frozenset({"wrapper", "zero_grad"})
_STEP = re.compile(r"Optimizer\.(?:step|zero_grad)#(.+)\.(?:step|zero_grad)$")


def is_of_pytorch(frame: Frame) -> bool:
    """Return whether the code of a frame is PyTorch's."""
    return "/torch/" in f"/{frame.file}"


def optimizers_in(process: ProcessXray) -> Mapping[int, str]:
    """Return the class of the optimizer of each step, by the number of the step among the operators."""
    return {at: found[1] for at, each in process.operators.items() if (found := _STEP.match(each.name))}


def optimizer_of(site: CallSite, number: int, steps: Mapping[int, str]) -> str:
    """Return the class of the optimizer that runs a line; empty where none does.

    Args:
        site: The line, with the frames around it.
        number: Number of an operator that the line calls; -1 where there is none.
        steps: What ``optimizers_in`` returns for its process.
    """
    frames = [Frame(function, file, line) for file, line, function in site.stack]
    entry = next((at for at, each in enumerate(frames) if _is_entry(each)), None)
    if entry is None or not _is_alone(frames[:entry]):
        return ""
    begun = [each for each in steps if each < number] or (list(steps) if len(set(steps.values())) == 1 else [])
    if begun:
        return steps[max(begun)]
    class_name = frames[entry - 1].function.rpartition(".")[0] if entry else ""
    return class_name.rpartition(".")[2] or "Optimizer"


def _is_entry(frame: Frame) -> bool:
    return frame.file.endswith(_FILE) and frame.function.rpartition(".")[2] in _ENTRIES


def _is_alone(inside: Sequence[Frame]) -> bool:
    """Return whether the frames inside of an optimizer's step are PyTorch's, or of the file that defines the step."""
    steps = [each.file for each in inside if each.function.rpartition(".")[2] == "step"]
    return all(is_of_pytorch(each) or each.file in steps[-1:] for each in inside)
