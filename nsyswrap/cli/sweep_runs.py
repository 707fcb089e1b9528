"""Runs the cells of a sweep one after another and keeps the result of each on disk, so that a sweep can be resumed.

::

    FOLDER/sweep.toml                 the description of the sweep
    FOLDER/plan.json                  the seed of the order
    FOLDER/runs/CELL/run-1/           the folder that `profile` wrote
    FOLDER/runs/CELL/run-1.json       how the run ended and what it measured; written last
    FOLDER/runs/CELL/run-1.txt        what program and profile printed
    FOLDER/sweep.json, sweep.html     the result
"""

import contextlib
import dataclasses
import json
import os
import secrets
import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click

from nsyswrap.base import units
from nsyswrap.base.errors import CaptureError, ExportError, NsyswrapError, UsageError
from nsyswrap.base.json_codec import DamagedError
from nsyswrap.base.privacy import HOMES, identity_from
from nsyswrap.capture.cell_process import CellExit, run_cell, wait_for_earlier
from nsyswrap.cli.output import write_text
from nsyswrap.cli.recording import RECORD_NAME, REPORT_NAME, recorded_run
from nsyswrap.cli.terminal import printable
from nsyswrap.runs.run import Run
from nsyswrap.sweep.cells import Cell, cells_of
from nsyswrap.sweep.document import RUN
from nsyswrap.sweep.endings import Ending, EndReason, reason_of
from nsyswrap.sweep.order import next_run
from nsyswrap.sweep.results import CellRun, StepPart
from nsyswrap.sweep.spec import SweepSpec

# Each run is a process of its own: a crash is a cell, and memory is free afterwards.
PROFILE = (sys.executable, "-m", "nsyswrap", "profile", "--quiet", "--force")
PLAN, SPEC, RUNS = "plan.json", "sweep.toml", "runs"
# So much of the end of the output says why a program failed.
_TAIL_BYTES = 65_536


class SweepSettings(NamedTuple):
    """How a sweep runs.

    Attributes:
        until_stable: Repeat each cell until its answer is known.
    """

    folder: Path
    until_stable: bool = False
    record: bool = True
    quiet: bool = False


def planned_seed(spec: SweepSpec, folder: Path) -> int:
    """Return the seed of a sweep: that of its first start, else that of its description, else one drawn now.

    Raises:
        UsageError: The folder holds something else.
        ExportError: The plan is damaged, or the folder cannot be written to.
    """
    plan = folder / PLAN
    try:
        if plan.is_file():
            return int(json.loads(plan.read_text(encoding="utf-8"))["seed"])
        if folder.exists() and (not folder.is_dir() or any(each.name != ".lock" for each in folder.iterdir())):
            raise UsageError(f"{folder} exists and holds no sweep", hint="give another folder with -o")
        seed = spec.seed if spec.seed is not None else secrets.randbelow(1_000_000)
        folder.mkdir(parents=True, exist_ok=True)
        write_text(spec.text, folder / SPEC)
        write_text(json.dumps({"seed": seed}) + "\n", plan)
    except (ValueError, KeyError, TypeError) as error:
        raise ExportError(f"{plan} is damaged", hint="remove it to draw a new order; runs that ended stay") from error
    except OSError as error:
        raise ExportError(f"cannot use {folder}: {error.strerror}", hint="give another folder with -o") from error
    return seed


def runs_in(spec: SweepSpec, folder: Path) -> list[CellRun]:
    """Return the runs of a sweep that have ended, in the order in which they were started.

    Raises:
        UsageError: A cell was run with another command than it has now.
        ExportError: A result is damaged.
    """
    found = []
    for cell in cells_of(spec):
        for file in sorted((folder / RUNS / cell.key).glob("run-*.json")):
            try:
                tree = json.loads(file.read_text(encoding="utf-8"))
                found.append(RUN.read(tree, "the run"))
                other = tree["request"] != _request_of(cell, spec)
            except (OSError, ValueError, KeyError, TypeError, DamagedError) as error:
                raise ExportError(f"{file} is damaged", hint="remove it to repeat this run") from error
            if other:
                raise UsageError(
                    f"{cell.label} ran with another command, environment or options than it has now",
                    hint=f"give another folder with -o, or remove {file.parent}",
                )
    return sorted(found, key=lambda run: (run.started_utc, run.cell, run.number))


def _request_of(cell: Cell, spec: SweepSpec) -> list[object]:
    """Return what is run: command, environment and options of profile."""
    return [list(cell.command), dict(sorted(cell.environment.items())), list(spec.options)]


def run_all(spec: SweepSpec, seed: int, settings: SweepSettings) -> Iterator[list[CellRun]]:
    """Run what is left of a sweep; yield all runs that have ended, first and after each run."""
    done = runs_in(spec, settings.folder)
    yield done
    while (coming := next_run(spec, seed, done, until_stable=settings.until_stable)) is not None:
        # A run is begun only if the median run so far would fit into the time that is left.
        budget, over, used_s = spec.budget, "", sum(run.wall_s for run in done)
        usual_s = statistics.median([run.wall_s for run in done]) if done else 0.0
        if budget.runs is not None and len(done) >= budget.runs:
            over = f"the budget of {budget.runs} runs is used up"
        elif budget.time_s is not None and used_s + usual_s > budget.time_s:
            over = f"{used_s:.0f} s of the {budget.time_s:.0f} s are used, and a run takes {usual_s:.0f} s"
        if over:
            click.echo(f"nsyswrap: {over}; the same command with a larger budget goes on", err=True)
            return
        cell, number = coming
        result = _run(cell, number, spec, settings)
        done = [*done, result]
        if not settings.quiet:
            line = f"{cell.label}: {result.ending.value}: {result.reason} ({result.wall_s:.0f} s)"
            if result.mean_ns is not None:
                steps = f"{result.step_count} steps, {result.wall_s:.0f} s in all"
                line = f"{cell.label}: {units.duration(result.mean_ns)} a step ({steps})"
            click.echo(f"[{len(done)}] {printable(line)}", err=True)
        yield done


