"""`nsyswrap sweep`: run a program over a grid of settings, and say which to choose."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsyswrap.base.errors import CannotTellError, ExportError, UsageError
from nsyswrap.base.text_file import read_text_file
from nsyswrap.cli.output import form_of, write_result, write_text
from nsyswrap.cli.terminal import rendered_result
from nsyswrap.render.documents import FORMS

if TYPE_CHECKING:
    from nsyswrap.cli.sweep_runs import SweepSettings
    from nsyswrap.sweep.results import Sweep

RESULT, PAGE = "sweep.json", "sweep.html"


@click.command()
@click.argument("source", type=click.Path(path_type=Path), metavar="SWEEP.toml|RESULT")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="With SWEEP.toml the folder of the results, by default reports/sweeps/NAME; with RESULT the file to write "
    "instead of stdout.",
)
@click.option(
    "--until",
    type=click.Choice(["stable"]),
    help="stable: repeat each cell until its time per step is known to the tolerance (2 % if the file sets none).",
)
@click.option("--record/--no-record", default=True, show_default=True, help="Add each run to the history.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMS),
    help="Format of what is printed; by default the one that the name of the -o file implies, else text.",
)
@click.option("-f", "--force", is_flag=True, help="With RESULT: replace a file that exists.")
@click.option("-q", "--quiet", is_flag=True, help="Print no line for each run.")
def sweep(  # noqa: PLR0913 - one argument an option
    *,
    source: Path,
    output: Path | None,
    until: str | None,
    record: bool,
    form: str | None,
    force: bool,
    quiet: bool,
) -> None:
    """Profile a program over a grid of settings: workers, batch sizes, GPUs, precision, environment.

    SWEEP.toml describes the grid. The folder of the results gets sweep.json and sweep.html, and the result of each run.
    A second call goes on where the first one ended, and runs nothing twice. A cell that runs out of memory or crashes
    is a row of the result. RESULT is a sweep.json, or a folder with one: it is shown, and nothing is run.

    \b
      nsyswrap sweep workers.toml
      nsyswrap sweep workers.toml --until stable -o reports/sweeps/workers
      nsyswrap sweep reports/sweeps/workers --format html -o page.html
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    if is_result(source):
        from nsyswrap.sweep.document import sweep_from_tree  # noqa: PLC0415 - loaded when it is needed

        file = source / RESULT if source.is_dir() else source
        try:
            tree = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise ExportError(f"cannot read {file}: {error}", hint="give the sweep.json of a sweep") from error
        found = sweep_from_tree(tree, str(file))
        text = rendered_result("sweep", form_of(form, output, FORMS), found, to_terminal=output is None)
        write_result(text, output, force=force)
    else:
        folder = output or Path("reports", "sweeps", source.stem)
        from nsyswrap.cli.sweep_runs import SweepSettings  # noqa: PLC0415 - loaded when something is run

        settings = SweepSettings(folder, until_stable=until is not None, record=record, quiet=quiet)
        found = finished_sweep(source, settings)
        write_result(rendered_result("sweep", form or "text", found, to_terminal=True), None, force=False)
        click.echo(f"page     {folder / PAGE}", err=True)
    if not found.measured():
        raise CannotTellError("no cell was measured", hint="see the reasons in the result")


def is_result(source: Path) -> bool:
    """Return whether a path is a result to show, and not a description to run.

    Raises:
        UsageError: It does not exist, or is neither.
    """
    if source.is_dir() and (source / RESULT).is_file():
        return True
    if not source.is_file():
        hint = "give a TOML file that describes a sweep, or the folder of a result"
        raise UsageError(f"there is no sweep at {source}", hint=hint)
    return source.suffix.lower() == ".json"


def finished_sweep(source: Path, settings: "SweepSettings") -> "Sweep":
    """Run what is left of a sweep, keep its result after each run, and return it.

    Raises:
        UsageError: The file does not describe a sweep.
        ExportError: A file cannot be read or written.
    """
    from nsyswrap.capture.result_folder import folder_lock  # noqa: PLC0415 - loaded when something is run
    from nsyswrap.cli.sweep_runs import planned_seed, run_all  # noqa: PLC0415
    from nsyswrap.sweep.cells import cells_of  # noqa: PLC0415
    from nsyswrap.sweep.results import sweep_of  # noqa: PLC0415
    from nsyswrap.sweep.spec import parse  # noqa: PLC0415

    try:
        spec = parse(read_text_file(source), str(source))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {source}: {error}") from error
    own = sum(not cell.same_as for cell in cells_of(spec))
    seed = planned_seed(spec, settings.folder)
    if not settings.quiet:
        click.echo(f"nsyswrap: {own} cell{'' if own == 1 else 's'} in random order, seed {seed}", err=True)
    found = sweep_of(spec, seed, ())
    with folder_lock(settings.folder), _going_on():
        for runs in run_all(spec, seed, settings):
            found = sweep_of(spec, seed, runs)
            _keep(found, settings.folder)
    return found


@contextlib.contextmanager
def _going_on() -> Iterator[None]:
    """Say at Ctrl-C, or another ending signal, how the sweep goes on."""
    from nsyswrap.capture.signals import signals_as_errors  # noqa: PLC0415 - loaded when something is run

    try:
        with signals_as_errors():
            yield
    except KeyboardInterrupt:
        click.echo("\nhint: the same command goes on with what is missing", err=True)
        raise


def _keep(found: "Sweep", folder: Path) -> None:
    """Write the result and its page."""
    try:
        for form, name in (("json", RESULT), ("html", PAGE)):
            write_text(rendered_result("sweep", form, found, to_terminal=False), folder / name)
    except OSError as error:
        raise ExportError(f"cannot write to {folder}: {error.strerror}", hint="check the disk") from error
