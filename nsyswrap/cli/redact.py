"""`nsyswrap redact`: write an export that is safe to share."""

from collections.abc import Mapping
from pathlib import Path

import click

from nsyswrap.base import units
from nsyswrap.cli.inputs import capture_argument, sqlite_export
from nsyswrap.cli.output import check_not_input, force_option
from nsyswrap.cli.terminal import printable


@click.command()
@capture_argument
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, metavar="FILE.sqlite", help="The export to write."
)
@force_option()
def redact(*, capture: Path, output: Path, force: bool) -> None:
    """Write an export of CAPTURE, a .nsys-rep or a .sqlite export, that is safe to share.

    It leaves out the environment, host name, user name, home and working folders, other processes, and the program's
    output. Times, sizes and counts stay the same, and nsys's own reports can read it. It also holds what `profile`
    measured beside the capture: the profiler's own cost, rates of copies, alternatives, and the X-ray step. NVTX range
    texts of the program stay, with the names above removed: check them before you share the file.

    \b
      nsyswrap redact capture.nsys-rep -o shared.sqlite
      nsyswrap redact reports/base/capture.sqlite -o shared.sqlite --force
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    from nsyswrap.capture.recorded_run import shared_record  # noqa: PLC0415 - loaded when an export is read
    from nsyswrap.capture_file import shared_xray  # noqa: PLC0415
    from nsyswrap.trace import redact as redaction  # noqa: PLC0415

    check_not_input(output, capture)
    with sqlite_export(capture) as export:
        done = redaction.redact(
            export, output, force=force, more=lambda cleaner: shared_record(capture) | shared_xray(capture, cleaner)
        )
    click.echo(f"wrote {printable(str(output))}: {_rows_of(done.kept)}", err=True)
    click.echo(f"left out: {_rows_of(done.left_out)}, {units.counted(done.texts_left_out, 'text')}", err=True)
    click.echo(f"changed: {done.texts_changed:,} of the {done.texts_kept:,} texts that were kept", err=True)


def _rows_of(tables: Mapping[str, int]) -> str:
    return f"{units.counted(sum(tables.values()), 'row')} of {units.counted(len(tables), 'table')}"
