"""Where a program asks for activation checkpointing, and for which modules.

The frames around each line of the X-ray step show it, the innermost first::

    model.py:19         Block.forward             in module blocks.1: the outermost one inside of the checkpoint
    checkpoint.py:512   checkpoint                of torch.utils
    model.py:28         Gpt.forward               the line that asks for it
"""

from collections.abc import Mapping, Sequence

from nsyswrap.events.python_stacks import shown_files
from nsyswrap.events.xray_record import XrayRecord
from nsyswrap.operators.observed_calls import frames_of, module_of
from nsyswrap.operators.optimizers import is_of_pytorch
from nsyswrap.trace.tables import Frame

# Source: torch/utils/checkpoint.py.
_FILE, _FUNCTION = "torch/utils/checkpoint.py", "checkpoint"


def find_checkpoints(record: XrayRecord) -> Mapping[str, tuple[str, ...]]:
    """Return the outermost modules in checkpoints, by the line that asks for them."""
    shown = shown_files([frames_of(site) for each in record for site in each.sites])
    found: dict[str, dict[str, None]] = {}
    for process in record:
        for site in process.sites:
            asking = _asking(frames_of(site)[1:])
            module = module_of(process, site.module)[0]
            if asking is not None and module and (site.file, site.line) != (asking.file, asking.line):
                found.setdefault(f"{shown[asking.file]}:{asking.line}", {})[module] = None
    return {line: _outermost(tuple(modules)) for line, modules in found.items()}


def _asking(around: Sequence[Frame]) -> Frame | None:
    """Return the frame outside of PyTorch that asks for the checkpoint around a line; None where there is none."""
    inside = (at for at, each in enumerate(around) if each.file.endswith(_FILE) and each.function == _FUNCTION)
    outer = around[next(inside, len(around)) :]
    return next((each for each in outer if not is_of_pytorch(each)), None)


def _outermost(modules: Sequence[str]) -> tuple[str, ...]:
    """Return the modules that lie in no other one of them."""
    return tuple(each for each in modules if not any(each.startswith(f"{other}.") for other in modules))
