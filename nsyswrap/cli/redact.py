"""`nsyswrap redact`: write an export fit to share."""

from pathlib import Path

import click

from nsyswrap.cli.capture_inputs import capture_argument, export_of
from nsyswrap.cli.terminal import printable
from nsyswrap.cli.writing import check_not_read


@click.command()
@capture_argument
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, metavar="FILE.sqlite", help="The export to write."
)
@click.option("-f", "--force", is_flag=True, help="Replace the file if it is there.")
def redact(*, capture: Path, output: Path, force: bool) -> None:
    """Write an export of CAPTURE, a .nsys-rep or a .sqlite export, that is fit to share.

    It holds no environment, host, user, home or working folder, no other processes, and nothing the program printed.
    It has the same times, sizes and counts, and nsys's own reports read it too. Texts that the program itself put into
    ranges stay, but for the words above: look at them before you share the file.

    \b
      nsyswrap redact capture.nsys-rep -o shared.sqlite
      nsyswrap redact reports/base/capture.sqlite -o shared.sqlite --force
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    from nsyswrap.db import redact as redaction  # noqa: PLC0415 - heavy; loaded when an export is read

    check_not_read(output, capture)
    with export_of(capture) as export:
        done = redaction.redact(export, output, force=force)
    click.echo(f"wrote {printable(str(output))}: {sum(done.kept.values()):,} rows of {len(done.kept)} tables", err=True)
    rows, tables = sum(done.left_out.values()), len(done.left_out)
    click.echo(f"left out: {rows:,} rows of {tables} tables, {done.texts_left_out:,} texts", err=True)
    click.echo(f"cleaned: {done.texts_changed:,} of {done.texts_kept:,} texts that were kept", err=True)
