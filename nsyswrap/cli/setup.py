"""`nsyswrap setup`: install nsys where it is missing, without root."""

import click

from nsyswrap.base.errors import NsyswrapError
from nsyswrap.capture.doctor import Status, self_test
from nsyswrap.capture.install import ensure_nsys


@click.command()
@click.option("--force", is_flag=True, help="Install nsys even if there is one.")
def setup(*, force: bool) -> None:
    """Install nsys where it is missing, without root, and test it.

    The packages come from your distribution (Debian non-free, Ubuntu multiverse) and are unpacked into your own data
    folder. nsys is NVIDIA software under NVIDIA's licence.

    \b
      nsyswrap setup
      nsyswrap setup --force
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    check = self_test(ensure_nsys(_print, force=force))
    _print(f"Self-test: {check.detail}")
    if check.status is Status.FAILED:
        raise NsyswrapError(f"nsys is installed, but its self-test failed: {check.detail}", hint=check.remedy)


def _print(line: str) -> None:
    click.echo(line, err=True)
