"""What a run of a program is to try, and what came of it: two files in a folder that both processes know.

::

    request.json        what to try, how long, with which limits
    PID.events.jsonl    one line for each thing that happened in a process
"""

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from nsyswrap.capture.baseline import run_alone
from nsyswrap.capture.options import CaptureOptions
from nsyswrap.compare.bootstrap import student_limit
from nsyswrap.experiments import work_record
from nsyswrap.experiments.tried.start import EVENTS_SUFFIX, REQUEST_VARIABLE
from nsyswrap.experiments.verify_runs import WorkRun, observer, work_run

# After so many pairs of blocks it is judged whether the result is sure. Each look may be wrong by chance, so each has
# its part of the 5 % (Bonferroni). Source: ours.
LOOKS = (4, 6, 9, 14, 20)
CONFIDENCE = 0.95
# A run may take so many times its budget before it counts as one that hangs: it also starts and compiles. Source: ours.
_HANGS_AFTER, _START_S = 1.5, 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a run of a program is to try.

    Attributes:
        base: Changes that are made for the whole run.
        turns: Experiments to try in turns, each a key or a key with a value.
        without: Experiments with values that are left out.
        processes: Experiments that need processes of their own, to find out whether they apply.
        timed_s: Seconds of steps to time with the base alone; 0 for none.
        is_for_loader: Whether a loop that waits for its loaders, and may have more workers, is only timed.
        budget_s: Seconds for all turns, from the import of torch.
        block_s: Seconds of a block of steps.
        allow_writes: Whether files that exist may be changed.
        hang_s: Seconds without a step after which a change counts as one that hangs.
        own_files: Files that an earlier run has made, which may be written again.
        proved_steps: Steps whose work is recorded, with the base made in them; 0 for no record.
        roundoff: Relative rounding error that each sum of this record gets at random.
    """

    base: tuple[str, ...] = ()
    turns: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    timed_s: float = 0.0
    is_for_loader: bool = False
    budget_s: float = 300.0
    block_s: float = 0.5
    allow_writes: bool = False
    hang_s: float = 300.0
    own_files: tuple[str, ...] = ()
    proved_steps: int = 0
    roundoff: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a run of a program answered.

    Attributes:
        exit_code: The program's exit code, 128 + n for a signal.
        events: What the process with most steps noted, in order; those of the others are left out.
        paths: Files that processes of the program made.
        refused: File that the program was about to change, and was ended for; empty for none.
        work: The record of its work; None where none was wanted.
    """

    exit_code: int
    events: tuple[dict[str, Any], ...]
    paths: tuple[str, ...] = ()
    refused: str = ""
    work: WorkRun | None = None

    def of(self, kind: str) -> Iterator[dict[str, Any]]:
        """Yield the events of one kind."""
        return (each for each in self.events if each["event"] == kind)

    @property
    def step_ns(self) -> float | None:
        """Return the mean step of those that were timed without turns; None where none were."""
        found = next(self.of("timed"), None)
        return None if found is None else fmean(found["step_ns"])

    @property
    def losses(self) -> tuple[float, ...]:
        """Return the losses of the first steps; empty where no steps were timed."""
        return tuple(next((each["losses"] for each in self.of("timed")), ()))

    @property
    def open(self) -> str:
        """Return the experiment that had begun and had no result when the program ended; empty for none."""
        begun = [each["spec"] for each in self.of("begin")]
        return begun[-1] if begun and begun[-1] not in {each["spec"] for each in self.of("result")} else ""

    @property
    def exception(self) -> str:
        """Return the exception that ended the program; empty for none."""
        return next((str(each["words"]) for each in self.of("exception")), "")


def _exit_code(options: CaptureOptions) -> int:
    return run_alone(options).exit_code


def run_request(
    request: Request, options: CaptureOptions, exit_code: Callable[[CaptureOptions], int] = _exit_code
) -> Answer:
    """Run a program once with what it is to try.

    Nothing is recorded.

    Raises:
        CaptureError: The program cannot be run.
    """
    confidence = 1 - (1 - CONFIDENCE) / len(LOOKS)
    limits = [0.0, 0.0, *(student_limit((1 + confidence) / 2, pairs - 1) for pairs in range(2, LOOKS[-1] + 1))]
    with tempfile.TemporaryDirectory(prefix="nsyswrap-try-") as folder:
        path = Path(folder) / "request.json"
        path.write_text(json.dumps({**asdict(request), "limits": limits, "looks": LOOKS}), encoding="utf-8")
        own = {
            **observer("tried.start"),
            REQUEST_VARIABLE: str(path),
            work_record.FOLDER_VARIABLE: folder,
            work_record.ROUNDOFF_VARIABLE: repr(request.roundoff),
            "PYTHONHASHSEED": "0",
        }
        code = exit_code(
            replace(
                options,
                annotate=True,
                environment=(*options.environment, *own.items()),
                timeout_s=_HANGS_AFTER * request.budget_s + _START_S,
            )
        )
        processes = [_events(each) for each in sorted(Path(folder).glob(f"*{EVENTS_SUFFIX}"))]
        every = [each for events in processes for each in events]
        said = next((str(each["words"]) for each in every if each["event"] == "exception"), "")
        work = work_run(Path(folder), code, said, options.cwd or Path.cwd(), {}) if request.proved_steps else None
    longest = max(
        processes, key=lambda events: sum(each["event"] in {"ready", "result"} for each in events), default=()
    )
    made = tuple(dict.fromkeys(str(each["path"]) for each in every if each["event"] == "makes"))
    refused = next((str(each["path"]) for each in every if each["event"] == "refused"), "")
    return Answer(code, tuple(longest), made, refused, work)


def _events(path: Path) -> tuple[dict[str, Any], ...]:
    """Return the events of a process; one that was killed may have left half a line."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        with suppress(ValueError):
            found.append(json.loads(line))
    return tuple(found)
