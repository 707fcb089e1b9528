"""torch.compile with an empty cache: with results of an earlier run on the disk, it would not compile again."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def afresh() -> Iterator[None]:
    """Let torch.compile work in this process, with an empty cache of its own, for any number of shapes."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.environ["TRITON_CACHE_DIR"] = folder
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        before = torch._dynamo.config.recompile_limit  # noqa: SLF001 - its name
        torch._dynamo.config.recompile_limit = 64  # noqa: SLF001 - as above
        try:
            yield
        finally:
            torch._dynamo.config.recompile_limit = before  # noqa: SLF001 - as above
            torch._dynamo.reset()  # noqa: SLF001 - as above