def _run(cell: Cell, number: int, spec: SweepSpec, settings: SweepSettings) -> CellRun:
    """Run one cell once, or take the run that an earlier sweep began, and keep its result."""
    place = settings.folder / RUNS / cell.key
    folder, output, lock = (place / f"run-{number}{suffix}" for suffix in ("", ".txt", ".lock"))
    limit_s = spec.budget.run_time_s
    when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
    try:
        place.mkdir(parents=True, exist_ok=True)
        if not wait_for_earlier(lock, limit_s):
            raise UsageError(f"a run of {cell.label} goes on since an earlier sweep", hint="wait until it has ended")
        ended = _ended_before(folder)
        if ended is None:
            shutil.rmtree(folder, ignore_errors=True)
            recorded = ["--record"] if settings.record else []
            argv = [*PROFILE, *recorded, "-o", str(folder), *spec.options, "--", *cell.command]
            ended = run_cell(argv, {**os.environ, **cell.environment}, output, lock, limit_s)
            ended = _with_report_kept(ended, folder, cell.label)
        result = _result(cell, number, ended, settings.folder, limit_s)
        result = result if result.started_utc else dataclasses.replace(result, started_utc=when)
        tree = {**RUN.write(result), "request": _request_of(cell, spec)}
        write_text(json.dumps(tree, indent=1, ensure_ascii=False) + "\n", place / f"run-{number}.json")
    except OSError as error:
        raise ExportError(f"cannot keep the result in {place}: {error.strerror}", hint="check the disk") from error
    return result


def _with_report_kept(ended: CellExit, folder: Path, label: str) -> CellExit:
    """Return how the program of a run ended, where `profile` failed only after the report, as with a full history."""
    kept = _ended_before(folder) if ended.code == CaptureError.exit_code and not ended.timed_out else None
    if kept is None:
        return ended
    click.echo(f"warning: {printable(label)} is measured, but `profile` failed after its report", err=True)
    return kept._replace(wall_s=ended.wall_s)


def _ended_before(folder: Path) -> CellExit | None:
    """Return how a run ended that wrote its report while no sweep waited for it; None if there is none."""
    if not (folder / REPORT_NAME).is_file():
        return None
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        record = json.loads((folder / RECORD_NAME).read_text(encoding="utf-8"))
        return CellExit(int(record["exit_code"]), float(record["wall_ns"]) / 1e9, timed_out=False)
    return None


def _result(cell: Cell, number: int, ended: CellExit, root: Path, limit_s: float) -> CellRun:
    folder = root / RUNS / cell.key / f"run-{number}"
    reason = reason_of(ended.code, _tail(folder.with_name(f"{folder.name}.txt")), limit_s if ended.timed_out else None)
    run = None
    with contextlib.suppress(NsyswrapError):
        run = recorded_run(folder)
    if reason.ending is Ending.MEASURED and (run is None or run.row.mean_ns is None):
        reason = EndReason(Ending.NO_STEPS, "its report has no steps: mark them with NVTX ranges")
    cleaner = identity_from(os.environ.items(), kept=HOMES).cleaner()
    base = CellRun(cell.key, number, reason.ending, cleaner.text(reason.text), ended.wall_s)
    if run is None:
        return base
    row = run.row
    found = dataclasses.replace(
        base,
        folder=folder.relative_to(root).as_posix(),
        run_id=row.run_id,
        verdict=row.verdict,
        rule=row.verdict_rule,
        started_utc=row.started_utc,
        machine={
            "GPU": row.gpu, "GPUs": str(row.gpu_count), "driver": row.driver, "torch": row.torch, "nsys": row.nsys,
        },
    )  # fmt: skip
    if base.ending is not Ending.MEASURED:
        return found
    return dataclasses.replace(
        found,
        mean_ns=row.mean_ns,
        median_ns=row.median_ns,
        step_count=row.step_count,
        cpu_share=1.0 if row.cpu_share is None else row.cpu_share,
        parts=_parts(run),
    )


def _parts(run: Run) -> tuple[StepPart, ...]:
    """Return the parts of a step: the rows of the ledger, with idle time by the rule that it belongs to."""
    steps = run.row.step_count * max(run.row.gpu_count, 1)
    sums: dict[tuple[str, str], int] = {}
    for account in run.accounts:
        if account.kind == "ledger" and account.name != "idle_ns":
            sums[account.name, ""] = sums.get((account.name, ""), 0) + account.total_ns
        elif account.kind == "idle":
            sums["idle_ns", account.rule] = sums.get(("idle_ns", account.rule), 0) + account.total_ns
    return tuple(StepPart(row, rule, total / steps) for (row, rule), total in sums.items() if total and steps)


def _tail(file: Path) -> str:
    """Return the end of an output; empty without one."""
    try:
        with file.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(stream.tell() - _TAIL_BYTES, 0))
            return stream.read().decode(errors="replace")
    except OSError:
        return ""
