"""The program in a command, and its arguments."""

import re
import shlex
from collections.abc import Sequence

_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_MODULE = "-m"


def program_and_arguments(command: Sequence[str]) -> tuple[str, str]:
    """Return the program of a command, and all its other words as a shell writes them.

    The program is the first word that names a Python file, so that it is the script also behind a launcher; else the
    module after ``python -m``, else the first word. The interpreter is left out, so ``python3.12 train.py`` and
    ``/opt/venv/bin/python train.py`` are one program.

    Args:
        command: The words; empty for a command that is unknown.
    """
    words = list(command)
    if not words:
        return "", ""
    words[0] = words[0].rpartition("/")[2]
    is_python = _PYTHON.fullmatch(words[0]) is not None
    rest = words[1:] if is_python else words
    place = next((at for at, word in enumerate(rest) if word.endswith(".py") and not word.startswith("-")), None)
    if place is None and is_python and _MODULE in rest[:-1]:
        place = rest.index(_MODULE) + 1
        return rest[place], shlex.join([*rest[: place - 1], *rest[place + 1 :]])
    if place is None:
        return words[0], shlex.join(words[1:])
    return rest[place].removeprefix("./"), shlex.join([*rest[:place], *rest[place + 1 :]])
