"""What takes the place of the profiler and of torch in tests of `nsyswrap.capture.annotate`."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from nsyswrap.capture.annotate.nvtx_calls import DOMAIN

# Versions of Python in which programs are marked.
MINOR = range(10, 15)


def pythons() -> dict[tuple[int, int], str]:
    """Return the Pythons of this machine in which programs are marked, one of each version, and this one."""
    folders = [None, *map(str, Path.home().glob(".pyenv/versions/*/bin"))]
    found = {sys.version_info[:2]: sys.executable}
    for minor in MINOR:
        paths = (shutil.which(f"python3.{minor}", path=folder) for folder in folders)
        for path in (each for each in paths if each and (3, minor) not in found):
            if not subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode:
                found[3, minor] = path
    return found


@dataclass
class Recorder:
    """Takes ranges, and keeps each start and end as a line: "+data", "-data"."""

    domain = DOMAIN

    lines: list[str] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    names: dict[int, str] = field(default_factory=dict)

    def described(self, text: str, color: int) -> str:
        assert 0 <= color <= 0xFFFFFF
        return text

    def start(self, domain: str, described: str) -> int:  # noqa: ARG002 - the signature of a sink
        """Keep the start of a range."""
        number = next(self.numbers)
        self.names[number] = described
        self.lines.append(f"+{self.names[number]}")
        return number

    def steps(self) -> Iterator[str]:
        return map("step {}".format, count())

    def end(self, domain: str, number: int) -> None:  # noqa: ARG002 - the signature of a sink
        """Keep the end of a range; each ends once."""
        self.lines.append(f"-{self.names.pop(number)}")

    close = end


class Broken(Recorder):
    """Fails when a range is started."""

    def start(self, domain: str, described: str) -> int:  # noqa: ARG002 - the signature of a sink
        raise OSError(f"no room for {described}")


# A package with the parts of torch that marks are connected to. Loading the batch "bad" raises an error.
_TORCH = {
    "__init__": """
import types
from . import compiler, cuda, optim, utils
__version__ = "9.9"
grad = True
def is_grad_enabled(): return grad
_C = None
def save(value, path): return path
def load(path): return {}
""",
    "cuda/__init__": "from . import nvtx\ndef is_initialized(): return False\n",
    "cuda/nvtx": """
from contextlib import contextmanager
def range_push(msg): return 0
def range_pop(): return 0
@contextmanager
def range(msg):
    range_push(msg)
    try: yield
    finally: range_pop()
""",
    "compiler": "tracing = False\ndef is_dynamo_compiling(): return tracing\n",
    "optim/__init__": "from .optimizer import Optimizer\nimport sys\ndel sys.modules[__name__].optimizer\n",
    "optim/optimizer": """
from ..utils.hooks import RemovableHandle
_global_optimizer_pre_hooks, _global_optimizer_post_hooks = {}, {}
def register_optimizer_step_pre_hook(hook):
    handle = RemovableHandle()
    _global_optimizer_pre_hooks[handle.id] = hook
    return handle
def register_optimizer_step_post_hook(hook):
    handle = RemovableHandle()
    _global_optimizer_post_hooks[handle.id] = hook
    return handle
class Optimizer:
    def __init__(self, inner=None, fails=False): self.inner, self.fails = inner, fails
    @staticmethod
    def profile_hook_step(function):
        def wrapper(*args, **kwargs):
            for hook in _global_optimizer_pre_hooks.values(): hook(args[0], args, kwargs)
            function(*args, **kwargs)
            for hook in _global_optimizer_post_hooks.values(): hook(args[0], args, kwargs)
        return wrapper
    def step(self):
        if self.fails: raise ArithmeticError
        if self.inner: self.inner.step()
Optimizer.step = Optimizer.profile_hook_step(Optimizer.step)
""",
    "utils/__init__": "from . import data, hooks\n",
    "utils/hooks": """
class RemovableHandle:
    next_id = 0
    def __init__(self):
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
""",
    "utils/data/__init__": "from . import dataloader\n",
    "utils/data/dataloader": """
class _BaseDataLoaderIter:
    def __init__(self, batches): self.left = list(batches)
    def __next__(self):
        if not self.left: raise StopIteration
        found = self.left.pop(0)
        if found == "bad": raise ValueError(found)
        return found
    def __iter__(self): return self
class DataLoader:
    def __init__(self, batches): self.batches = batches
    def __iter__(self): return _BaseDataLoaderIter(self.batches)
""",
}


# A package with the parts of nvtx that marks are connected to.
_NVTX = {
    "__init__": "from .nvtx import annotate, pop_range, push_range\n",
    "nvtx": """
from types import SimpleNamespace
class annotate:
    def __init__(self, message=None): self.attributes = SimpleNamespace(message=SimpleNamespace(string=message))
    def __enter__(self): pass
    def __exit__(self, *error): return False
def push_range(message=None): pass
def pop_range(): pass
""",
}


def write_torch(folder: Path) -> None:
    """Write packages ``torch`` and ``nvtx`` into a folder, with the parts that marks are connected to."""
    for package, modules in (("torch", _TORCH), ("nvtx", _NVTX)):
        for name, text in modules.items():
            path = folder / package / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
