"""Secrets, users and home folders are replaced; everything else is kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.privacy import WITHHELD, looks_secret, neutral, neutral_command


@pytest.mark.parametrize(
    "name",
    [
        *("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "HF_TOKEN", "WANDB_API_KEY", "PGPASSWORD", "MYSQL_PWD_HASH"),
        *("GOOGLE_APPLICATION_CREDENTIALS", "SSH_PRIVATE", "GPG_PASSPHRASE", "NPM_AUTH", "SENTRY_DSN", "GH_PAT"),
        *("DATABASE_URL", "AZURE_STORAGE_CONNECTION_STRING", "DJANGO_SESSION_KEY", "openai_apikey", "LICENSE_KEY"),
        *("--password", "--api-key", "--hub-token", "-auth", "TOKEN_PROFILE", "SECRETDIR", "PATH_TOKEN", "DIR_SECRET"),
    ],
)
def test_names_of_secrets_are_recognised(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        *("PATH", "HOME", "LANG", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "PYTHONPATH", "LD_LIBRARY_PATH"),
        *("XAUTHORITY", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "CURL_CA_BUNDLE", "PIP_CERT", "GIT_AUTHOR_NAME"),
        *("KEYBOARD", "MONKEY", "PATTERN", "COMPAT", "PWD", "--batch-size", "--epochs", "TOKENIZERS_PARALLELISM"),
        *("--tokenizer", "--max-tokens", "--max_new_tokens", "NUM_TOKENS", "tokenized_dir"),
        *("TIKTOKEN_CACHE_DIR", "HF_TOKEN_PATH", "AWS_SHARED_CREDENTIALS_FILE", "--token-file", "SECRETS_HOME"),
    ],
)
def test_ordinary_names_are_not(name: str) -> None:
    assert not looks_secret(name)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/ann/train.py", "~/train.py"),
        ("/home/ann", "~"),
        ("/Users/ann/x", "~/x"),
        ("/root/x", "~/x"),
        ("/root", "~"),
        ("file:///home/ann/x", "file://~/x"),
        ("a:/home/ann/x:/home/bob/y", "a:~/x:~/y"),
        ("'/home/ann/x y'", "'~/x y'"),
        ("https://ann:pw@host/x", "https://***@host/x"),
        ("git+ssh://git@host/x", "git+ssh://***@host/x"),
    ],
)
def test_home_folders_and_logins_are_replaced(text: str, shown: str) -> None:
    assert neutral(text) == shown


@pytest.mark.parametrize(
    "text",
    ["void at::native::f<int>(T*)", "/opt/torch/lib.so", "/rooted/x", "my/home/x", "/data/homework", "a/root", "a@b"],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert neutral(text) == text


@given(st.text(st.sampled_from("ab/:@ .~") | st.characters(codec="utf-8"), max_size=40))
def test_what_is_neutral_stays_so(text: str) -> None:
    """A cleaned text does not change again: texts are cleaned when they are read, in the report, and on the page."""
    assert neutral(neutral(text)) == neutral(text)


@given(st.from_regex(r"[a-z][a-z0-9_-]{2,12}", fullmatch=True), st.sampled_from(["/home/", "/Users/", "/export/home/"]))
def test_no_user_stays(user: str, homes: str) -> None:
    assert f"{homes}{user}" not in neutral(f"open {homes}{user}/data: no such file")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("train.py", "--token", "abc"), ("train.py", "--token", WITHHELD)),
        (("train.py", "--token=abc"), ("train.py", f"--token={WITHHELD}")),
        (("env", "HF_TOKEN=abc", "python"), ("env", f"HF_TOKEN={WITHHELD}", "python")),
        (("train.py", "--token", "--verbose"), ("train.py", "--token", "--verbose")),
        (("train.py", "--lr=0.1", "out=/home/ann/x"), ("train.py", "--lr=0.1", "out=~/x")),
        (("/home/ann/.venv/bin/python", "x.py"), ("~/.venv/bin/python", "x.py")),
        (("train.py", "--password", "a", "b"), ("train.py", "--password", WITHHELD, "b")),
        (("train.py", "--token=a\nb"), ("train.py", f"--token={WITHHELD}")),
        ((), ()),
    ],
)
def test_a_command_shows_no_secret(words: tuple[str, ...], shown: tuple[str, ...]) -> None:
    assert neutral_command(words) == shown


@given(st.lists(st.text(max_size=12), max_size=6))
def test_a_command_keeps_its_words(words: list[str]) -> None:
    """Withheld words keep their place."""
    assert len(neutral_command(tuple(words))) == len(words)
