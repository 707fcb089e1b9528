"""The words in an export that name a machine, a user, a folder or a secret, and texts cleaned of them."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nsyswrap.db import queries, schema
from nsyswrap.db.connection import Export
from nsyswrap.privacy import WITHHELD, looks_secret, neutral

_NAMES = frozenset({"HOSTNAME", "HOST", "USER", "LOGNAME", "USERNAME", "SUDO_USER"})
_FOLDERS = frozenset({"HOME", "PWD", "OLDPWD", "VIRTUAL_ENV", "CONDA_PREFIX", "SLURM_SUBMIT_DIR"})
# Names that do not identify a person, and words that the analysis looks for in the texts of ranges.
_HARMLESS_NAMES = frozenset({
    *("root", "user", "users", "admin", "guest", "nobody", "docker", "container", "ubuntu", "debian", "runner"),
    *("localhost", "local", "vm", "home", "default", "none", "true", "false", "main", "test", "python", "python3"),
    *("batch", "data", "copy", "forward", "backward", "optimizer", "step", "steps", "epoch", "train", "training"),
    *("iteration", "loader", "worker", "warmup", "warm", "cuda", "nccl"),
})  # fmt: skip
_SHARED_FOLDERS = frozenset({"/", "/tmp", "/opt", "/srv", "/usr", "/var", "/mnt", "/data", "/home", "/workspace"})  # noqa: S108
# Shorter secrets may occur by chance in the name of a kernel, and changing that name would change what is counted.
_SECRET_LETTERS = 6
_SECRET_IN_SYMBOL_LETTERS = 8

_VARIABLE = re.compile(r"([A-Za-z_]\w*)=(.*)", re.ASCII | re.DOTALL)
_LIBRARY_PATH = re.compile(r"(?:^|/)((?:site-packages|dist-packages|lib/python\d[\d.]*t?)/.*)", re.DOTALL)
# A folder's name may hold spaces inside quotes. Outside quotes it ends at the first space.
_FOLDER = r"(?:[^\s/'\",;:()]+/)"
_ABSOLUTE_FOLDERS = re.compile(rf"(?<=['\"])/[^'\"\n]*/|(?<![\w.~])(?:~/{_FOLDER}*|/{_FOLDER}+)")


@dataclass(frozen=True, slots=True)
class Identity:
    """The words that a cleaned text must not hold.

    Attributes:
        folders: Home, working and similar folders, whole paths.
        names: Hosts and users.
        secrets: Values of variables whose names look like secrets.
    """

    folders: tuple[str, ...]
    names: tuple[str, ...]
    secrets: tuple[str, ...]

    def cleaner(self) -> "Cleaner":
        """Return a cleaner for these words."""
        return Cleaner(self)


class Cleaner:
    """Removes the words of an identity from texts.

    Args:
        identity: The words.
    """

    def __init__(self, identity: Identity) -> None:
        firm = [s for s in identity.secrets if len(s) >= _SECRET_IN_SYMBOL_LETTERS and not s.isalpha()]
        self._folders = _any_of(identity.folders, r"(?<![\w.])", r"(?![\w.-])")
        self._secrets = _any_of(identity.secrets, "", "")
        self._firm_secrets = _any_of(firm, "", "")
        self._names = _any_of(identity.names, r"(?<![A-Za-z0-9])", r"(?![A-Za-z0-9])", re.IGNORECASE)

    def symbol(self, text: str) -> str:
        """Clean the name of a function of folders and secrets. Names stay: in a function's name they are code."""
        return neutral(_replaced(self._folders, "~", _replaced(self._firm_secrets, WITHHELD, text)))

    def text(self, text: str) -> str:
        """Clean a text that the program chose: of a range, a thread, or a word of a command."""
        text = _replaced(self._folders, "~", _replaced(self._secrets, WITHHELD, text))
        return _replaced(self._names, WITHHELD, neutral(text))

    def file(self, path: str) -> str:
        """Clean the path of a source file: keep the part from its package's folder on, else only the file's name."""
        found = _LIBRARY_PATH.search(path)
        return self.text(found.group(1) if found else path.rpartition("/")[2])

    def message(self, text: str) -> str:
        """Clean a message of nsys, and shorten paths to the file's name."""
        return self.text(_ABSOLUTE_FOLDERS.sub("", neutral(_replaced(self._folders, "~", text))))


def identity_of(export: Export) -> Identity:
    """Return the identifying words in an export's description."""
    names: set[str] = set()
    folders: set[str] = set()
    secrets: set[str] = set()
    for name, value in _described(export):
        (names if name in _NAMES else folders).add(value)
    for name, value in variables(export):
        if name in _NAMES:
            names.add(value)
        elif name in _FOLDERS:
            folders.add(value)
        elif looks_secret(name):
            secrets.add(value)
    folders = {folder.rstrip("/") for folder in folders if folder.startswith("/")} - _SHARED_FOLDERS - {""}
    names |= {host.partition(".")[0] for host in names}
    return Identity(
        _longest_first(folders),
        _longest_first(n for n in names if len(n) > 1 and n.lower() not in _HARMLESS_NAMES),
        _longest_first(s for s in secrets if len(s) >= _SECRET_LETTERS and s.lower() not in _HARMLESS_NAMES),
    )


def variables(export: Export) -> Iterator[tuple[str, str]]:
    """Yield the name and value of every variable of every environment in the export."""
    for name, value in export.pairs(schema.SYSTEM):
        if name == schema.ENVIRONMENT_LINE:
            yield from _assignments(value.split(";"))
    for name, value in export.pairs(schema.CAPTURE_OPTIONS):
        if name.endswith(schema.ENVIRONMENT_OPTION):
            yield from (
                (variable, text.removeprefix('"').removesuffix('"')) for variable, text in _assignments([value])
            )
    if export.has(schema.STRINGS, "value"):
        for (block,) in export.rows(queries.texts_with_nul()):
            yield from _assignments(str(block).split("\x00"))


def _described(export: Export) -> Iterator[tuple[str, str]]:
    """Yield host, user and folders in the description, each under the name of the variable that would hold it."""
    for name, value in export.pairs(schema.SYSTEM):
        if name == "Hostname":
            yield "HOSTNAME", value
    for name, value in export.pairs(schema.CAPTURE_OPTIONS):
        if name.endswith(":USER_NAME"):
            yield "USER", value
        elif name.endswith(":WORKING_DIR"):
            yield "PWD", value
    for table in schema.EXPORT_OPTIONS:
        for name, value in export.pairs(table):
            if name in ("EXPORT_HOST", "EXPORT_USER"):
                yield name.removeprefix("EXPORT_"), value
            elif name.endswith("_PATH_ABS"):
                yield "PWD", value.rpartition("/")[0]


def _assignments(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    return ((found.group(1), found.group(2)) for word in words if (found := _VARIABLE.fullmatch(word)))


def _longest_first(words: Iterable[str]) -> tuple[str, ...]:
    """Sort words so that a longer word is tried before a word that it begins with."""
    return tuple(sorted(words, key=lambda word: (-len(word), word)))


def _any_of(words: Iterable[str], before: str, after: str, flags: int = 0) -> re.Pattern[str] | None:
    listed = "|".join(map(re.escape, words))
    return re.compile(f"{before}(?:{listed}){after}", flags) if listed else None


def _replaced(pattern: re.Pattern[str] | None, by: str, text: str) -> str:
    return text if pattern is None else pattern.sub(by, text)
