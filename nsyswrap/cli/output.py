"""Writing results: to stdout or to files, complete or not at all, and never over an input."""

import errno
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from nsyswrap.base.errors import ExportError, UsageError
from nsyswrap.cli.streams import discard_stdout, encodable
from nsyswrap.cli.terminal import printable

# The files that commands read when they get a folder of `profile`.
READ_IN_FOLDERS = ("capture.sqlite", "report.json")

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]

FORMS = {
    ".html": "html",
    ".htm": "html",
    ".json": "json",
    ".csv": "csv",
    ".md": "markdown",
    ".markdown": "markdown",
}


def format_option(forms: Sequence[str]) -> Decorator:
    """Return the option ``--format`` of a command, as ``form``; ``form_of`` decides where it is not given."""
    words = "Output format; by default the one that the name of the -o file implies, else text."
    return click.option("--format", "form", type=click.Choice(forms), help=words)


def force_option(words: str = "Replace files that exist.") -> Decorator:
    """Return the option ``--force`` of a command, with its help."""
    return click.option("-f", "--force", is_flag=True, help=words)


output_option = click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write to this file instead of stdout."
)


def file_options(command: Command) -> Command:
    """Add the options ``--output`` and ``--force`` to a command with one result."""
    return output_option(force_option()(command))


def form_of(form: str | None, output: Path | None, forms: Collection[str]) -> str:
    """Return the output format: the one that was given, else the one of the file's suffix, else text."""
    named = FORMS.get(output.suffix.lower(), "text") if output is not None else "text"
    return form or (named if named in forms else "text")


def check_not_input(output: Path | None, *inputs: Path | None) -> None:
    """Check, before anything is read, that the result does not replace an input, not even under another name.

    Args:
        output: The file to write; None for stdout.
        inputs: Files to read, or folders that ``profile`` wrote; None for one that is not given.

    Raises:
        UsageError: The result would replace an input.
    """
    if output is None or not output.exists():
        return
    given = [path for path in inputs if path is not None]
    for path in (*given, *(folder / name for folder in given for name in READ_IN_FOLDERS)):
        with suppress(OSError):
            if output.samefile(path):
                raise UsageError(f"{output} is an input and would be overwritten", hint="give another file with -o")


def check_new(files: Iterable[Path], *, force: bool) -> None:
    """Check that no file exists yet, unless it may be replaced.

    Raises:
        UsageError: One does.
    """
    for file in files:
        if not force and (file.exists() or file.is_symlink()):
            raise UsageError(f"{file} exists already", hint="give another file, or --force to replace it")


def print_result(text: str) -> None:
    """Print a result to stdout, with a line break at its end.

    Raises:
        ExportError: stdout is closed or cannot be written to.
    """
    if sys.stdout is None:
        raise ExportError("cannot write to stdout: it is closed", hint="give a file with -o, or leave stdout open")
    try:
        click.echo(encodable(text, sys.stdout.encoding or "utf-8"), nl=not text.endswith("\n"))
        sys.stdout.flush()
    except OSError as error:
        # click ends quietly where the reader has closed the pipe, as in `| head`.
        if error.errno == errno.EPIPE:
            raise
        discard_stdout()
        raise ExportError(
            f"cannot write to stdout: {error.strerror}", hint="free some space, or send the result elsewhere"
        ) from error


def write_result(text: str, output: Path | None, *, force: bool) -> None:
    """Write a result to a file, or to stdout.

    Raises:
        UsageError: The file exists already and ``force`` is not given.
        ExportError: It cannot be written.
    """
    if output is None:
        print_result(text)
        return
    check_new([output], force=force)
    try:
        write_text(text, output)
    except OSError as error:
        raise ExportError(f"cannot write {output}: {error.strerror}", hint="give another file with -o") from error
    click.echo(f"wrote {printable(str(output))}", err=True)


def write_text(text: str, output: Path) -> None:
    """Write a text file in one step, as UTF-8; characters that UTF-8 cannot encode become escapes."""
    with atomic_file(output) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace", newline="")


@contextmanager
def atomic_file(target: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces the target at the end of the block; an error removes it.

    A symbolic link is followed. A pipe or a device is written to directly.
    """
    if target.exists() and not target.is_file():
        yield target
        return
    real = Path(os.path.realpath(target))
    temporary = real.with_name(f".nsyswrap-{secrets.token_hex(8)}")
    try:
        yield temporary
        if real.exists():
            shutil.copymode(real, temporary)
        temporary.replace(real)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(target: Path, names: Iterable[str] = ()) -> Iterator[Path]:
    """Yield a temporary folder whose files move into the target at the end of the block; after an error, none moves.

    Args:
        target: A folder; created if missing.
        names: Patterns of ``Path.glob`` for files of earlier results in it. Those that are not replaced are removed.
    """
    created = not target.exists()
    target.mkdir(parents=True, exist_ok=True)
    temporary = target / f".nsyswrap-{secrets.token_hex(8)}"
    temporary.mkdir()
    try:
        yield temporary
        written = [path.name for path in temporary.iterdir()]
        for path in [each for name in names for each in target.glob(name)]:
            if path.is_file() and path.name not in written:
                path.unlink()
        for name in written:
            (temporary / name).replace(target / name)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if created:
            with suppress(OSError):
                target.rmdir()
