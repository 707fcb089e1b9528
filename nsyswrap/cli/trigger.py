"""`nsyswrap trigger`: record steps of a program that runs already."""

from pathlib import Path

import click


@click.command()
@click.option("--steps", type=click.IntRange(min=1), metavar="N", help="How many steps.  [default: up to 100 or 10 s]")
@click.argument("folder", type=click.Path(path_type=Path), metavar="FOLDER")
def trigger(folder: Path, steps: int | None) -> None:
    """Record steps of a program that runs, and wait until they are recorded.

    FOLDER is that of a run which `nsyswrap profile --steps later` has started. nsys writes its captures when the
    program ends. The first one gets a report; the others are kept beside it as capture.2.nsys-rep and so on.

    \b
      nsyswrap trigger reports/train-20260101-120000
      nsyswrap trigger reports/train-20260101-120000 --steps 50
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    from nsyswrap.capture.trigger import trigger as record  # noqa: PLC0415 - so that --help stays fast

    for found in record(folder, "" if steps is None else str(steps)):
        click.echo(f"nsyswrap: recorded steps {found['first']} to {found['last']}", err=True)
