"""The program in a command, and its arguments: what a run is, whenever and wherever it is started."""

import re
import shlex
from collections.abc import Sequence

_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_MODULE = "-m"
_LAUNCHERS = ("torch.distributed", "accelerate.", "deepspeed.")
# Options whose value differs from run to run of the same work: seeds, numbers and names of runs, places of results.
_OF_A_RUN = re.compile(
    r"(?:\w+[._-])*(?:seed|(?:run|job|trial)(?:[._-]?(?:id|name|number))?|(?:out|output|log|save|results?|checkpoints?)"
    r"(?:[._-]?(?:dir|path|folder|file))?|logdir|port)"
)
# Temporary folders have another name in each run. A file in them keeps its name, unless it is temporary itself.
_TEMPORARY = re.compile(
    r"(?<![\w.])/(?:tmp|var/tmp|dev/shm|private/var/folders|run/user/\d+)/(?:[^\s=:,]*/)?"
    r"(?:(?=(?!tmp)[^\s=:,/]+\.[A-Za-z])|[^\s=:,/]*)"
)
ANY = "*"
"""What stands for a value that differs from run to run."""


def working_words(command: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command that say what it does: values that differ from run to run are ``*``.

    These are the values of options such as ``--seed``, ``--run-name`` and ``--output-dir``, and temporary paths.
    """
    found: list[str] = []
    of_a_run = False
    for word in command:
        name, equals, _ = word.partition("=")
        is_option = _OF_A_RUN.fullmatch(name.lstrip("-+").lower()) is not None and (bool(equals) or word[:1] == "-")
        if of_a_run and not word.startswith("-"):
            found.append(ANY)
        elif is_option and equals:
            found.append(f"{name}={ANY}")
        else:
            found.append(_TEMPORARY.sub(lambda path: ANY + "/" * path[0].endswith("/"), word))
        of_a_run = is_option and not equals
    return tuple(found)


def program_and_arguments(command: Sequence[str]) -> tuple[str, str]:
    """Return the program of a command, and all its other words as a shell writes them.

    The program is the first word that names a Python file, so that it is the script also behind a launcher; else the
    module after ``python -m``, else the first word. The interpreter is left out, so ``python3.12 train.py`` and
    ``/opt/venv/bin/python train.py`` are one program.
    """
    words = list(command)
    if not words:
        return "", ""
    words[0] = words[0].rpartition("/")[2]
    is_python = _PYTHON.fullmatch(words[0]) is not None
    rest = words[1:] if is_python else words
    place = next((at for at, word in enumerate(rest) if word.endswith(".py") and not word.startswith("-")), None)
    modules = [at + 1 for at, word in enumerate(rest[:-1]) if word == _MODULE]
    module = next((at for at in modules if not rest[at].startswith(_LAUNCHERS)), None)
    if place is None and is_python and module is not None:
        return rest[module], shlex.join([*rest[: module - 1], *rest[module + 1 :]])
    if place is None:
        return words[0], shlex.join(words[1:])
    return rest[place].removeprefix("./"), shlex.join([*rest[:place], *rest[place + 1 :]])
