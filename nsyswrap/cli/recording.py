"""From a report.json, or the folder of a result, to a run in the history."""

import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsyswrap.base.errors import CaptureError, NsyswrapError, UsageError
from nsyswrap.cli.inputs import REPORT_SUFFIX

if TYPE_CHECKING:
    from nsyswrap.runs.history import History
    from nsyswrap.runs.run import Run

REPORT_NAME, RECORD_NAME = "report.json", "run.json"


def recorded_run(path: Path, series: str = "") -> "Run":
    """Return the run that a report is about, with what the run.json beside it says.

    Args:
        path: A report.json, or a folder with one.
        series: A name that stands for the program and its arguments; empty for these.
    """
    from nsyswrap.base.privacy import HOMES, identity_from  # noqa: PLC0415
    from nsyswrap.capture.git_history import committed_s  # noqa: PLC0415 - loaded when a run is added
    from nsyswrap.render.json_reader import read_report  # noqa: PLC0415
    from nsyswrap.runs.database import project_folder  # noqa: PLC0415
    from nsyswrap.runs.from_report import RunOrigin, run_from_report  # noqa: PLC0415

    file = report_file(path)
    record = record_beside(file.parent)
    git = record.get("git")
    known = git if isinstance(git, Mapping) else {}
    made = known.get("committed_s")
    if not isinstance(made, int):
        made = committed_s(str(known.get("commit") or ""), file.parent)
    project, folder = project_folder(Path.cwd()).resolve(), file.parent.resolve()
    inside = folder.relative_to(project).as_posix() if folder.is_relative_to(project) else ""
    cleaner = identity_from(os.environ.items(), kept=HOMES).cleaner()
    return run_from_report(read_report(file), record, RunOrigin(made, inside, series), cleaner)


def report_file(path: Path) -> Path:
    """Return the report.json of a path.

    Raises:
        UsageError: It is no report.json and no folder with one.
    """
    if path.is_dir():
        if (path / REPORT_NAME).is_file():
            return path / REPORT_NAME
        hint = "give a folder that 'nsyswrap profile' wrote; 'nsyswrap resume' finishes a run that was interrupted"
        raise UsageError(f"{path} holds no {REPORT_NAME}", hint=hint)
    if path.suffix.lower() != REPORT_SUFFIX:
        hint = f"make one: nsyswrap analyze {path} --format json -o {REPORT_NAME}"
        raise UsageError(f"{path} is no {REPORT_NAME}", hint=hint)
    return path


def record_beside(folder: Path) -> Mapping[str, Any]:
    """Return the run.json in the folder of a report; empty where there is none.

    The joint report of a job has those of its ranks in folders of their own: then it is that of the first rank, without
    the number of the rank.
    """
    own = _record(folder / RECORD_NAME)
    if own:
        return own
    ranks = sorted(folder.glob(f"rank-*/{RECORD_NAME}"), key=lambda file: (len(file.parent.name), file.parent.name))
    first = next(filter(None, map(_record, ranks)), {})
    launch = first.get("launch")
    return {**first, "launch": {**launch, "rank": None}} if isinstance(launch, dict) else first


def _record(file: Path) -> dict[str, Any]:
    """Return the record of a run in a file; empty for any other file."""
    from nsyswrap.capture.recorded_run import SCHEMA  # noqa: PLC0415 - loaded when a run is added

    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) and record.get("schema") == SCHEMA else {}


def history_of(url: str | None, *, create: bool) -> "History":
    """Open the history."""
    from nsyswrap.runs.history import open_history  # noqa: PLC0415 - loads SQLAlchemy

    return open_history(url, create=create)


def record_result(history: "History | None", folder: Path | None, series: str = "") -> None:
    """Add the result of `profile` to the history; nothing without a history or a result.

    Raises:
        CaptureError: It cannot be added; the result itself is complete.
    """
    if history is None or folder is None:
        return
    try:
        history.add(recorded_run(folder, series), replace=True)
    except NsyswrapError as error:
        words = ["nsyswrap", "history", "add", *(["--series", series] if series else ()), str(folder)]
        message, hint = f"the run is not in the history: {error.message}", f"add it later: {shlex.join(words)}"
        raise CaptureError(message, hint=hint) from error
