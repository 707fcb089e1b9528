"""Secrets, users and home folders are replaced; everything else is kept."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.base.named_secrets import WITHHELD, looks_secret
from nsyswrap.base.privacy import (
    Cleaner,
    DistinctCleaner,
    Identity,
    distinct,
    identity_from,
    neutral,
    neutral_command,
    neutral_host,
)

SECRET_NAMES = (
    *("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "HF_TOKEN", "WANDB_API_KEY", "PGPASSWORD", "MYSQL_PWD_HASH"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "SSH_PRIVATE", "GPG_PASSPHRASE", "NPM_AUTH", "SENTRY_DSN", "GH_PAT"),
    *("DATABASE_URL", "AZURE_STORAGE_CONNECTION_STRING", "DJANGO_SESSION_KEY", "openai_apikey", "LICENSE_KEY"),
    *("DB_PASS", "SMTP_PASS", "MYSQL_PWD", "DB_URL", "REDIS_URL", "MONGODB_URI", "PIP_INDEX_URL", "HTTP_PROXY"),
    *("https_proxy", "SLACK_WEBHOOK", "SLACK_WEBHOOK_URL", "OPENAI_KEYS", "JWT", "AZURE_STORAGE_SAS", "--hf_tok"),
    *("PIP_EXTRA_INDEX_URL", "AWS_CREDS", "MY_JWT"),
    *("--password", "--api-key", "--hub-token", "-auth", "TOKEN_PROFILE", "SECRETDIR", "PATH_TOKEN", "DIR_SECRET"),
)


def test_names_of_secrets_are_recognised() -> None:
    assert [name for name in SECRET_NAMES if not looks_secret(name)] == []


ORDINARY_NAMES = (
    *("PATH", "HOME", "LANG", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "PYTHONPATH", "LD_LIBRARY_PATH"),
    *("XAUTHORITY", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "CURL_CA_BUNDLE", "PIP_CERT", "GIT_AUTHOR_NAME"),
    *(
        "OLDPWD",
        "NO_PROXY",
        "QUADD_INJECTION_PROXY",
        "BYPASS",
        "COMPASS",
        "TORCH_URL",
        "--significant",
        "KEYNOTE",
        "--passes",
        "SASS",
    ),
    *("KEYBOARD", "MONKEY", "PATTERN", "COMPAT", "PWD", "--batch-size", "--epochs", "TOKENIZERS_PARALLELISM"),
    *("--tokenizer", "--max-tokens", "--max_new_tokens", "NUM_TOKENS", "tokenized_dir"),
    *("TIKTOKEN_CACHE_DIR", "HF_TOKEN_PATH", "AWS_SHARED_CREDENTIALS_FILE", "--token-file", "SECRETS_HOME"),
)


def test_ordinary_names_are_not() -> None:
    assert [name for name in ORDINARY_NAMES if looks_secret(name)] == []


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
        (("curl", "--header", "Authorization: Bearer abc"), ("curl", "--header", f"Authorization: {WITHHELD}")),
        (("curl", "-H", "X-Api-Key: abc"), ("curl", "-H", f"X-Api-Key: {WITHHELD}")),
        (("x", "--header=Authorization: Bearer abc"), ("x", f"--header=Authorization: {WITHHELD}")),
        (("x", "--say", "Bearer abcdefgh"), ("x", "--say", f"Bearer {WITHHELD}")),
        (("x", "https://h/y?access_token=abc&n=1"), ("x", f"https://h/y?access_token={WITHHELD}&n=1")),
        (("x", "--data=https://h/y?a=1&sig=abc"), ("x", f"--data=https://h/y?a=1&sig={WITHHELD}")),
        (("mysql", "-p", "abc"), ("mysql", "-p", WITHHELD)),
        (("curl", "-u", "ann:abc", "-u", "ann"), ("curl", "-u", WITHHELD, "-u", "ann")),
        (("x", "--hf_tok=abc"), ("x", f"--hf_tok={WITHHELD}")),
        (("x", "model.hub.api_key=abc", "model.name=b"), ("x", f"model.hub.api_key={WITHHELD}", "model.name=b")),
        (("rsync", "ann:abc@host", "ann@host"), ("rsync", f"{WITHHELD}@host", "ann@host")),
        (("x", "redis://:abc@host/0"), ("x", f"redis://{WITHHELD}@host/0")),
        (("x", '{"api_key": "abc", "n": 1}'), ("x", f'{{"api_key": {WITHHELD}, "n": 1}}')),
        (("sh", "-c", "HF_TOKEN=abc run -x"), ("sh", "-c", f"HF_TOKEN={WITHHELD}")),
        (
            ("sh", "-c", "cd x && A_TOKEN=abc run --password abc"),
            ("sh", "-c", "cd x && A_TOKEN=*** run --password ***"),
        ),
        (("x", "hf_" + "aB3" * 12), ("x", WITHHELD)),
        (("x", "ghp_" + "aB3" * 12), ("x", WITHHELD)),
        (("x", "https://hooks/eyJhbGciOiJIUzI1.eyJzdWIiOiIx.c2ln"), ("x", f"https://hooks/{WITHHELD}")),
        (("x", "--device", "cuda:1", "a:b", "12:30"), ("x", "--device", "cuda:1", "a:b", "12:30")),
        ((), ()),
    ],
)
def test_a_command_shows_no_secret(words: tuple[str, ...], shown: tuple[str, ...]) -> None:
    assert neutral_command(words) == shown


@pytest.mark.parametrize(
    "text",
    [
        "s3cr3t-of-mine!",
        "czNjcjN0LW9mLW1pbmUh",
        "s3cr3t-of-mine%21",
        "x=s3cr3t-of-mine!;",
        "ann:pa55word",
        "YW5uOnBhNTV3b3Jk",
    ],
)
def test_a_secret_is_removed_in_each_of_its_forms(text: str) -> None:
    """As it is, as base64, as part of an address, and the login in an address also as HTTP sends it."""
    found = identity_from([("A_TOKEN", "s3cr3t-of-mine!"), ("DB_URL", "postgres://ann:pa55word@db/x")])
    shown = found.cleaner().text(f"read {text}")
    assert WITHHELD in shown
    assert not any(part in shown for part in ("s3cr3t", "pa55word", "czNj", "NTV3"))


@pytest.mark.parametrize("value", ["step", "12", "1234567", "batch 1", "loss", "true", "disabled"])
def test_a_value_that_texts_hold_by_chance_is_no_secret(value: str) -> None:
    assert identity_from([("USE_AUTH_TOKEN", value)]).secrets == ()


SECRET = Cleaner(Identity(("/data/ann",), ("annabella",), ("first-secret", "other-secret")))


@given(
    st.lists(st.lists(st.sampled_from(["/data/ann", "~", "***", "annabella", "first-secret", " ", "2"]), max_size=4))
)
def test_different_texts_stay_different(parts: list[list[str]]) -> None:
    """Ranges with two secrets in their names are two kinds of range; merged, their steps would be one step."""
    texts = ["".join(each) for each in parts]
    found = distinct(texts, SECRET.text)
    assert len(set(found.values())) == len(set(texts))
    one_by_one = DistinctCleaner(SECRET.text)
    assert len({one_by_one(text) for text in texts}) == len(set(texts))
    assert not any("first-secret" in text for text in found.values())


def test_the_number_of_a_text_is_at_what_replaces_the_secret() -> None:
    found = distinct(["run first-secret 1", "run other-secret 1", "run 1"], SECRET.text)
    assert list(found.values()) == ["run 1", "run *** 1", "run ***2 1"]


@given(st.text())
def test_a_host_has_one_number_that_does_not_hold_its_name(name: str) -> None:
    """Twelve hexadecimal digits, also for names that UTF-8 cannot encode; no name has no number."""
    number = neutral_host(name)
    assert number == neutral_host(name)
    assert bool(name) == bool(re.fullmatch("[0-9a-f]{12}", number))
    assert neutral_host("\udcff") != neutral_host("a")
