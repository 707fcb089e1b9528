"""Secrets that are known by the name before them: in the words of a command, in code, and in texts of a program.

::

    --token VALUE   -pVALUE   -u USER:VALUE        an option, with its value behind it or in the same word
    TOKEN=VALUE   env:TOKEN=VALUE   Pwd=VALUE;     a variable, or a part of a list of them
    {"token": "VALUE"}   token: VALUE              JSON, YAML and other code
    <token>VALUE</token>   name: TOKEN, value: VALUE
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

# Words in the names of secrets. "_" comes between the words of a name, so that "accountKey" is ACCOUNT_KEY.
_SECRET = re.compile(
    r"TOKEN(?!IZ)|SECRET|PASSW|PASSPHRASE|CREDENTIAL|PRIVATE|API_?KEY|ACCESS_?KEY|AUTH(?!OR(?!I[SZ]))|SIGNING|COOKIE"
    r"|SESSION_?KEY|WEBHOOK|BEARER|(?:^|_)JWT(?:_|$)|CONN(?:ECTION)?_?STR(?:ING)?$|.(?:_PWD|_PROXY)$"
    r"|(?:^|_)(?:KEYS?|PAT|PASS|PASSIN|PASSOUT|PSWD|PW|PWD_HASH|DSN|SAS|SIG|SIGNATURE|TOK|CREDS?|PSK|OTP)$"
    r"|(?:DB|DATABASE|REDIS|MONGO(?:DB)?|POSTGRES(?:QL)?|PG|MYSQL|AMQP|BROKER|INDEX)_UR[IL]$",
    re.IGNORECASE,
)
# In a text of the program "key=3" or "token: 7" is most likely a number of its own. These names leave no doubt.
_SURE = re.compile(
    r"PASSW(?:OR)?D|PASSPHRASE|(?:^|_)(?:PWD|SECRET)$|CREDENTIALS?$|SHARED_?ACCESS_?SIGNATURE$"
    r"|(?:API|ACCESS|ACCOUNT|PRIVATE|SECRET|SIGNING|SESSION)_?KEY$"
    r"|(?:ACCESS|API|AUTH|BEARER|HF|HUB|ID|REFRESH|SECRET|SESSION)_?TOKEN$",
    re.IGNORECASE,
)
# Each of these names holds one of these words: most texts have none, and are not searched any further.
_SURE_WORD = re.compile(r"PASS|PW|SECRET|CREDENTIAL|SIGNATURE|KEY|TOKEN", re.IGNORECASE)
_END_OF_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# In QUADD_INJECTION_PROXY nsys lists what it records.
_HARMLESS = frozenset({"XAUTHORITY", "SSH_AUTH_SOCK", "NO_PROXY", "QUADD_INJECTION_PROXY"})
# A number of tokens that a model reads or writes, not a secret.
_TOKEN_COUNT = re.compile(r"^_*(?:MAX|MIN|NUM|N)_(?:\w+_)?TOKENS?$", re.IGNORECASE)
# A name that ends like this holds a path, such as a folder of tokenizers or a file with a key.
_PLACE = re.compile(r"_(?:DIRS?|DIRECTORY|PATHS?|FILES?|FILENAME|HOME|FOLDER)$", re.IGNORECASE)
# PWD is the working folder in an environment, and a password where its value is no path.
_PATH = re.compile(r"['\"]?(?:[/~.$%]|[A-Za-z]:[\\/])")

# Options of one letter whose value many programs take as a password, or as USER:PASSWORD, and words before a password.
_PASSWORD_OPTIONS, _LOGIN_OPTIONS = frozenset({"-p", "-P", "-pw"}), frozenset({"-u", "-U", "--user", "--proxy-user"})
_BEFORE_PASSWORDS = frozenset({"password", "passwd", "passphrase", "requirepass", "masterauth", "identified by"})
_BEFORE_TOKENS, _TOKEN_LETTERS = "login", re.compile(r"[\w-]{20,}", re.ASCII)
# What may follow -p, -P, -u or -U in the same word and is no secret: ports and other numbers, up to three more options
# of one letter, and the rest of a long option such as -pthread.
_NUMBERS_OR_OPTIONS = re.compile(r"\d{1,5}(?:[.:/,x-]\d+)*|[A-Za-z]{1,3}")
_LONG_OPTIONS = frozenset({
    *("page", "pages", "pair", "parallel", "param", "parameter", "parameters", "params", "part", "partition", "parts"),
    *("pass", "passes", "passin", "passout", "passwd", "password", "patch", "path", "paths", "pattern", "pedantic"),
    *("perf", "period", "pickle", "pipe", "pipeline", "pix", "pixel", "place", "plan", "platform", "plot", "plugin"),
    *("plugins", "policy", "pool", "port", "ports", "position", "power", "precision", "prefix", "preset", "pretrained"),
    *("pretty", "preview", "print", "print0", "priority", "probe", "process", "processes", "procs", "profile"),
    *("profiler", "profiling", "progress", "project", "prompt", "protocol", "provider", "proxy", "prune", "pthread"),
    *("public", "publish", "pull", "push", "python"),
})  # fmt: skip

# A program that takes all behind -p in the same word as a password, the end of a command, or such a word. Source: the
# manuals of MySQL and MariaDB (--password[=password], -p[password]), of 7-Zip (-p{password}) and of RAR (-p[password]).
_GLUED_PASSWORD = re.compile(
    r"""(?:^|(?<=[\s/\\'"(;|&]))(?:(?:mysql|mariadb)[\w-]*|7z{1,2}[ar]?|(?:un)?rar)(?:\.exe)?(?=\s|$)"""
    r"""|(?P<end>[;|&\n](?=\s))|(?:^|(?<=\s))-p(?P<value>[^\s'";|&()]+)"""
)

# A value in quotes, which may be escaped, as a block of YAML, or without quotes. What separates or closes values ends
# one without quotes only where something else begins or ends there.
_VALUE = re.compile(
    r"""(?:\\+(["']).*?\\+\1|"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[|>][-+]?\s*\n\s*[^\n]+"""
    r"""|[^\s,;&})\]'"<]|,(?![\s'"{\[]|$|[A-Za-z_][\w.-]{0,60}\s*[=:])|[})\]](?![\s,;&})\]'"]|$)|<(?!/))+""",
    re.DOTALL,
)
# A header's value goes on to the end of its line or of the quotes around it.
_HEADERS, _HEADER_VALUE = (
    frozenset({"AUTHORIZATION", "PROXY_AUTHORIZATION", "COOKIE", "SET_COOKIE"}),
    re.compile(r"[^\n'\"]+"),
)
_FIRST_WORD = re.compile(r"[\\'\"]*([^\s\\'\",;&)\]}]{1,80})")
# What most likely is no secret, unless its name leaves no doubt: a small number, or yes or no.
_NO_SECRET = re.compile(r"(?:\d{1,5}|\d*\.\d+|true|false|none|null|yes|no|on|off)$", re.IGNORECASE)
_QUOTE = r"(?:\\*['\"])?"


class SecretSyntax(NamedTuple):
    """A way to write a secret.

    Attributes:
        before: What comes before the value, with the group ``name``.
        is_name: Returns whether a secret may follow what was found.
        is_secret: Returns whether a value is a secret, from its name and the value.
    """

    before: re.Pattern[str]
    is_name: Callable[[re.Match[str]], bool]
    is_secret: Callable[[str, str], bool]


def looks_secret(name: str) -> bool:
    """Return whether the name of a variable or an option suggests that its value is a secret."""
    plain = _words_of(name)
    if plain.upper() in _HARMLESS or _TOKEN_COUNT.match(plain) or _PLACE.search(plain):
        return False
    return _SECRET.search(plain) is not None


def is_surely_secret(name: str) -> bool:
    """Return whether the name of a value leaves no doubt that it is a secret, in whatever text."""
    return _SURE.search(_words_of(name)) is not None


def _words_of(name: str) -> str:
    return _END_OF_WORD.sub("_", name.replace("-", "_"))


def is_secret_variable(name: str, value: str) -> bool:
    """Return whether a value is a secret by the last part of its name, such as ``db.password``."""
    last = name.rpartition(".")[2]
    if last.upper() == "PWD":
        return not _PATH.match(value)
    return is_surely_secret(last) or (looks_secret(last) and not _NO_SECRET.match(value))


def is_value_of(option: str, word: str) -> bool:
    """Return whether a word is the secret value of the word before it, such as an option."""
    if option.lower() in _BEFORE_PASSWORDS:
        return True
    if option == _BEFORE_TOKENS:
        return _TOKEN_LETTERS.fullmatch(word) is not None
    if not option.startswith("-") or "=" in option or word.startswith("-"):
        return False
    if option in _LOGIN_OPTIONS:
        return ":" in word
    return option in _PASSWORD_OPTIONS or looks_secret(option)


def _may_be_pair(found: re.Match[str]) -> bool:
    """Return whether a pair may hold a secret.

    In a list a name is most likely a value itself, unless it leaves no doubt. Behind ``key=`` or ``name:`` comes the
    name of a secret, whose value follows.
    """
    name = found["name"]
    if found["listed"]:
        return is_surely_secret(name)
    value = _FIRST_WORD.match(found.string, found.end())
    if name.lower() == "name" or (name.lower() == "key" and value and is_surely_secret(value[1])):
        return False
    return is_secret_variable(name, value[0].strip("\\'\"") if value else "")


def _is_glued(option: str, value: str) -> bool:
    """Return whether a value without a blank before it is a secret: -pVALUE, or -uUSER:PASSWORD."""
    if _NUMBERS_OR_OPTIONS.fullmatch(value):
        return False
    if option in _LOGIN_OPTIONS:
        return ":" in value.strip(":")
    return re.split(r"[^a-z0-9]", f"{option}{value}"[1:].lower(), maxsplit=1)[0] not in _LONG_OPTIONS


def without_glued_passwords(words: Sequence[str]) -> list[str]:
    """Return a command without the passwords of programs for which all behind -p is one, however short it is.

    Elsewhere -pr may be two options, and -p8 a number. A word may be a whole command line.
    """
    takes_one = False

    def shown(found: re.Match[str]) -> str:
        nonlocal takes_one
        if found["value"]:
            return f"-p{WITHHELD}" if takes_one else found[0]
        takes_one = found["end"] is None
        return found[0]

    return [_GLUED_PASSWORD.sub(shown, word) for word in words]


def _always(*_: object) -> bool:
    return True


_PAIR = re.compile(
    rf"(?<![\w.-])(?P<name>[\w.-]+)(?:{_QUOTE}\]?\s*(?:=>|:=|==?|:(?!:))\s*"
    rf"|{_QUOTE}[,\s]+{_QUOTE}value{_QUOTE}\s*[=:]\s*|(?P<listed>['\"]\s*,\s*(?=['\"])))",
    re.IGNORECASE,
)
IN_COMMANDS = (
    SecretSyntax(_PAIR, _may_be_pair, _always),
    SecretSyntax(
        re.compile(r"<(?P<name>[A-Za-z_][\w.-]*)>(?=[^<]+</(?P=name)>)"),
        lambda found: looks_secret(found["name"]),
        _always,
    ),
    SecretSyntax(
        re.compile(
            rf"(?<![\w-])(?P<name>--?[\w-]+|{'|'.join(sorted(_BEFORE_PASSWORDS))})\s+(?!-)",
            re.IGNORECASE,
        ),
        lambda found: is_value_of(found["name"], ":"),
        is_value_of,
    ),
    SecretSyntax(re.compile(r"(?:^|(?<=[\s'\"(]))(?P<name>-[pPuU])"), _always, _is_glued),
)
"""The places of secrets in a word of a command, which may be a whole command line or code."""


def without_values(text: str, place: SecretSyntax) -> str:
    """Return a text without the secret values of a place, each as ``***``. Values in values count as well."""
    shown, at, shown_to = [], 0, 0
    while found := place.before.search(text, at):
        at = found.end()
        if not place.is_name(found):
            continue
        is_header = found["name"].replace("-", "_").upper() in _HEADERS and text[at : at + 1] not in "\\'\""
        value = (_HEADER_VALUE if is_header else _VALUE).match(text, at)
        if value and place.is_secret(found["name"], value[0]):
            shown += [text[shown_to:at], WITHHELD]
            at = shown_to = value.end()
    return "".join((*shown, text[shown_to:]))


def without_sure_secrets(text: str, is_value: Callable[[str], bool]) -> str:
    """Return a text of a program, such as that of a range, without values whose names leave no doubt."""
    if not _SURE_WORD.search(text):
        return text

    def is_secret(_: str, value: str) -> bool:
        return WITHHELD not in value and is_value(value.strip("'\"\\"))

    return without_values(text, SecretSyntax(_PAIR, lambda found: is_surely_secret(found["name"]), is_secret))


WITHHELD = "***"
"""What is shown instead of a secret."""
