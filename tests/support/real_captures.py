"""The real captures in tests/captures, and the description of a capture with a secret in its environment."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Report
from nsyswrap.trace.tables import Trace

CAPTURES = Path(__file__).parents[1] / "captures"
CAPTURE_NAMES = tuple(sorted(path.name.removesuffix(".sqlite.xz") for path in CAPTURES.glob("*.sqlite.xz")))

# The types of the fixtures `real_trace`, `real_context` and `real_report`. Their argument is the capture's name; a
# report has a window, too.
RealTrace = Callable[[str], Trace]
RealContext = Callable[[str], TraceContext]
RealReport = Callable[..., Report]


@dataclass(frozen=True, slots=True)
class Planted:
    """A real export of a program with a secret in its environment.

    Attributes:
        export: The file.
        variable: Name of the environment variable that held the secret.
        secret: Its value.
        folder: Home and working folder of the program.
        printed: The output of the program.
    """

    export: Path
    variable: str
    secret: str
    folder: Path
    printed: str
