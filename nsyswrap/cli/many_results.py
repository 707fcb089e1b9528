"""Reads many captures with one of the two engines: keeps the result of each, and adds up all of them in their order."""

import os
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import click

from nsyswrap.base import units
from nsyswrap.base.errors import ExportError
from nsyswrap.base.user_folder import user_folder
from nsyswrap.cli.capture_reader import CaptureTask, read_capture, reader
from nsyswrap.cli.inputs import ReadOptions
from nsyswrap.cli.many_inputs import FoundCapture, names_of
from nsyswrap.cli.progress import counting, working
from nsyswrap.many import dask_cluster, processes
from nsyswrap.many.capture_sums import CaptureSums, decoded
from nsyswrap.many.kept_results import KeptResults, content_key
from nsyswrap.many.memory import needed_bytes
from nsyswrap.many.processes import Answer, Lost
from nsyswrap.many.totals import ManyCaptures, totals_of


class Engine(NamedTuple):
    """What reads the captures.

    Attributes:
        cluster: Scheduler of a Dask cluster; empty for processes on this machine.
        processes: Largest number of processes on this machine; None for one a core.
        limit_s: Longest time for one capture.
    """

    cluster: str
    processes: int | None
    limit_s: float

    def answers(self, tasks: Sequence[CaptureTask]) -> Generator[Answer, None, None]:
        """Yield the number of each task and its answer, as they come."""
        if self.cluster:
            return dask_cluster.answers(self.cluster, read_capture, tasks, self.limit_s)
        limits = processes.process_limits(self.processes, self.limit_s)
        return processes.Processes(reader, limits).answers(tasks, [needed_bytes(task.path) for task in tasks])


def many_captures(
    found: Sequence[FoundCapture], options: ReadOptions, engine: Engine, folder: Path | None, *, fresh: bool
) -> ManyCaptures:
    """Return the totals of many captures.

    Raises:
        UsageError: The engine does not work as given.
        ExportError: No capture can be read, or the engine fails.
    """
    names, cache = names_of([each.path for each in found]), user_folder(os.environ, "XDG_CACHE_HOME", ".cache")
    results = KeptResults(folder or cache / "nsyswrap" / "captures")
    with working("looking for earlier results"):
        keys, reasons = _keys(found, options)
        kept = frozenset() if fresh else results.has({key for key in keys if key})
    first = {key: number for number, key in reversed(list(enumerate(keys)))}
    missing = [number for number, key in enumerate(keys) if key and key not in kept and first[key] == number]
    if kept:
        click.echo(f"nsyswrap: {units.counted(len(kept), 'capture was', 'captures were')} analyzed before", err=True)
    texts = _analyzed([(number, keys[number], found[number]) for number in missing], options, engine, results, reasons)
    # What cannot be read is named each time, and what is repeated counts once.
    reasons |= {number: reasons[first[key]] for number, key in enumerate(keys) if key and first[key] in reasons}
    again = {number: first[key] for number, key in enumerate(keys) if number not in reasons and first[key] != number}
    repeated = [(names[number], names[other]) for number, other in again.items()]
    counted = [number for number in range(len(keys)) if number not in again]

    def sums(number: int) -> CaptureSums | str:
        if number in reasons or keys[number] in texts:
            return reasons.get(number) or decoded(texts[keys[number]])
        return results.find(keys[number]) or "its result was removed while others were read"

    many = totals_of(((names[number], sums(number)) for number in counted), repeated)
    if not many.captures:
        first_failed = many.failed[0]
        raise ExportError(f"no capture can be read; {first_failed.name}: {first_failed.error}")
    return many


def _keys(found: Sequence[FoundCapture], options: ReadOptions) -> tuple[list[str], dict[int, str]]:
    """Return the key of each capture, empty for one that cannot be read, and the reasons for those by number."""
    rules = [path.read_text(encoding="utf-8", errors="replace") for path in options.kernel_rules]
    how = repr((options._replace(kernel_rules=()), rules))

    def key_of(each: FoundCapture) -> str | OSError:
        try:
            return content_key(each.path, how, each.host_from)
        except OSError as error:
            return error

    # hashlib lets other threads run while it reads.
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        answers = list(threads.map(key_of, found))
    reasons = {
        number: "it does not exist" if isinstance(each, FileNotFoundError) else f"cannot read it: {each.strerror}"
        for number, each in enumerate(answers)
        if isinstance(each, OSError)
    }
    return ["" if isinstance(each, OSError) else each for each in answers], reasons


def _analyzed(
    missing: Sequence[tuple[int, str, FoundCapture]],
    options: ReadOptions,
    engine: Engine,
    results: KeptResults,
    reasons: dict[int, str],
) -> Mapping[str, str]:
    """Analyze captures and keep their results; add the reasons of those that failed.

    Returns:
        Results that could not be kept, by key.
    """
    if not missing:
        return {}
    absolute = options._replace(kernel_rules=tuple(path.absolute() for path in options.kernel_rules))
    tasks = [CaptureTask(each.path, each.host_from, absolute) for _, _, each in missing]
    held: dict[str, str] = {}
    try:
        with counting(len(tasks)) as advance, closing(engine.answers(tasks)) as answers:
            for at, answer in answers:
                number, key, _ = missing[at]
                found = answer.reason if isinstance(answer, Lost) else decoded(answer)
                if isinstance(found, str):
                    reasons[number] = found
                elif not isinstance(answer, Lost):
                    _keep(results, key, answer, held)
                advance()
    except KeyboardInterrupt:
        click.echo("\nhint: the same command goes on with what is missing", err=True)
        raise
    return held


def _keep(results: KeptResults, key: str, text: str, held: dict[str, str]) -> None:
    """Keep a result; one that cannot be written stays in memory, and the first of them is named on stderr."""
    try:
        results.keep(key, text)
    except OSError as error:
        if not held:
            click.echo(f"warning: results cannot be kept for the next call: {error.strerror}", err=True)
        held[key] = text
