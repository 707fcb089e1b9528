"""The address that opens lines of Python in an editor."""

from pathlib import Path

import commands
import hand_made
import pytest

from nsyswrap.base.errors import UsageError
from nsyswrap.cli import editor
from nsyswrap.cli.terminal import rendered
from nsyswrap.render import render

ADDRESS = "vscode://file/home/me/{file}:{line}"


@pytest.mark.parametrize("address", ["", ADDRESS, "https://code.example/{file}#L{line}"])
def test_addresses_with_a_place_for_the_file_are_taken(address: str) -> None:
    assert editor.checked(address) == address


@pytest.mark.parametrize("address", ["code", "javascript:alert('{file}')", "vscode://file", "vscode://a b/{file}"])
def test_others_are_an_error(address: str) -> None:
    with pytest.raises(UsageError, match="no address of an editor"):
        editor.checked(address)


@pytest.mark.parametrize("arguments", [["--editor", ADDRESS], []])
def test_option_and_variable_link_the_lines_of_the_page(arguments: list[str], tmp_path: Path) -> None:
    """The variable holds for the page of `nsyswrap profile`, too."""
    report = hand_made.full_report()
    (tmp_path / "report.json").write_text(render("json", report))
    env = {} if arguments else {editor.VARIABLE: ADDRESS}
    page = tmp_path / "page.html"
    result = commands.run("report", tmp_path / "report.json", "-o", page, *arguments, env=env)
    assert result.exit_code == 0, result.output
    assert 'href="vscode://file/home/me/' in page.read_text()


def test_the_page_of_another_command_has_the_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(editor.VARIABLE, ADDRESS)
    assert 'href="vscode://file/home/me/' in rendered("html", hand_made.full_report(), to_terminal=False)
