"""One rank of a job under `nsyswrap profile`: whether it is recorded, where it writes, and who makes the joint report.

Ranks never wait for each other. Each writes its own result; the one that finds the results of all others makes the
joint report. A rank that is killed leaves none; then the user asks for the report of the others with `nsyswrap ranks`.
"""

import dataclasses
import hashlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import click

from nsyswrap.base.errors import NsyswrapError, UsageError
from nsyswrap.capture.result_folder import EXPORT_NAME, RECORD_NAME, REPORT_NAMES, FolderInUseError
from nsyswrap.cli.interrupts import leaving_at_once

if TYPE_CHECKING:
    from collections.abc import Callable

    from nsyswrap.capture.launcher import LaunchedRank
    from nsyswrap.capture.options import CaptureOptions
    from nsyswrap.cli.inputs import ReadOptions
    from nsyswrap.model import Report

PAGE = REPORT_NAMES[-1]

# In run.json: the launch that a result belongs to.
LAUNCH = "launch"

# Launchers whose ranks are no children of theirs.
_ELSEWHERE = {"srun": "srun nsyswrap profile"}


class Launch(NamedTuple):
    """A job of several ranks.

    Attributes:
        chosen: The ranks that are recorded, in order.
        job: What tells this job from an earlier one in the same folder.
    """

    place: "LaunchedRank"
    chosen: tuple[int, ...]
    job: str

    def record(self) -> dict[str, object]:
        """Return what `run.json` keeps."""
        return {"job": self.job, "rank": self.place.rank, "size": self.place.size, "recorded": list(self.chosen)}


def this_launch(ranks: str | None, environ: Mapping[str, str]) -> Launch | None:
    """Return the job that this process is a rank of; None without a launcher.

    Raises:
        UsageError: ``--ranks`` is no list of ranks of the job, or there is no launcher that it could be for.
    """
    from nsyswrap.capture.launcher import chosen_ranks, common_name, launched_as, parsed_ranks  # noqa: PLC0415

    place = launched_as(environ)
    if place is None:
        if ranks is not None and parsed_ranks(ranks) is not None:
            raise UsageError(
                "--ranks is for a job with one nsyswrap a rank",
                hint="Start nsyswrap by the launcher: torchrun --no-python nsyswrap profile --ranks 0 python train.py",
            )
        return None
    named = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "PMIX_NAMESPACE", "MASTER_ADDR", "MASTER_PORT")
    job = common_name(environ) or "/".join(environ.get(name, "") for name in named)
    # Hashed, because run.json holds no address of a host.
    return Launch(place, chosen_ranks(ranks, place.size), hashlib.sha256(job.encode()).hexdigest()[:16])


def for_launch(wanted: "CaptureOptions", launch: Launch | None) -> "CaptureOptions":
    """Return the options for this rank; a rank that is not recorded becomes its program here.

    Raises:
        UsageError: The command is a launcher whose ranks nsys cannot see.
    """
    name = Path(wanted.command[0]).name
    if name in _ELSEWHERE:
        raise UsageError(
            f"{name} starts its tasks on other process trees, where nsys does not see them",
            hint=f"Start nsyswrap by it: {_ELSEWHERE[name]} -o FOLDER python train.py",
        )
    if launch is None:
        return wanted
    from nsyswrap.capture.launcher import is_first_on_node  # noqa: PLC0415 - loaded when something is captured

    if launch.place.rank not in launch.chosen:
        become_program(wanted)
    if launch.place.rank == launch.chosen[0] and len(launch.chosen) < launch.place.size:
        recorded = ", ".join(map(str, launch.chosen))
        click.echo(
            f"nsyswrap: of {launch.place.size} ranks, {recorded} are recorded; the others run without nsys (--ranks)",
            err=True,
        )
    sampling = wanted.gpu_metrics and is_first_on_node(launch.place, launch.chosen)
    return dataclasses.replace(wanted, gpu_metrics=wanted.gpu_metrics if sampling else "")


def become_program(wanted: "CaptureOptions") -> NoReturn:
    """Replace this process by the program, as its launcher would have started it: same exit code, same signals."""
    from nsyswrap.capture.nsys import resolved_command  # noqa: PLC0415 - loaded when something is captured

    program = resolved_command(wanted)
    if wanted.cwd is not None:
        os.chdir(wanted.cwd)
    if wanted.umask is not None:
        os.umask(wanted.umask)
    if wanted.output_to_stderr:
        os.dup2(2, 1)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
        signal.signal(number, signal.SIG_DFL)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(program[0], program, {**os.environ, **dict(wanted.environment)})  # noqa: S606 - no shell is wanted


def is_joint(launch: Launch | None) -> bool:
    """Return whether this process is one of several recorded ranks."""
    return launch is not None and len(launch.chosen) > 1


def finish_rank(
    folder: Path, launch: Launch, options: "ReadOptions", write: "Callable[[Report, Path], None]"
) -> Path | None:
    """Make the joint report if all recorded ranks have a result, unless another rank makes it.

    Args:
        folder: The folder of this rank; the joint report goes to the folder around it.
        launch: The job.
        options: How to read the captures.
        write: Writes a report to a folder, and shows it.

    Returns:
        The folder of the joint report; None where it was not made here.
    """
    from nsyswrap.capture.launcher import rank_folder  # noqa: PLC0415
    from nsyswrap.capture.result_folder import folder_lock  # noqa: PLC0415 - loaded when something is captured
    from nsyswrap.cli.rank_reports import report_of_ranks  # noqa: PLC0415

    job = folder.parent
    folders = [job / rank_folder(rank) for rank in launch.chosen]
    ended = sum(_has_ended(each, launch.job) for each in folders)
    click.echo(
        f"nsyswrap: rank {launch.place.rank} wrote {folder}; {ended} of {len(folders)} recorded ranks have ended",
        err=True,
    )
    if ended < len(folders):
        return None
    with suppress(FolderInUseError), folder_lock(job):
        with suppress(OSError):  # made after the last rank had ended, by another rank
            if all((job / PAGE).stat().st_mtime_ns >= (each / PAGE).stat().st_mtime_ns for each in folders):
                return None
        try:
            with leaving_at_once("stopped before the joint report was made", f"Make it with 'nsyswrap ranks {job}'"):
                report = report_of_ranks([each / EXPORT_NAME for each in folders], options, with_timeline=True)
            write(report, job)
        except NsyswrapError as error:
            click.echo(f"nsyswrap: the ranks have no joint report: {error.message}", err=True)
        else:
            return job
    return None


def remove_joint_report(folder: Path) -> None:
    """Remove the joint report of an earlier job, since the capture of this rank is now another one."""
    for name in REPORT_NAMES:
        with suppress(OSError):
            (folder.parent / name).unlink()


def _has_ended(folder: Path, job: str) -> bool:
    """Return whether a rank of this job has written its report, which is the last that it writes."""
    try:
        record = json.loads((folder / RECORD_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    found = record.get(LAUNCH) if isinstance(record, dict) else None
    return isinstance(found, dict) and found.get("job") == job and (folder / PAGE).is_file()
