"""`nsyswrap open`: show the page of a result in the browser."""

import webbrowser
from pathlib import Path

import click

from nsyswrap.base.errors import UsageError

PAGE_NAME = "report.html"


@click.command()
@click.argument("result", required=False, type=click.Path(path_type=Path))
def open(*, result: Path | None) -> None:  # noqa: A001 - the name of the command
    """Open the page of RESULT, a folder that `profile` wrote or an HTML page, in the browser.

    Without RESULT it is the newest page in the folder `reports`.

    \b
      nsyswrap open
      nsyswrap open reports/train-20260102-030405
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    if result is None:
        folder = Path("reports")
        page = max(folder.glob(f"*/{PAGE_NAME}"), key=lambda each: each.stat().st_mtime, default=None)
        if page is None:
            raise UsageError(f"{folder} holds no result", hint="give the folder of one: nsyswrap open FOLDER")
    else:
        page = result / PAGE_NAME if result.is_dir() else result
        if not page.is_file():
            raise UsageError(f"there is no {page}", hint="give a folder that 'nsyswrap profile' wrote, or an HTML page")
    show_page(page)


def show_page(page: Path) -> None:
    """Open a page in the browser; where there is none, say where the page is."""
    if not webbrowser.open(page.resolve().as_uri()):
        click.echo(f"nsyswrap: no browser could be started; the page is {page.resolve()}", err=True)
