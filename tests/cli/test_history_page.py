"""`nsyswrap history page` as a user runs it."""

import re
from functools import partial
from pathlib import Path

import commands
import pytest
from made_runs import made_run

from nsyswrap.cli.history import MOST_PROGRAMS
from nsyswrap.runs.history import open_history


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project with six runs in its history, as the working folder."""
    monkeypatch.delenv("NSYSWRAP_DB", raising=False)
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    history = open_history()
    for number in range(6):
        history.add(made_run(number, 10 + number % 3 / 100, f"{number:040x}", number))
    return tmp_path


run = partial(commands.run, "history", "page")


def test_the_page_is_a_file_that_is_not_replaced_unasked(project: Path) -> None:
    assert run().exit_code == 0
    assert (project / "history.html").read_text().count('data-mean="') == 6
    assert run().exit_code == 2
    assert run("--force").exit_code == 0


def test_runs_lead_to_the_reports_that_are_there_from_where_the_page_is(project: Path) -> None:
    """The folder of a run is relative to the project, and the page may be in a folder of its own."""
    (project / "reports" / "train-2").mkdir(parents=True)
    (project / "reports" / "train-2" / "report.html").write_text("")
    (project / "pages").mkdir()
    assert run("-o", "pages/all.html").exit_code == 0
    text = (project / "pages" / "all.html").read_text()
    assert set(re.findall(r'href="([^"#][^"]*report[^"]*)"', text)) == {"../reports/train-2/report.html"}


def test_one_program_and_fewer_runs_can_be_chosen(project: Path) -> None:
    history = open_history()
    row = made_run(50).row._replace(program="tools/serve.py")
    history.add(made_run(50).__class__(row, "x", (), (), ()))
    assert run("--program", "serve.py").exit_code == 0
    text = (project / "history.html").read_text()
    assert ("tools/serve.py" in text, "train.py" in text) == (True, False)
    assert run("--program", "train.py", "--runs", 2, "-f").exit_code == 0
    text = (project / "history.html").read_text()
    assert "The last 2 of 6 runs are read" in text
    assert text.count('data-mean="') == 2


def test_programs_beyond_the_first_are_listed(project: Path) -> None:
    history = open_history()
    for number in range(MOST_PROGRAMS + 1):
        made = made_run(100 + number)
        row = made.row._replace(arguments=f"--size {number}")
        history.add(made.__class__(row, made.content, (), (), ()))
    assert run().exit_code == 0
    text = (project / "history.html").read_text()
    assert text.count('<section id="program-') == MOST_PROGRAMS
    assert "Other programs" in text
