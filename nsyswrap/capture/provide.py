"""See to it that there is an nsys that works: the one that is here, or one that is fetched."""

import os
from collections.abc import Callable
from pathlib import Path

from nsyswrap.capture.install import install
from nsyswrap.capture.locate import VARIABLE, Nsys, find_nsys, installed_folder, is_whole, nsys_at
from nsyswrap.errors import NsysNotFoundError, NsyswrapError


def provide_nsys(tell: Callable[[str], None], *, force: bool = False) -> Nsys:
    """Find nsys, or fetch it where there is none or where its importer lacks libraries.

    Args:
        tell: Called with each line that the user should see.
        force: Fetch it in any case.

    Returns:
        The nsys that was found, or the one that was fetched.

    Raises:
        NsyswrapError: ``NSYSWRAP_NSYS`` is wrong, or nsys cannot be fetched.
    """
    if not force:
        try:
            nsys = find_nsys()
        except NsysNotFoundError as error:
            if os.environ.get(VARIABLE):
                raise NsyswrapError(error.message, hint=error.hint) from error
        else:
            tell(f"nsys {nsys.version_text} is here already: {nsys.path} ({nsys.source})")
            if is_whole(nsys) or os.environ.get(VARIABLE):
                return nsys
            tell("It could not write a report, as its importer lacks libraries; another is fetched")
    return _fetched(install(installed_folder(), tell))


def _fetched(path: Path) -> Nsys:
    nsys = nsys_at(path, "nsyswrap setup")
    if nsys is None:
        raise NsyswrapError(f"{path} was fetched and does not answer", hint="Run 'nsyswrap setup --force'")
    return nsys
