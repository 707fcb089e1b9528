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
    show_page(page_of(result) if result else newest_page(Path("reports")))


def page_of(result: Path) -> Path:
    """Return the page of a result.

    Raises:
        UsageError: There is none.
    """
    page = result / PAGE_NAME if result.is_dir() else result
    if not page.is_file():
        raise UsageError(f"there is no {page}", hint="give a folder that 'nsyswrap profile' wrote, or an HTML page")
    return page


def newest_page(folder: Path) -> Path:
    """Return the page in a folder of results that was written last.

    Raises:
        UsageError: There is none.
    """
    pages = folder.glob(f"*/{PAGE_NAME}")
    newest = max(pages, key=lambda page: page.stat().st_mtime, default=None)
    if newest is None:
        raise UsageError(f"{folder} holds no result", hint="give the folder of one: nsyswrap open FOLDER")
    return newest


def show_page(page: Path) -> None:
    """Open a page in the browser; where there is none, say where the page is."""
    if not webbrowser.open(page.resolve().as_uri()):
        click.echo(f"nsyswrap: no browser could be started; the page is {page.resolve()}", err=True)
