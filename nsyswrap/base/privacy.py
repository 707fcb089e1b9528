"""Texts of a capture without secrets, home folders and users.

nsys writes the whole environment, the working folder, the host and the user into each capture. Every text of a capture
passes through here before it is shown.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import quote, quote_plus, urlsplit

from nsyswrap.base.named_secrets import (
    IN_COMMANDS,
    WITHHELD,
    is_secret_variable,
    is_value_of,
    looks_secret,
    without_glued_passwords,
    without_sure_secrets,
    without_values,
)
from nsyswrap.base.token_forms import without_tokens

_HOME = re.compile(r"(?<![\w.])/(?:home|Users|mnt/home|export/home)/[^/\s:;,'\"]+|(?<![\w.])/root(?=/|$)")
# A home of Windows, also as Linux sees it there, on a drive or a server. The name of a user may hold blanks, which is
# plain only where a folder follows. A backslash is written twice in code.
_USER = r"[^\\/\s:*?\"<>|;,']+"
_WINDOWS_HOME = re.compile(
    r"(?:(?<![A-Za-z0-9])[A-Z]:|(?<![\w.])/(?:mnt/|cygdrive/)?[A-Z](?=/)|\\\\[\w.$-]+)"
    rf"(?:\\{{1,2}}|/)(?:Users|Documents and Settings)(?:\\{{1,2}}|/)(?:{_USER}(?: {_USER}){{0,3}}(?=[\\/])|{_USER})",
    re.IGNORECASE,
)
_URL_LOGIN = re.compile(r"(?<!\w)(\w+://)[^/?#\s]+@")
_URL_FIELD = re.compile(r"([?&;])([\w.-]+)=([^&;#\s'\"]+)")
_BEARER = re.compile(r"\b(bearer|basic)\s+[\w.+/=~-]{6,}", re.IGNORECASE)

# How a secret is given as a whole word of a command: as the value of an option or a variable, or as a header.
_ASSIGNMENT = re.compile(r"(--?[\w.-]+|[+~]*[A-Za-z_][\w.-]*)=(?=.)", re.DOTALL)
_HEADER = re.compile(r"([\w-]+):\s*(.+)$", re.DOTALL)
_LOGIN = re.compile(r"(?<![^\s=,'\"])[^\s/:@='\",]+:[^\s/@'\"]{1,200}@(?=[\w\[])")

# Variables that hold a user or a host, and those that hold a folder.
NAMES = frozenset({"HOSTNAME", "HOST", "USER", "LOGNAME", "USERNAME", "SUDO_USER"})
HOMES = frozenset({"HOME"})
FOLDERS = HOMES | {"PWD", "OLDPWD", "VIRTUAL_ENV", "CONDA_PREFIX", "SLURM_SUBMIT_DIR"}
_SHARED_FOLDERS = frozenset({"/", "/tmp", "/opt", "/srv", "/usr", "/var", "/mnt", "/data", "/home", "/workspace"})  # noqa: S108
# Names that do not identify a person, and words that the analysis looks for in the texts of ranges and threads. A user
# who is called like one of them must not change a number.
_HARMLESS_NAMES = frozenset({
    *("root", "user", "users", "admin", "guest", "nobody", "docker", "container", "ubuntu"),
    *("debian", "runner", "localhost", "local", "vm", "home", "default", "none", "true"),
    *("false", "main", "test", "python", "enabled", "disabled", "get", "load", "loading"),
    *("next", "read", "reading", "wait", "waiting", "for", "the", "train", "training"),
    *("data", "input", "inputs", "batch", "to", "device", "gpu", "cuda", "loader"),
    *("fetch", "fetching", "time", "pipeline", "enumerate", "dataloader", "copy", "copies", "move"),
    *("send", "transfer", "transfers", "put", "host", "memcpy", "model", "forward", "fwd"),
    *("prop", "propagation", "pass", "and", "plus", "loss", "compute", "inference", "backward"),
    *("backwards", "bwd", "back", "run", "optimizer", "optimiser", "optim", "opt", "step"),
    *("steps", "update", "zero", "grad", "weight", "weights", "param", "params", "parameter"),
    *("parameters", "iter", "iteration", "epoch", "warmup", "warm", "nccl", "garbage", "collection"),
    *("tokenizer", "torch", "save", "safetensors", "file", "at", "pt", "pin", "prefetch"),
    *("worker", "process", "cublas", "cublaslt", "cudnn", "cusolver", "cusparse", "cufft", "cccl"),
    *("thrust", "cub", "tensorrt", "dali", "libcudf", "nvshmem", "ucx", "gil", "trace"),
    *("periodic", "sampling", "backtrace", "nsyswrap"),
})  # fmt: skip
# Shorter secrets may occur by chance in the name of a kernel, and changing that name would change what is counted.
_SECRET_LETTERS = 6
_SECRET_IN_SYMBOL_LETTERS = 8
_SECRET_DIGITS = 8
_NO_LETTERS = re.compile(r"[\W_\d]+")
_LIBRARY_PATH = re.compile(r"(?:^|/)((?:site-packages|dist-packages|lib/python\d[\d.]*t?)/.*)", re.DOTALL)
# A folder's name may hold spaces inside quotes. Outside quotes it ends at the first space.
_FOLDER = r"(?:[^\s/'\",;:()]+/)"
_ABSOLUTE_FOLDERS = re.compile(rf"(?<=['\"])/[^'\"\n]*/|(?<![\w.~])(?:~/{_FOLDER}*|/{_FOLDER}+)")


def neutral(text: str) -> str:
    """Return the text with home folders written as ``~``, and without logins in addresses and well-known tokens."""
    if "/" in text or "\\" in text:
        text = _HOME.sub("~", _WINDOWS_HOME.sub("~", text))
        text = _URL_LOGIN.sub(rf"\1{WITHHELD}@", text)
    if "=" in text:
        text = _URL_FIELD.sub(_without_secret, text)
    return _BEARER.sub(rf"\1 {WITHHELD}", without_tokens(text, WITHHELD))


def _without_secret(found: re.Match[str]) -> str:
    """Return a pair of a name, what separates it, and a value, without the value if the name looks secret."""
    first, second, value = found.groups()
    name = first if first.strip("?&;") else second
    last = name.rpartition(".")[2]
    return f"{first}{second}{'=' if name is second else ''}{WITHHELD if looks_secret(last) else value}"


# 48 bits: two of a million machines share a number in one of 500 cases.
_HOST_DIGITS = 12


def neutral_host(identity: str) -> str:
    """Return the number of a machine, 12 hexadecimal digits: the same for the same id or name; empty for none.

    The id of a machine cannot be found from it, as machine-id(5) asks of programs that store it. Who knows a host's
    name can compute that of the name.

    Args:
        identity: The id of the machine, or the name of the host where the id is not known.

    Source:
        https://www.freedesktop.org/software/systemd/man/latest/machine-id.html
    """
    if not identity:
        return ""
    return hmac.new(identity.encode("utf-8", "replace"), b"nsyswrap", hashlib.sha256).hexdigest()[:_HOST_DIGITS]


def neutral_command(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command without home folders and without the values of options and variables that look secret."""
    shown: list[str] = []
    before = ""
    for word in without_glued_passwords(words):
        shown.append(WITHHELD if is_value_of(before, word) else _neutral_word(word))
        before = word
    return tuple(shown)


