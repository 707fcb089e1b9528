"""`nsyswrap verify`: tell whether two programs do the same work, and which is faster."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsyswrap.base.errors import CannotTellError, ExportError, UsageError
from nsyswrap.cli.capture_options import program as command_of
from nsyswrap.cli.output import (
    check_new,
    check_not_input,
    file_options,
    form_of,
    format_option,
    write_result,
    write_text,
)
from nsyswrap.cli.terminal import rendered_result
from nsyswrap.cli.verdict_errors import RegressedError, verdict_errors
from nsyswrap.render.documents import FORMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nsyswrap.experiments.verify import Side
    from nsyswrap.experiments.verify_runs import KeptWork

_KEPT = ("base.json", "new.json")


@click.command(context_settings={"ignore_unknown_options": False})
@click.argument("base")
@click.argument("new")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--find",
    type=click.FloatRange(0.1, 100),
    metavar="PERCENT",
    default=5.0,
    show_default=True,
    help="Smallest change of time that matters.",
)
@click.option(
    "--turns",
    type=click.IntRange(0, 100),
    default=10,
    show_default=True,
    help="Most timed runs of each program; 0 compares the work alone.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(1),
    metavar="SECONDS",
    default=600.0,
    show_default=True,
    help="Longest time of a run.",
)
@click.option("--python", metavar="PROGRAM", help="Python that runs both.  [default: the active environment's]")
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Keep the runs as base.json and new.json in this folder; each can be BASE or NEW later.",
)
@click.option("-q", "--quiet", is_flag=True, help="Do not print what is running.")
@format_option(FORMS)
@file_options
def verify(  # noqa: PLR0913 - one argument an option
    *,
    base: str,
    new: str,
    arguments: tuple[str, ...],
    find: float,
    turns: int,
    timeout: float,
    python: str | None,
    keep: Path | None,
    quiet: bool,
    form: str | None,
    output: Path | None,
    force: bool,
) -> None:
    """Tell whether NEW does the same work as BASE, and then whether it is faster.

    BASE and NEW are two scripts with the same ARGUMENTS, two commits or folders that have the script in ARGUMENTS, or
    runs that --keep wrote. The programs run several times in the current folder, and may write files there.

    The exit code is 0 if the work is the same and NEW is not slower, 1 if it is other work or NEW is slower, 3 if the
    runs cannot tell, and 4 where something goes wrong.

    \b
      nsyswrap verify train.py train_fast.py -- --epochs 1
      nsyswrap verify main . -- train.py --epochs 1
      nsyswrap verify kept/base.json train.py
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    with verdict_errors(), ExitStack() as stack:  # files of commits exist until its end
        from nsyswrap.experiments.verify import VerifyOptions  # noqa: PLC0415 - loads numpy
        from nsyswrap.experiments.verify import verify as verified  # noqa: PLC0415

        sides = _side(base, arguments, python, stack), _side(new, arguments, python, stack)
        check_not_input(output, Path(base), Path(new))
        check_new([keep / name for name in _KEPT] if keep else [], force=force)
        options = VerifyOptions(find / 100, turns, timeout, keeps=keep is not None)

        def announce(words: str) -> None:
            if not quiet:
                click.echo(f"nsyswrap: {words}", err=True)

        result, *kept = verified(*sides, options, announce)
        if keep is not None:
            _keep(keep, kept)
        shown = rendered_result("verification", form_of(form, output, FORMS), result, to_terminal=output is None)
        write_result(shown, output, force=force)
        if result.passes is None:
            raise CannotTellError("the runs cannot tell", hint="give more steps, more --turns, or a quieter machine")
        if not result.passes:
            raise RegressedError(f"NEW does not pass: {result.outcome}", hint="see the result for what differs")


def _side(given: str, arguments: tuple[str, ...], python: str | None, stack: ExitStack) -> "Side":
    """Return one of the programs."""
    from nsyswrap.capture.git_history import export_commit  # noqa: PLC0415 - loaded when it is needed
    from nsyswrap.capture.run_dir import private_folder  # noqa: PLC0415
    from nsyswrap.experiments.verify_runs import VerifiedProgram, kept_run  # noqa: PLC0415

    path, cwd = Path(given), Path.cwd()
    if path.is_file() and path.suffix == ".json":
        return kept_run(path)
    if path.is_file():
        return VerifiedProgram(given, command_of((str(path.absolute()), *arguments), python), cwd)
    folder = path if path.is_dir() else export_commit(given, cwd, stack.enter_context(private_folder()) / "files")
    if not arguments:
        raise UsageError(
            f"{given} is a {'folder' if path.is_dir() else 'commit'}, and no script is given", hint=_SCRIPT_HINT
        )
    script, *rest = arguments
    if not (folder / script).is_file():
        raise UsageError(f"{given} has no {script}", hint=_SCRIPT_HINT)
    return VerifiedProgram(given, command_of((str((folder / script).absolute()), *rest), python), cwd)


_SCRIPT_HINT = "give the script and its arguments after --: nsyswrap verify main . -- train.py --epochs 1"


def _keep(folder: Path, kept: "Sequence[KeptWork]") -> None:
    """Write the runs of both programs."""
    from nsyswrap.experiments.verify_runs import kept_tree  # noqa: PLC0415 - loads pandas

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, runs in zip(_KEPT, kept, strict=True):
            write_text(json.dumps(kept_tree(runs), separators=(",", ":")), folder / name)
    except OSError as error:
        raise ExportError(
            f"cannot write to {folder}: {error.strerror}", hint="give another folder with --keep"
        ) from error
