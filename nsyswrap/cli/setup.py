"""`nsyswrap setup`: get nsys where it is missing, without root."""

import click

from nsyswrap.capture.install import provide_nsys
from nsyswrap.capture.self_test import Check, Status, self_test
from nsyswrap.errors import NsyswrapError


@click.command()
@click.option("--force", is_flag=True, help="Fetch nsys though one is here already.")
def setup(*, force: bool) -> None:
    """Get nsys where it is missing, without root, and test it.

    It comes from the packages of the distribution (Debian non-free, Ubuntu multiverse), into a folder of your own.
    nsys is software of NVIDIA, under NVIDIA's licence.

    \b
      nsyswrap setup
      nsyswrap setup --force
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    nsys = provide_nsys(_tell, force=force)
    check = self_test(nsys)
    _tell(f"Self-test: {check.detail}")
    require(check)


def require(check: Check) -> None:
    """Pass a check that did not fail.

    Raises:
        NsyswrapError: It failed.
    """
    if check.status is Status.FAILED:
        raise NsyswrapError(f"nsys is here and the self-test failed: {check.detail}", hint=check.remedy)


def _tell(line: str) -> None:
    click.echo(line, err=True)
