"""`nsyswrap open` and `profile --open`, with a browser that only writes down what it was given."""

import os
import subprocess
import sys
import webbrowser
from pathlib import Path

import pytest
from click.testing import CliRunner

from nsyswrap.base.errors import UsageError
from nsyswrap.cli import open as command
from nsyswrap.cli.capture_options import ProfileCommand
from nsyswrap.cli.profile import profile


@pytest.fixture(autouse=True)
def _work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a new folder."""
    monkeypatch.chdir(tmp_path)


def page(folder: str, second: int = 1) -> Path:
    """Write a page into a folder of results, at a second of the past."""
    made = Path(folder) / command.PAGE_NAME
    made.parent.mkdir(parents=True)
    made.write_text("<p>", encoding="utf-8")
    os.utime(made, (second, second))
    return made.resolve()


def opened_by(words: list[str], browser: str) -> str:
    """Return what the command writes, with a browser of its own."""
    environment = os.environ | {"BROWSER": browser}
    run = subprocess.run(
        [sys.executable, "-m", "nsyswrap", "open", *words], env=environment, capture_output=True, text=True, check=True
    )
    return run.stdout + run.stderr


@pytest.mark.parametrize("words", [["a result"], ["a result/report.html"]])
def test_a_folder_and_a_page_are_opened(words: list[str]) -> None:
    made = page("a result")
    assert opened_by(words, "echo %s").strip() == made.as_uri()


def test_without_a_result_the_newest_is_opened() -> None:
    page("reports/b", 5)
    newest = page("reports/a", 9)
    page("reports/c", 7)
    assert opened_by([], "echo %s").strip() == newest.as_uri()


def test_without_a_browser_the_page_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    made = page("result")
    monkeypatch.setattr(webbrowser, "open", lambda _url: False)
    assert str(made) in CliRunner().invoke(command.open, ["result"]).output


@pytest.mark.parametrize("words", [[], ["reports"], ["none.html"]])
def test_without_a_page_there_is_an_error(words: list[str]) -> None:
    Path("reports").mkdir()
    with pytest.raises(UsageError) as error:
        CliRunner().invoke(command.open, words, catch_exceptions=False)
    assert error.value.hint


def test_the_help_of_profile_has_each_option_once_and_the_common_ones_first() -> None:
    assert isinstance(profile, ProfileCommand)
    lines = CliRunner().invoke(profile, ["--help"]).output.splitlines()
    heads = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert heads[0] == "Options used most:"
    shown = [line.split()[0].rstrip(",") for line in lines if line.startswith("  -")]
    assert len(shown) == len(set(shown)) == len(profile.params)
    assert shown[:5] == ["-o", "--steps", "--stop-after", "--open", "-f"]
