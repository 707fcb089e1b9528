"""nsyswrap: where a PyTorch program's GPU time went, why the GPU was idle, and whether tensor cores were used."""

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING

from nsyswrap.base.version import __version__
from nsyswrap.own_steps import step_callback, steps

if TYPE_CHECKING:
    from nsyswrap.api import OpenedCapture

__all__ = ["__version__", "open", "step_callback", "steps"]


def open(  # noqa: A001, PLR0913 - users write nsyswrap.open; one argument an option
    path: str | PathLike[str],
    *,
    window: str = "",
    step_range: str = "",
    step_kernel: str = "",
    phases: Mapping[str, str] | None = None,
    kernel_rules: str | PathLike[str] | Iterable[str | PathLike[str]] = (),
) -> "OpenedCapture":
    """Read a capture and return an object with its report and its events as data frames.

    Args:
        path: A ``.nsys-rep`` (exported with nsys first) or a ``.sqlite`` export.
        window: "steps", "all" or "START:END" in seconds; empty for steps if there are any, else all.
        step_range: Regular expression of the NVTX ranges that are steps; empty for the usual names.
        step_kernel: Regular expression of the kernels that begin a step; empty to use ranges, or else the pattern that
            the GPU's work repeats.
        phases: Name of each phase -> regular expression of its NVTX ranges.
        kernel_rules: One or more files with kernel name rules, as ``verify-tensor-cores`` writes them.

    Raises:
        ExportError: The file cannot be exported or read.
        UsageError: The window, a pattern or a rules file is invalid.
    """
    from pathlib import Path  # noqa: PLC0415 - importing the package must stay fast

    from nsyswrap.api import open_capture  # noqa: PLC0415

    files = [kernel_rules] if isinstance(kernel_rules, (str, PathLike)) else kernel_rules
    return open_capture(Path(path), window, step_range, phases, tuple(map(Path, files)), step_kernel)
