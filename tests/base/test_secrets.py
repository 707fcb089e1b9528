"""Secrets are masked wherever they stand, by their form or by the name before them; what looks alike stays."""

import csv
import time
from pathlib import Path

import pytest
from made_secrets import COMMANDS, HARMLESS, HARMLESS_COMMANDS, HEX, TEXTS, TOKENS, S, some

from nsyswrap.base.named_secrets import WITHHELD
from nsyswrap.base.privacy import ANYBODY, neutral, neutral_command
from nsyswrap.base.token_forms import FORMS

DATA = Path(__file__).parents[1] / "data"
KERNELS = sorted({
    name
    for path in DATA.glob("*.csv")
    for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines(keepends=True))
    for column, name in row.items()
    if column in {"name", "Kernel Name"} and name
})  # fmt: skip
ONE_TOKEN = [token for tokens in TOKENS.values() for token in tokens]
LONG = 100_000


def test_each_service_has_a_token_here() -> None:
    assert set(TOKENS) == set(FORMS)


@pytest.mark.parametrize("form", ["{}", "load {} now", "'{}'", "https://h/{}?x", "f(x_{}, 1)", "x={};y"])
def test_a_token_is_masked_as_a_whole(form: str) -> None:
    """In texts, names of functions, messages and commands: alone, in quotes, in an address, and after a letter."""
    texts = {token: form.format(token) for token in ONE_TOKEN}
    masked = dict.fromkeys(texts, form.format(WITHHELD))
    assert {token: ANYBODY.text(text) for token, text in texts.items()} == masked
    assert {token: ANYBODY.symbol(text) for token, text in texts.items()} == masked
    assert [text for token, text in texts.items() if token in ANYBODY.message(text)] == []
    assert [text for token, text in texts.items() if token in "".join(neutral_command(("x", text)))] == []


def test_a_text_shows_no_secret() -> None:
    for clean in (ANYBODY.text, ANYBODY.message, lambda text: " ".join(neutral_command(("x", text)))):
        assert [text for text, secret in TEXTS if secret not in text or secret in clean(text)] == []


def test_what_is_clean_stays_so() -> None:
    """Texts are cleaned when they are read, in the report, and on the page."""
    for text in (*ONE_TOKEN, *(text for text, _ in TEXTS), *(words[-1] for words in COMMANDS)):
        assert ANYBODY.text(ANYBODY.text(text)) == ANYBODY.text(text)


def test_a_command_shows_no_secret() -> None:
    """The command itself is still seen, and that something is withheld."""
    shown = [(words, neutral_command(words)) for words in COMMANDS]
    assert [each for _, each in shown if any(secret in word for secret in (S, some(40, HEX)) for word in each)] == []
    assert [each for words, each in shown if each[0] != words[0] or WITHHELD not in "".join(each)] == []


@pytest.mark.parametrize(
    "program", ["mysql", "mysqldump", "mariadb-dump", "/usr/bin/mysql", "7z", "7za", "unrar", "rar.exe"]
)
@pytest.mark.parametrize("password", ["abc", "a", "12345", "py"])
def test_a_short_password_is_masked_where_a_program_takes_it_in_the_same_word(program: str, password: str) -> None:
    """As a word of the command, and in a command line for a shell; what comes before it does not matter."""
    assert neutral_command(("sudo", program, "-uroot", f"-p{password}")) == ("sudo", program, "-uroot", f"-p{WITHHELD}")
    line = f"cd x; {program} -h host -p{password} -e 'select 1' && mkdir -pv y"
    assert neutral_command(("sh", "-c", line))[-1] == line.replace(f"-p{password}", f"-p{WITHHELD}")


def test_a_harmless_text_stays() -> None:
    texts = list(HARMLESS)
    for clean in (ANYBODY.text, ANYBODY.symbol, neutral, lambda text: neutral_command(("x", text))[1]):
        assert [clean(text) for text in texts] == texts


def test_a_harmless_command_stays() -> None:
    assert [neutral_command(words) for words in HARMLESS_COMMANDS] == list(HARMLESS_COMMANDS)


def test_no_kernel_name_changes() -> None:
    """As the name of a kernel, as the text of a range, or as a word of a command, such as classify's."""
    assert len(KERNELS) > 900
    for name in KERNELS:
        assert ANYBODY.symbol(name) == ANYBODY.text(name) == name
        assert neutral_command(("classify", name)) == ("classify", name)


@pytest.mark.parametrize(
    "part",
    [
        *("a", "a=", "a.", "a-", "a:b,", "M-", "eyJ-", "PWD=/", "token=", "C:\\Users\\a ", "a ", "'", "\\'", '\\"a='),
        *("-p ", "-u a ", "--x ", "password ", "<a>", "https://", "x@", "(", "a='", 'a="b', "key=", "name, ", "value="),
        *("mysql ", "mysql -p", "mysql;\n", " -pa"),
        *(
            "token, value=",
            "-----BEGIN PRIVATE KEY-----",
            "=",
            " = ",
            "a \t",
            "|\n",
            "token=|\n",
            "sk-",
            "{a: ",
            "token=,",
        ),
    ],
)
def test_a_long_text_takes_no_long_time(part: str) -> None:
    """Time grows with the length, not with its square, whatever a program writes: 100,000 letters take no second."""
    text = (part * LONG)[:LONG]
    before = time.process_time()
    for clean in (ANYBODY.text, lambda text: neutral_command((text,))):
        clean(text)
    assert time.process_time() - before < 3
