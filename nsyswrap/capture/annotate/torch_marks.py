# ruff: noqa: ANN401 - torch is not imported here, and what a program passes on may be anything
"""Connects the marks to torch, through what torch and Python offer to observe a program: nothing is replaced.

Collections of garbage are seen by ``gc.callbacks``. Where Python can monitor calls, that shows the steps of optimizers,
the loader, checkpoints and tokenizers. Elsewhere torch's own hooks show the steps of optimizers. Backward passes need
no mark: autograd launches their kernels from threads of its own.
"""

import gc
import inspect
import sys
from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from .marks import CHECKPOINT, DATA, OPTIMIZER, TOKENIZER, Marks
from .monitoring import Monitor


class Watched(NamedTuple):
    """A function whose calls are marked.

    Attributes:
        name: Its name in the module, with its class.
        text: Text of the ranges, to which the calling line is added; empty for the kind alone.
    """

    module: str
    name: str
    kind: str
    text: str = ""


_TOKENIZERS = "transformers.tokenization_utils_base"
# The calls of transformers that turn text into tokens; some of them call others.
_TOKENIZER_CALLS = ("__call__", "encode", "batch_encode_plus", "encode_plus", "tokenize", "batch_decode", "decode")
WATCHED = (
    Watched("torch", "utils.data.dataloader._BaseDataLoaderIter.__next__", DATA),
    Watched("torch", "utils.data.dataloader.DataLoader.__iter__", DATA),
    Watched("torch", "save", CHECKPOINT, "torch.save"),
    Watched("torch", "load", CHECKPOINT, "torch.load"),
    Watched("safetensors.torch", "save_file", CHECKPOINT, "safetensors.save_file"),
    Watched("safetensors.torch", "load_file", CHECKPOINT, "safetensors.load_file"),
    Watched("torch.distributed.checkpoint", "save", CHECKPOINT, "torch.distributed.checkpoint.save"),
    Watched("torch.distributed.checkpoint", "load", CHECKPOINT, "torch.distributed.checkpoint.load"),
    Watched("accelerate.accelerator", "Accelerator.save_state", CHECKPOINT, "Accelerator.save_state"),
    Watched("accelerate.accelerator", "Accelerator.load_state", CHECKPOINT, "Accelerator.load_state"),
    Watched("transformers.trainer", "Trainer._save_checkpoint", CHECKPOINT, "Trainer._save_checkpoint"),
    Watched("lightning.pytorch.trainer.trainer", "Trainer.save_checkpoint", CHECKPOINT, "Trainer.save_checkpoint"),
    Watched("pytorch_lightning.trainer.trainer", "Trainer.save_checkpoint", CHECKPOINT, "Trainer.save_checkpoint"),
    *(Watched(_TOKENIZERS, f"PreTrainedTokenizerBase.{each}", TOKENIZER, TOKENIZER) for each in _TOKENIZER_CALLS),
)


def mark_collections(marks: Marks) -> None:
    """Mark collections of garbage, except those of the youngest objects."""
    gc.callbacks.append(marks.note_collection)


def mark_optimizers(torch: Any, marks: Marks) -> None:
    """End the steps of the loop where torch's hook for optimizers says that one has stepped."""
    # The compiler replaces the call by a constant, so it traces nothing of what follows.
    compiling = getattr(torch.compiler, "is_dynamo_compiling", None) or torch.compiler.is_compiling
    end_step, module = marks.end_step, _optimizers()

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:  # noqa: ARG001 - what torch calls its hooks with
        if not compiling():
            end_step(optimizer)

    skip = _frame_skipper(torch)
    for call in (after, end_step):
        skip(call.__code__)
    # A program that prints the numbers of its own hooks prints the same ones.
    numbers = torch.utils.hooks.RemovableHandle
    number = numbers.next_id
    handle = module.register_optimizer_step_post_hook(after)
    hooks = getattr(module, "_global_optimizer_post_hooks", {})
    if hooks.pop(handle.id, None) is after:
        hooks[-1 - handle.id] = after
    numbers.next_id = number


def _optimizers() -> Any:
    """Return the module that defines optimizers; ``torch.optim`` deletes the attribute."""
    return sys.modules["torch.optim.optimizer"]


def skip_frames(torch: Any, *owners: type) -> None:
    """Make torch's compiler skip the frames of the methods of some classes, and of what they call."""
    skip = _frame_skipper(torch, inner=True)
    for method in (each for owner in owners for each in vars(owner).values()):
        if isinstance(method, FunctionType):
            skip(method.__code__)


def _frame_skipper(torch: Any, *, inner: bool = False) -> Callable[[CodeType], object]:
    """Return a function that makes torch's compiler skip the frames of a code object.

    The frames that it calls are skipped only if ``inner`` is given, and only where this version of torch can do that.

    In a program that compiles its step, the compiler looks at the frames of hooks, too. The function is part of torch's
    C extension, so the compiler itself, which takes seconds to import, is not imported.
    """
    frames: Any = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)  # noqa: SLF001
    if hasattr(frames, "set_code_exec_strategy"):
        action = frames._FrameAction  # noqa: SLF001
        strategy = frames._FrameExecStrategy(action.SKIP, action.SKIP if inner else action.DEFAULT)  # noqa: SLF001
        return lambda code: frames.set_code_exec_strategy(code, strategy)
    skip: Callable[[CodeType], object] = getattr(frames, "skip_code", lambda _code: None)
    return skip


def _step_code() -> CodeType:
    """Return the code of the steps of all optimizers: each class gets its step from one function of torch."""
    made_by = _optimizers().Optimizer.profile_hook_step.__code__
    step = next((each for each in made_by.co_consts if isinstance(each, CodeType)), None)
    if step is None or "args" not in step.co_varnames:
        raise LookupError("this version of torch calls the steps of optimizers in another way")
    return step


def watch_optimizers(monitor: Monitor, marks: Marks) -> None:
    """End the steps of the loop where an optimizer has stepped, without torch's hooks.

    Raises:
        LookupError: The steps of this version of torch cannot be watched.
    """
    step, made = _step_code(), _optimizers().Optimizer.__init__.__code__
    marks.watch(step, OPTIMIZER)
    monitor.watch(step, starts=False)
    marks.look_at(made, marks.note_made)
    monitor.watch(made, returns=False)


def watch_calls(monitor: Monitor, marks: Marks, module: ModuleType) -> None:
    """Mark the calls of the functions in ``WATCHED`` that a module defines."""
    for watched in WATCHED:
        code = code_of(module, watched.name) if watched.module == module.__name__ else None
        if code is not None:
            marks.watch(code, watched.kind, watched.text)
            monitor.watch(code)


def code_of(module: ModuleType, name: str) -> "CodeType | None":
    """Return the code of a function; None where this version of its library has none."""
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    code = getattr(inspect.unwrap(found), "__code__", None) if callable(found) else None
    return code if isinstance(code, CodeType) else None
