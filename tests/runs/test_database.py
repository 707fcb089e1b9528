"""Where the history is, and the message where it cannot be opened or written."""

import stat
from pathlib import Path

import pytest
from made_runs import made_run
from sqlalchemy import text

from nsyswrap.runs import database
from nsyswrap.runs.database import HistoryError, database_url, project_folder, reading
from nsyswrap.runs.history import open_history

PASSWORD = "s3cret-of-the-server"  # noqa: S105 - planted to be looked for


@pytest.fixture(autouse=True)
def no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's own history out."""
    monkeypatch.delenv(database.VARIABLE, raising=False)


def test_the_history_is_a_file_in_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of its root, also from a folder inside; git leaves it out, and only its owner can read it."""
    (tmp_path / ".git").mkdir()
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    open_history()
    file = tmp_path / ".nsyswrap" / "history.sqlite"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert (file.parent / ".gitignore").read_text() == "*\n"
    assert project_folder(inside) == tmp_path


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_the_variable_names_a_file(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(database.VARIABLE, form.format(tmp_path / "other.sqlite"))
    assert open_history().add(made_run(1))
    assert (tmp_path / "other.sqlite").is_file()


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_an_address_of_a_server_is_that_of_psycopg(scheme: str) -> None:
    assert database_url(f"{scheme}://user@host/runs").drivername == "postgresql+psycopg"


@pytest.mark.parametrize("address", ["mysql://host/runs", "sqlite://", "://"])
def test_other_addresses_are_refused_with_a_hint(address: str) -> None:
    with pytest.raises(HistoryError) as caught:
        database_url(address)
    assert "NSYSWRAP_DB" in (caught.value.hint or "")


def test_psycopg_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(HistoryError, match="PostgreSQL needs psycopg") as caught:
        database_url("postgresql://host/runs")
    assert caught.value.hint == "install it: pip install 'nsyswrap[postgres]'"


def test_an_error_shows_no_password(tmp_path: Path) -> None:
    """Neither in the address nor in what the driver says."""
    address = f"postgresql://user:{PASSWORD}@/runs?host={tmp_path}"
    with pytest.raises(HistoryError, match="cannot read the history") as caught:
        open_history(address)
    assert PASSWORD not in f"{caught.value.message} {caught.value.hint}"


def test_a_file_that_is_no_history_is_refused_and_not_changed(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("These are notes, and no database at all.\n" * 50)
    before = file.read_bytes()
    with pytest.raises(HistoryError, match="not a database"):
        open_history(str(file))
    assert file.read_bytes() == before


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HistoryError, match="cannot make the history"):
        open_history(str(tmp_path / "file" / "history.sqlite"))


def test_what_only_reads_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="there is no history"):
        open_history(str(tmp_path / "history.sqlite"), create=False)
    assert list(tmp_path.iterdir()) == []


def test_what_is_committed_is_on_the_disk_and_readers_do_not_wait(tmp_path: Path) -> None:
    found = open_history(str(tmp_path / "history.sqlite"))
    with reading(found.engine) as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2
        found.add(made_run(1))
    assert found.count() == 1
