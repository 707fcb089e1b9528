"""Texts of a capture without secrets, home folders and users.

nsys writes the whole environment, the working folder, the host and the user into each capture. Every text of a capture
passes through here before it is shown.
"""

import re

_SECRET = re.compile(
    r"TOKEN(?!IZ)|SECRET|PASSW|PASSPHRASE|CREDENTIAL|PRIVATE|API_?KEY|ACCESS_?KEY|AUTH(?!OR)|SIGNING|COOKIE|SESSION_?KEY"
    r"|(?:^|_)(?:KEY|PAT|PWD_HASH|DSN)$|DATABASE_URL|CONNECTION_STRING",
    re.IGNORECASE,
)
_HARMLESS = frozenset({"XAUTHORITY", "SSH_AUTH_SOCK"})
# A number of tokens that a model reads or writes, not a secret.
_TOKEN_COUNT = re.compile(r"^_*(?:MAX|MIN|NUM|N)_(?:\w+_)?TOKENS?$", re.IGNORECASE)
# A name that ends like this holds a path, such as a folder of tokenizers or a file with a key.
_PLACE = re.compile(r"_(?:DIRS?|DIRECTORY|PATHS?|FILES?|FILENAME|HOME|FOLDER)$", re.IGNORECASE)
_HOME = re.compile(r"(?<![\w.])/(?:home|Users|mnt/home|export/home)/[^/\s:;,'\"]+|(?<![\w.])/root(?=/|$)")
_OPTION = re.compile(r"^(--?[\w-]+)(=)(.+)$", re.DOTALL)
_ASSIGNMENT = re.compile(r"^([A-Za-z_]\w*)=(.+)$", re.DOTALL)
_URL_LOGIN = re.compile(r"(\w+://)[^/@\s]+@")

WITHHELD = "***"


def looks_secret(name: str) -> bool:
    """Return whether the name of a variable or an option suggests that its value is a secret."""
    plain = name.replace("-", "_")
    if plain.upper() in _HARMLESS or _TOKEN_COUNT.match(plain) or _PLACE.search(plain):
        return False
    return _SECRET.search(plain) is not None


def neutral(text: str) -> str:
    """Return the text with home folders written as ``~`` and without logins in addresses."""
    if "/" not in text:
        return text
    return _URL_LOGIN.sub(rf"\1{WITHHELD}@", _HOME.sub("~", text))


def neutral_command(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command without home folders and without the values of options and variables that look secret."""
    shown: list[str] = []
    hide_next = False
    for word in words:
        assigned = _OPTION.match(word) or _ASSIGNMENT.match(word)
        name = assigned.group(1) if assigned else word
        if hide_next and not word.startswith("-"):
            shown.append(WITHHELD)
        elif assigned and looks_secret(name):
            shown.append(f"{name}={WITHHELD}")
        else:
            shown.append(neutral(word))
        hide_next = word.startswith("-") and not assigned and looks_secret(word)
    return tuple(shown)
