# ruff: noqa: ANN401 - torch is not imported here, and what a program passes on may be anything
"""Marks work of the host that no CUDA call shows: garbage collection, checkpoints, tokenizers.

Each mark is a range in addition to those of phases. If the program itself calls for the work, the text has the line:
"torch.save at train.py:88". Young objects are collected often and quickly: marking these collections would cost more
than they take, so they are not marked.
"""

import gc
import os
import sys
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from .import_hook import after_import
from .marker import Sink, warn
from .nvtx_calls import Prepared
from .torch_calls import Patches

COLLECTION, SAVE, LOAD, TOKENIZER = "garbage collection", "torch.save", "torch.load", "tokenizer"
CHECKPOINT = "checkpoint"
AT = " at "
COLOR = 0xBCBD22
# The youngest generation of CPython's collector.
YOUNGEST = 0
# The calls of transformers that turn text into tokens; some of them call others.
TOKENIZER_CALLS = ("__call__", "encode", "batch_encode_plus", "encode_plus", "tokenize", "batch_decode", "decode")
TOKENIZER_MODULE, TOKENIZER_CLASS = "transformers.tokenization_utils_base", "PreTrainedTokenizerBase"
# Calls of libraries that write or read checkpoints: module, class in it (empty for a function), name and text.
CHECKPOINT_CALLS = (
    ("safetensors.torch", "", "save_file", "safetensors.save_file"),
    ("safetensors.torch", "", "load_file", "safetensors.load_file"),
    ("torch.distributed.checkpoint", "", "save", "torch.distributed.checkpoint.save"),
    ("torch.distributed.checkpoint", "", "load", "torch.distributed.checkpoint.load"),
    ("accelerate.accelerator", "Accelerator", "save_state", "Accelerator.save_state"),
    ("accelerate.accelerator", "Accelerator", "load_state", "Accelerator.load_state"),
    ("transformers.trainer", "Trainer", "_save_checkpoint", "Trainer._save_checkpoint"),
    ("lightning.pytorch.trainer.trainer", "Trainer", "save_checkpoint", "Trainer.save_checkpoint"),
    ("pytorch_lightning.trainer.trainer", "Trainer", "save_checkpoint", "Trainer.save_checkpoint"),
)
# Texts with lines are kept for reuse. A program has few such lines; after this many, new texts have no line.
MOST_TEXTS = 1000
MOST_FRAMES = 50
# Parts of the paths of code that is not the program's own; the last is the standard library.
LIBRARIES = ("site-packages", "dist-packages", "/lib/python3")


class HostMarks:
    """Opens and closes the marks of this process. Its methods do not raise.

    Args:
        sink: Opens and closes ranges.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._closer = sink.closer()
        self._openers: dict[str, Prepared] = {}
        self._threads = threading.local()
        self._failed = False
        self._opener(COLLECTION)

    def collection(self, phase: str, info: Mapping[str, int]) -> None:
        """Mark a collection of garbage: a callback of ``gc.callbacks``."""
        if info.get("generation", YOUNGEST) == YOUNGEST:
            return
        if phase != "start":
            self._call(self._closer)
            return
        self._call(self._openers[getattr(self._threads, "collecting", COLLECTION)])

    def collect(self, call: Callable[..., int]) -> Callable[..., int]:
        """Return a replacement of ``gc.collect``; the marks of its collections have the line that calls it."""
        threads = self._threads

        def collect(*args: Any, **kwargs: Any) -> int:
            threads.collecting = self._text_at(COLLECTION, sys._getframe(1))  # noqa: SLF001 - the caller's line
            try:
                return call(*args, **kwargs)
            finally:
                threads.collecting = COLLECTION

        return collect

    def wrap(self, kind: str, text: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that marks a call with a text, unless a mark of its kind is open on its thread."""
        threads, closer, send = self._threads, self._closer, self._call

        def marked(*args: Any, **kwargs: Any) -> Any:
            if getattr(threads, kind, False):
                return call(*args, **kwargs)
            setattr(threads, kind, True)
            send(self._openers[self._text_at(text, sys._getframe(1))])  # noqa: SLF001 - the caller's line
            try:
                return call(*args, **kwargs)
            finally:
                send(closer)
                setattr(threads, kind, False)

        return marked

    def _text_at(self, text: str, frame: FrameType | None) -> str:
        """Return a text with the calling line of the program, without it if there are many; prepare the range."""
        name = f"{text}{AT}{place_of(frame)}"
        if name not in self._openers and len(self._openers) >= MOST_TEXTS:
            name = text
        self._opener(name)
        return name

    def _opener(self, name: str) -> None:
        if name not in self._openers:
            self._openers[name] = self._sink.opener(name, COLOR)

    def _call(self, prepared: Prepared) -> None:
        """Open or close a range; after an error, send no more."""
        if self._failed:
            return
        try:
            call, arguments = prepared
            call(*arguments)
        except Exception as error:  # noqa: BLE001 - no error here may end the program
            self._failed = True
            warn(f"no more work of the host is marked: {type(error).__name__}: {error}")


def place_of(frame: FrameType | None) -> str:
    """Return file and line of the innermost frame of the program's own code; without any, of the innermost frame."""
    own = frame
    for _ in range(MOST_FRAMES):
        if own is None:
            break
        name = own.f_code.co_filename
        if not name.startswith("<") and not any(each in name for each in LIBRARIES):
            break
        own = own.f_back
    found = own or frame
    return f"{os.path.basename(found.f_code.co_filename)}:{found.f_lineno}" if found else "unknown"  # noqa: PTH119


def mark_host(torch: Any, sink: Sink, patches: Patches) -> None:
    """Mark collections of garbage, checkpoints of torch and of libraries, and the tokenizers of transformers.

    Args:
        torch: The module, completely imported.
        sink: Opens and closes ranges.
        patches: Replaces calls.
    """
    marks = HostMarks(sink)

    def mark(module: Any, owner: str, name: str, kind: str, text: str) -> None:
        found = getattr(module, owner, None) if owner else module
        if callable(getattr(found, name, None)):
            patches.replace(found, name, lambda call: marks.wrap(kind, text, call))

    gc.callbacks.append(marks.collection)
    patches.replace(gc, "collect", marks.collect)
    mark(torch, "", "save", CHECKPOINT, SAVE)
    mark(torch, "", "load", CHECKPOINT, LOAD)
    calls = [(*each[:3], CHECKPOINT, each[3]) for each in CHECKPOINT_CALLS]
    calls += [(TOKENIZER_MODULE, TOKENIZER_CLASS, name, TOKENIZER, TOKENIZER) for name in TOKENIZER_CALLS]
    for module, *call in calls:
        after_import(module, lambda found, call=call: mark(found, *call))  # type: ignore[misc]
