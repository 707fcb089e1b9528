"""Captures are found in folders, by patterns and in lists, each once, and have short names."""

import io
from pathlib import Path

import pytest

from nsyswrap.base.errors import ExportError, UsageError
from nsyswrap.cli.many_inputs import find_captures, names_of


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with loose captures, results of `profile`, and a job of two ranks."""
    names = (
        *("a.sqlite", "a.nsys-rep", "b.nsys-rep", "deep/er/c.qdrep", "notes.md", "deep/er/c.sqlite", ".run/d.sqlite"),
        *("one/capture.sqlite", "one/capture.nsys-rep", "one/report.json", "one/run.json", "one/host.json"),
        *("two/capture.nsys-rep", "two/run.json"),
        *("job/report.json", "job/rank-0/capture.sqlite", "job/rank-1/capture.sqlite", "job/rank-1/report.json"),
    )
    for name in names:
        path = tmp_path / "runs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def found(*given: str, with_reports: bool = True) -> list[str]:
    """Return the paths of the captures below ``runs``."""
    return [str(each.path.relative_to(Path.cwd() / "runs")) for each in find_captures(given, with_reports=with_reports)]


def test_a_folder_is_searched_to_its_end(runs: Path) -> None:
    """The joint report stands for its ranks, an export for its capture; hidden folders are of unfinished runs."""
    expected = ["a.sqlite", "b.nsys-rep", "deep/er/c.sqlite", "job/report.json", "one/report.json"]
    assert found("runs") == [*expected, "two/capture.nsys-rep"]
    hosts = {each.path.parent.name: each.host_from for each in find_captures(["runs"], with_reports=True)}
    assert hosts["one"] == runs / "one" / "capture.sqlite"
    assert hosts["job"] is None


@pytest.mark.usefixtures("runs")
def test_options_that_read_a_capture_need_the_capture() -> None:
    expected = ["a.sqlite", "b.nsys-rep", "deep/er/c.sqlite", "job/rank-0/capture.sqlite", "job/rank-1/capture.sqlite"]
    assert found("runs", with_reports=False) == [*expected, "one/capture.sqlite", "two/capture.nsys-rep"]


@pytest.mark.usefixtures("runs")
def test_a_pattern_finds_files_and_folders() -> None:
    assert found("runs/**/*.sqlite") == [
        *("a.sqlite", "deep/er/c.sqlite", "job/rank-0/capture.sqlite", "job/rank-1/capture.sqlite"),
        "one/capture.sqlite",
    ]
    assert found("runs/t*") == ["two/capture.nsys-rep"]
    assert found("runs/one/*.json") == ["one/report.json"]


def test_a_list_has_paths_patterns_and_comments(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its paths are relative to it. What is missing is still one of the captures."""
    (runs / "list.txt").write_text("# mine\n\n a.sqlite \ngone.sqlite\ndeep/*/*.sqlite\na.sqlite\n")
    assert found("runs/list.txt") == ["a.sqlite", "gone.sqlite", "deep/er/c.sqlite"]
    monkeypatch.setattr("sys.stdin", io.StringIO("runs/b.nsys-rep\n"))
    assert found("-") == ["b.nsys-rep"]


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize("given", ["gone", "runs/*.gone", "runs/notes*"])
def test_nothing_to_read_is_an_error(given: str) -> None:
    with pytest.raises(UsageError):
        find_captures([given], with_reports=True)


@pytest.mark.usefixtures("runs")
def test_a_list_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ExportError, match="list"):
        find_captures(["gone.txt"], with_reports=True)


def test_names_are_short_and_different() -> None:
    top = Path("/home/alice/runs")
    paths = [top / "one/capture.sqlite", top / "a.sqlite", top / "two/report.json", top / "two/capture.sqlite"]
    assert names_of(paths) == ["one", "a.sqlite", "two/report.json", "two/capture.sqlite"]
    assert names_of(paths[:1]) == ["one"]
    assert names_of([]) == []


def test_captures_with_nothing_in_common_have_whole_paths() -> None:
    """A path without its first slash would lead elsewhere."""
    assert names_of([Path("/data/a.sqlite"), Path("/srv/run/report.json")]) == [
        "/data/a.sqlite",
        "/srv/run/report.json",
    ]
