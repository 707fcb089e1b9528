"""The base folders of the user, such as the one for files that can be made again."""

import os
from collections.abc import Mapping
from pathlib import Path


def user_folder(environ: Mapping[str, str], variable: str, below_home: str) -> Path:
    """Return a base folder of the user: that of a variable, or one below the home folder.

    A user without a home folder, as in some containers, has ``/`` as one, where nothing can be written.

    Source: XDG Base Directory Specification; it ignores paths that are not absolute.
    """
    named = Path(environ.get(variable, ""))
    # Path.home() raises where there is no home folder.
    home = Path(environ.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111
    return named if named.is_absolute() else (home if home.is_absolute() else Path("/")) / below_home
