"""Marks the steps of a loop that steps no optimizer, such as inference. It imports nothing else of nsyswrap."""

# ruff: noqa: ANN401 - the trainers are not imported here, and say what their callbacks get
import importlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

Item = TypeVar("Item")

# The package under which ``nsyswrap profile`` has loaded its marks in this process.
_MARKS = "_nsyswrap_annotate"


def steps(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items of a loop. Each one is a step of the program, from asking for it until asking for the next one.

    In a process that ``nsyswrap profile`` has not marked, nothing else happens. Where the loop steps an optimizer, too,
    these steps count and not those of the optimizer.

    Args:
        items: What the loop goes over, such as a loader.
    """
    marks = _loop_marks()
    if marks is None:
        yield from items
        return
    try:
        marks.begin_step()
        for item in items:
            yield item
            marks.begin_step()
    finally:
        marks.leave_step()


def step_callback(library: str) -> Any:
    """Return a callback for a trainer that marks its steps: of training, with Lightning also of prediction and test.

    It is for loops that no optimizer of PyTorch shows. With Accelerate, :func:`steps` goes around the loader.

    Args:
        library: "lightning", "pytorch_lightning" or "transformers".

    Raises:
        KeyError: The library is another one.
        ImportError: It is not installed.
    """
    module, base, hooks = _TRAINERS[library]
    return type("Steps", (getattr(importlib.import_module(module), base),), dict(hooks))()


def _loop_marks() -> Any:
    return getattr(sys.modules.get(_MARKS), "loop_marks", None)


def _begins(*_arguments: Any, **_named: Any) -> None:
    if (marks := _loop_marks()) is not None:
        marks.begin_step()


def _begins_batch(_callback: object, trainer: Any, _module: object, _batch: object, number: int) -> None:
    """Begin a step at the first of the batches whose gradients are added up."""
    if number % trainer.accumulate_grad_batches == 0:
        _begins()


def _leaves(*_arguments: Any, **_named: Any) -> None:
    if (marks := _loop_marks()) is not None:
        marks.leave_step()


_LIGHTNING = {
    "on_train_batch_start": _begins_batch,
    **dict.fromkeys(("on_predict_batch_start", "on_test_batch_start"), _begins),
    **dict.fromkeys(("on_validation_start", "on_train_end", "on_predict_end", "on_test_end"), _leaves),
}
_TRAINERS = {
    "lightning": ("lightning.pytorch", "Callback", _LIGHTNING),
    "pytorch_lightning": ("pytorch_lightning", "Callback", _LIGHTNING),
    "transformers": (
        "transformers",
        "TrainerCallback",
        {"on_step_begin": _begins, "on_evaluate": _leaves, "on_train_end": _leaves},
    ),
}
