"""The real captures in tests/captures, and the description of a capture with a secret in its environment."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Report
from nsyswrap.trace.tables import Trace

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

CAPTURES = Path(__file__).parents[1] / "captures"
REPORTS = CAPTURES.parents[1] / "reports"
CAPTURE_NAMES = tuple(sorted(path.name.removesuffix(".sqlite.xz") for path in CAPTURES.glob("*.sqlite.xz")))
# Also those of planted faults, of ranks and of the gallery.
EVERY_NAME = sorted(
    str(path.relative_to(CAPTURES)).removesuffix(".sqlite.xz") for path in CAPTURES.rglob("*.sqlite.xz")
)
NO_GPU, OLD = "ranges_nsys2022", "cnn_fp32_nsys2023"
# Those of `make test`: two GPUs with collectives, a CUDA graph, counters with stacks, an old nsys, ranges alone.
_FEW = frozenset({"alexnet_data_parallel_2gpu", "cuda_graph_node_trace", "mnist_counters_python", OLD, NO_GPU})


def more(*cases: object) -> "list[ParameterSet]":
    """Return cases of a test that only `make check` runs; a tuple is a value for each parameter."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.thorough) for case in cases]


def some(cases: Iterable[object]) -> list[object]:
    """Return cases of a test; `make test` takes each fifth of them, `make check` all."""
    return [more(case)[0] if at % 5 else case for at, case in enumerate(cases)]


def of_captures(names: Iterable[str], few: Collection[str] = _FEW) -> pytest.MarkDecorator:
    """Let a test run for each capture, with its ``name``; `make test` takes ``few`` of them, `make check` all."""
    return pytest.mark.parametrize("name", [name if name in few else more(name)[0] for name in names])


every_capture = of_captures(CAPTURE_NAMES)
every_gpu_capture = of_captures(name for name in CAPTURE_NAMES if name != NO_GPU)

# The types of the fixtures `real_trace`, `real_context` and `real_report`. Their argument is the capture's name; a
# report has a window, too.
RealTrace = Callable[[str], Trace]
RealContext = Callable[[str], TraceContext]
RealReport = Callable[..., Report]


def packed(name: str) -> Path:
    """Return the file of a capture by its name; that of a committed sample is ``samples/`` and its folder."""
    is_sample = name.startswith("samples/")
    return REPORTS / name / "capture.sqlite.xz" if is_sample else CAPTURES / f"{name}.sqlite.xz"


@dataclass(frozen=True, slots=True)
class Planted:
    """A real export of a program with a secret in its environment.

    Attributes:
        variable: Name of the environment variable that held the secret.
        folder: Home and working folder of the program.
    """

    export: Path
    variable: str
    secret: str
    folder: Path
    printed: str
