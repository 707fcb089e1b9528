"""nsyswrap: where a PyTorch program's GPU time went, why it starved, and whether tensor cores were used."""

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nsyswrap.api import OpenedCapture

__version__ = "0.1.0"
__all__ = ["__version__", "open"]


def open(  # noqa: A001 - users write nsyswrap.open
    path: str | PathLike[str],
    *,
    window: str = "",
    step_range: str = "",
    phases: Mapping[str, str] | None = None,
    kernel_rules: str | PathLike[str] | Iterable[str | PathLike[str]] = (),
) -> "OpenedCapture":
    """Read a capture and return it as an object: its report, and its events as data frames.

    Args:
        path: A ``.nsys-rep``, which nsys exports first, or a ``.sqlite`` export.
        window: "steps", "all" or "START:END" in seconds; empty for steps where there are any.
        step_range: Regular expression of the ranges that are steps; empty for the usual spellings.
        phases: Regular expression of the ranges that are a phase, by its name.
        kernel_rules: A file, or several, of rules over kernel names, as ``verify-tensor-cores`` writes them.

    Raises:
        ExportError: It cannot be exported or read.
        UsageError: The window, a pattern or a file of rules cannot be read.
    """
    from pathlib import Path  # noqa: PLC0415 - an import of the package is to stay light

    from nsyswrap.api import open_capture  # noqa: PLC0415

    files = [kernel_rules] if isinstance(kernel_rules, (str, PathLike)) else kernel_rules
    return open_capture(Path(path), window, step_range, phases, tuple(map(Path, files)))
