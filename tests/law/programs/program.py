"""What the programs of the law share: bits as a digest, a small training, and the start of one program or of all.

    python tests/law/programs/compiling.py own_class_first

runs ``program_own_class_first`` alone. Nothing here imports torch at its top, since some programs test that import.
"""

import gc
import hashlib
import importlib
import os
import random
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

PREFIX = "program_"
# The exit code of a program that needs what this machine lacks; its stdout says what that is.
SKIPPED = 77
TIMED_OUT = 124
LIMIT_S = 120.0
# The names of the files that a program leaves in its folder.
STDOUT, STDERR, CODE, RANGES, WORK = "stdout", "stderr", "code", "ranges", "work"
RANGES_VARIABLE = "LISTENER_LOG"


def digest(*values: Any) -> str:
    """Return the start of a hash of values: of tensors and modules each bit, of everything else the text."""
    found = hashlib.sha1(usedforsecurity=False)
    for value in values:
        for part in _parts(value):
            found.update(part)
    return found.hexdigest()[:12]


def _parts(value: Any) -> Iterator[bytes]:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.nn.Module):
        value = value.state_dict()
    if torch is not None and isinstance(value, torch.Tensor):
        dense = value.detach().to_dense() if value.layout != torch.strided else value.detach()
        flat = dense.resolve_conj().resolve_neg().contiguous().reshape(-1)
        yield f"{value.dtype} {tuple(value.shape)}".encode()
        yield bytes(flat.view(torch.uint8).tolist())
    elif isinstance(value, dict):
        for key, each in value.items():
            yield str(key).encode()
            yield from _parts(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _parts(each)
    else:
        yield str(value).encode()


def train(model: Any = None, optimizer: Any = None, steps: int = 3, called: Any = None) -> Any:
    """Train a model for some steps with fixed data, and return it.

    Args:
        model: A module from 4 numbers to 2; by default two layers with dropout.
        optimizer: Its optimizer; by default SGD with momentum.
        steps: Number of steps.
        called: What is called in place of the model, such as its compiled form.
    """
    import torch

    torch.manual_seed(0)
    if model is None:
        model = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(8, 2)
        )
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        inputs = torch.randn(6, 4, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        (called or model)(inputs).square().sum().backward()
        optimizer.step()
    return model


def need(*modules: str, reason: str = "") -> None:
    """End the program as skipped if a module cannot be imported, or for a reason."""
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            reason = reason or f"needs {module}: {error}"
    if reason:
        print(reason)
        sys.exit(SKIPPED)


@contextmanager
def failing() -> Iterator[None]:
    """Print the type and the text of an exception in place of ending with it."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - it is what the program shows
        print(f"{type(error).__name__}: {error}")


def run(names: "dict[str, Any]") -> None:
    """Run one program of a file, or each one in a forked process.

    Args:
        names: The names of the file. ``sys.argv`` holds the name of the program; or ``--fork``, a folder for what the
            programs leave, and their names.
    """
    if sys.argv[1] != "--fork":
        _start(names[PREFIX + sys.argv[1]])
        return
    _, _, folder, *programs = sys.argv
    # Without this the end of Python takes three times as long in each process: it searches all of torch for garbage.
    gc.collect()
    gc.freeze()
    for name in programs:
        call = fork(os.path.join(folder, name))
        if call is None:
            sys.argv[1:] = [name]
            _start(names[PREFIX + name])
            return
        call()
    leave()


def _start(program: "Callable[[], object]") -> None:
    """Run a program with the seeds of random numbers set."""
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)
    random.seed(0)
    program()


def fork(folder: str) -> "Callable[[], None] | None":
    """Fork a process that runs one program; in it return None, in the parent a function that waits for its end.

    Args:
        folder: The program's folder, which is made. Stdout, stderr and the exit code go to files in it.
    """
    work = os.path.join(folder, WORK)
    os.makedirs(work)
    pid = os.fork()
    if pid:
        return lambda: _wait(pid, os.path.join(folder, CODE))
    os.setsid()
    os.chdir(work)
    os.environ[RANGES_VARIABLE] = os.path.join(folder, RANGES)
    for number, name in ((1, STDOUT), (2, STDERR)):
        target = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(target, number)
        os.close(target)
    return None


def _wait(pid: int, file: str) -> None:
    """Write exit code and seconds of a process to a file; one that takes too long is killed with those it started."""
    began = time.monotonic()
    watched = os.pidfd_open(pid)
    ended, _, _ = select.select([watched], [], [], LIMIT_S)
    os.close(watched)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    with open(file, "w", encoding="utf-8") as written:
        written.write(f"{os.waitstatus_to_exitcode(status) if ended else TIMED_OUT} {time.monotonic() - began}")


def leave() -> NoReturn:
    """End this process without the end of Python: no function of ``atexit`` is called."""
    sys.stdout.flush()
    os._exit(0)
