"""The real captures that lie in tests/captures, and what is known of one made with a secret in its environment."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Report
from nsyswrap.tables import Trace

CAPTURES = Path(__file__).parents[1] / "captures"
CAPTURE_NAMES = tuple(sorted(path.name.removesuffix(".sqlite.xz") for path in CAPTURES.glob("*.sqlite.xz")))

# The fixtures `real_trace`, `real_context` and `real_report`: by name, and the report by window as well.
RealTrace = Callable[[str], Trace]
RealContext = Callable[[str], TraceContext]
RealReport = Callable[..., Report]


@dataclass(frozen=True, slots=True)
class Planted:
    """A real export, made where there was a secret to tell.

    Attributes:
        export: The file.
        variable: Name of the environment variable that held the secret.
        secret: Its value.
        folder: Home and working folder of the program.
        printed: What the program wrote to its output.
    """

    export: Path
    variable: str
    secret: str
    folder: Path
    printed: str
