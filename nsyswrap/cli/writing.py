"""How the commands write their results: whole or not at all, and never over what they read."""

import errno
import os
import secrets
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from nsyswrap.cli.terminal import printable
from nsyswrap.errors import ExportError, UsageError

# What a folder that `profile` wrote is read by.
READ_IN_FOLDERS = ("capture.sqlite", "report.json")

FORMS = {
    ".html": "html",
    ".htm": "html",
    ".json": "json",
    ".csv": "csv",
    ".md": "markdown",
    ".markdown": "markdown",
}


def form_of(form: str | None, output: Path | None, forms: Collection[str]) -> str:
    """Return the form of the result: as asked, or as the file's name says where that is one of ``forms``, or text."""
    named = FORMS.get(output.suffix.lower(), "text") if output is not None else "text"
    return form or (named if named in forms else "text")


def check_not_read(output: Path | None, *read: Path | None) -> None:
    """Check, before anything is read, that a result will not replace what it is made from, by whatever name.

    Args:
        output: The file to write; None for stdout.
        read: The files that are read, or folders that ``profile`` wrote; None for one that is not given.

    Raises:
        UsageError: The result would replace one of them.
    """
    if output is None or not output.exists():
        return
    given = [path for path in read if path is not None]
    for path in (*given, *(folder / name for folder in given for name in READ_IN_FOLDERS)):
        with suppress(OSError):
            if output.samefile(path):
                raise UsageError(f"{output} is what is read: it would be lost", hint="give another file with -o")


def print_result(text: str) -> None:
    """Print a result to stdout, with a line's end after it.

    Raises:
        ExportError: stdout is closed, or cannot take it.
    """
    if sys.stdout is None:
        raise ExportError("cannot write to stdout: it is closed", hint="give a file with -o, or leave stdout open")
    try:
        click.echo(text, nl=not text.endswith("\n"))
    except OSError as error:
        # click ends quietly where the reader has gone, as in `| head`.
        if error.errno == errno.EPIPE:
            raise
        _forget_stdout()
        raise ExportError(
            f"cannot write to stdout: {error.strerror}", hint="make room, or send the result elsewhere"
        ) from error


def write_result(text: str, output: Path | None, *, force: bool) -> None:
    """Write a result to a file, or to stdout.

    Raises:
        UsageError: The file is there already and ``force`` is not given.
        ExportError: It cannot be written.
    """
    if output is None:
        print_result(text)
        return
    if not force and (output.exists() or output.is_symlink()):
        raise UsageError(f"{output} is there already", hint="give another file, or --force to replace it")
    try:
        write_text(text, output)
    except OSError as error:
        raise ExportError(f"cannot write {output}: {error.strerror}", hint="give another file with -o") from error
    click.echo(f"wrote {printable(str(output))}", err=True)


def write_text(text: str, output: Path) -> None:
    """Write a text file as ``whole`` does; what is no UTF-8 is written as escapes.

    Raises:
        OSError: It cannot be written; what was there before still is.
    """
    with whole(output) as place:
        place.write_text(text, encoding="utf-8", errors="backslashreplace", newline="")


@contextmanager
def whole(target: Path) -> Iterator[Path]:
    """Give a file to write to, which takes the target's place at the end of the block; on an error it is removed.

    A link is followed, and a pipe or a device is written to as it is.

    Raises:
        OSError: The file cannot take the target's place.
    """
    if target.exists() and not target.is_file():
        yield target
        return
    real = Path(os.path.realpath(target))
    place = real.with_name(f".nsyswrap-{secrets.token_hex(8)}")
    try:
        yield place
        if real.exists():
            shutil.copymode(real, place)
        place.replace(real)
    finally:
        place.unlink(missing_ok=True)


@contextmanager
def whole_folder(target: Path, names: Iterable[str] = ()) -> Iterator[Path]:
    """Give a folder to write to, whose files move into the target at the end of the block; on an error none does.

    Args:
        target: A folder; made where it is missing.
        names: Files that earlier results may have left in it, as patterns of ``Path.glob``: what is not replaced is
            removed.

    Raises:
        OSError: The files cannot be moved or removed.
    """
    fresh = not target.exists()
    target.mkdir(parents=True, exist_ok=True)
    place = target / f".nsyswrap-{secrets.token_hex(8)}"
    place.mkdir()
    try:
        yield place
        written = [path.name for path in place.iterdir()]
        for path in _left_by_others(target, names, written):
            path.unlink()
        for name in written:
            (place / name).replace(target / name)
    finally:
        shutil.rmtree(place, ignore_errors=True)
        if fresh:
            with suppress(OSError):
                target.rmdir()


def _left_by_others(folder: Path, names: Iterable[str], written: Collection[str]) -> list[Path]:
    return [path for name in names for path in folder.glob(name) if path.is_file() and path.name not in written]


def _forget_stdout() -> None:
    """Send what stdout still holds nowhere, or Python would try to write it once more at its end, and complain."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