def _neutral_word(word: str) -> str:
    """Return a word of a command without secrets. It may be a whole command line or code itself."""
    at = 0
    while assigned := _ASSIGNMENT.match(word, at):
        name, value, at = assigned[1], word[assigned.end() :], assigned.end()
        if is_value_of(name, value) if name.startswith("-") else is_secret_variable(name, value):
            return neutral(word[:at] + WITHHELD)
    header = _HEADER.match(word, at)
    if header and is_secret_variable(header[1], header[2]):
        return neutral(f"{word[:at]}{header[1]}: {WITHHELD}")
    rest = word[at:]
    for place in IN_COMMANDS:
        rest = without_values(rest, place)
    return _LOGIN.sub(f"{WITHHELD}@", neutral(word[:at] + rest))


@dataclass(frozen=True, slots=True)
class Identity:
    """The words that a cleaned text must not hold.

    Attributes:
        folders: Home, working and similar folders, whole paths.
        names: Hosts and users.
        secrets: Values of variables whose names look like secrets, and other forms of them.
    """

    folders: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()

    def cleaner(self) -> "Cleaner":
        """Return a cleaner for these words."""
        return Cleaner(self)


class Cleaner:
    """Removes the words of an identity from texts."""

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
        return _replaced(self._names, WITHHELD, neutral(without_sure_secrets(text, _is_distinctive)))

    def file(self, path: str) -> str:
        """Clean the path of a source file: keep the part from its package's folder on, else only the file's name."""
        found = _LIBRARY_PATH.search(path)
        return self.text(found.group(1) if found else path.rpartition("/")[2])

    def message(self, text: str) -> str:
        """Clean a message of nsys, and shorten paths to the file's name."""
        return self.text(_ABSOLUTE_FOLDERS.sub("", neutral(_replaced(self._folders, "~", text))))

    def command(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """Clean the words of a command."""
        return tuple(map(self.text, neutral_command(words)))


def distinct(texts: Iterable[str], clean: Callable[[str], str]) -> dict[str, str]:
    """Return the cleaned form of each text. Different texts stay different: cleaning must not merge what is counted."""
    found = {text: clean(text) for text in sorted(set(texts))}
    taken = {text for text, cleaned in found.items() if text == cleaned}
    for text, cleaned in found.items():
        if text != cleaned:
            found[text] = _unused(cleaned, taken)
            taken.add(found[text])
    return found


class DistinctCleaner:
    """Cleans texts one by one as they come; different texts stay different.

    Args:
        clean: A way of a ``Cleaner``.
    """

    def __init__(self, clean: Callable[[str], str]) -> None:
        self._clean = clean
        self._found: dict[str, str] = {}
        self._taken: set[str] = set()

    def __call__(self, text: str) -> str:
        """Return the cleaned form of a text, always the same one."""
        if text not in self._found:
            self._found[text] = _unused(self._clean(text), self._taken)
            self._taken.add(self._found[text])
        return self._found[text]


def _unused(text: str, taken: set[str]) -> str:
    """Return a text that is not taken, by a number at what replaces a secret or a folder."""
    mark = next((each for each in (WITHHELD, "~") if each in text), "")
    number, found = 1, text
    while found in taken:
        number += 1
        found = text.replace(mark, f"{mark}{number}", 1) if mark else f"{text} ({number})"
    return found


def identity_from(
    variables: Iterable[tuple[str, str]],
    names: Iterable[str] = (),
    folders: Iterable[str] = (),
    kept: frozenset[str] = FOLDERS,
) -> Identity:
    """Return the identifying words in environments."""
    all_names, all_folders, secrets = set(names), set(folders), set()
    for name, value in variables:
        if name in NAMES:
            all_names.add(value)
        elif name in kept:
            all_folders.add(value)
        elif looks_secret(name):
            secrets |= _forms(value)
    all_folders = {folder.rstrip("/") for folder in all_folders if folder.startswith("/")} - _SHARED_FOLDERS - {""}
    all_names |= {host.partition(".")[0] for host in all_names}
    return Identity(
        _longest_first(all_folders),
        _longest_first(each for each in all_names if len(each) > 1 and not each.isdigit() and not _is_ordinary(each)),
        _longest_first(filter(_is_distinctive, secrets)),
    )


def _forms(value: str) -> set[str]:
    """Return a secret, the login in it if it is an address, and both as base64 and as part of an address."""
    found = {value}
    try:
        address = urlsplit(value)
        if address.password:
            found |= {address.password, f"{address.username}:{address.password}"}
        if address.scheme and len(address.path) > 1:
            # A webhook is a secret without its scheme, too.
            found.add(value.partition("://")[2])
    except ValueError:
        pass
    for each in filter(_is_distinctive, sorted(found)):
        raw = each.encode("utf-8", "surrogateescape")
        written = (base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode())
        found |= {*written, *(text.rstrip("=") for text in written)}
        found |= {quote(raw, safe=""), quote(raw), quote_plus(raw)}
    return found


def _is_distinctive(secret: str) -> bool:
    """Return whether a value is long enough, and no word or number that a text may hold by chance."""
    least = _SECRET_DIGITS if secret.isdigit() else _SECRET_LETTERS
    return len(secret) >= least and not _is_ordinary(secret)


def _is_ordinary(name: str) -> bool:
    """Return whether a name consists of ordinary words, digits and punctuation."""
    return all(part in _HARMLESS_NAMES for part in _NO_LETTERS.split(name.lower()) if part) and not name.isdigit()


def _longest_first(words: Iterable[str]) -> tuple[str, ...]:
    """Sort words so that a longer word is tried before a word that it begins with."""
    return tuple(sorted(words, key=lambda word: (-len(word), word)))


def _any_of(words: Iterable[str], before: str, after: str, flags: int = 0) -> re.Pattern[str] | None:
    listed = "|".join(map(re.escape, words))
    return re.compile(f"{before}(?:{listed}){after}", flags) if listed else None


def _replaced(pattern: re.Pattern[str] | None, by: str, text: str) -> str:
    return text if pattern is None else pattern.sub(by, text)


ANYBODY = Cleaner(Identity())
"""Removes what is private whoever the user is: home folders, logins in addresses, well-known tokens."""
