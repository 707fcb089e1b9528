"""Results are written whole or not at all, never over what they are made from, and without a traceback."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from export_builder import ExportBuilder

from nsyswrap.cli import cli, output
from nsyswrap.cli.output import atomic_file, atomic_folder, form_of
from nsyswrap.errors import ExportError

TEXT = "what was there"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """An export with one kernel."""
    return ExportBuilder().gpu().kernel(100, 200, launched=(10, 20)).write(tmp_path / "x.sqlite")


def said(*arguments: object) -> tuple[int, str]:
    """Run a command; an error that is not ours fails the test."""
    result = CliRunner().invoke(cli, list(map(str, arguments)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stderr


def ended(command: str, folder: Path) -> tuple[int, str]:
    """Run a command of the shell, with ``nsyswrap`` in it, as a user does."""
    done = subprocess.run(
        ["/bin/sh", "-c", command.replace("nsyswrap", f"{sys.executable} -m nsyswrap")],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stderr


def half_written(file: Path) -> None:
    """Write a file to a disk that fills up.

    Raises:
        OSError: As the system says it.
    """
    file.write_text("half")
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


NAMES: dict[str, Callable[[Path, Path], object]] = {
    "itself": lambda link, file: file.rename(link),
    "symlink": lambda link, file: link.symlink_to(file),
    "hard link": lambda link, file: link.hardlink_to(file),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("command", [["report"], ["analyze"], ["export", "--format", "perfetto"], ["redact"]])
def test_a_result_never_replaces_what_is_read(command: list[str], name: str, small: Path, tmp_path: Path) -> None:
    """Whatever name it is given, and though --force is."""
    before = small.read_bytes()
    output = tmp_path / "y.sqlite"
    NAMES[name](output, small)
    code, text = said(*command, small if small.exists() else output, "-o", output, "-f")
    assert code == 2
    assert text == f"nsyswrap: {output} is an input and would be overwritten\nhint: give another file with -o\n"
    assert output.read_bytes() == before


@pytest.mark.parametrize("command", ["report", "redact"])
def test_a_report_of_nsys_is_not_replaced_either(command: str, tmp_path: Path) -> None:
    """Though what is read of it is an export made for it."""
    capture = tmp_path / "a.nsys-rep"
    capture.write_text(TEXT)
    assert said(command, capture, "-o", capture, "-f")[0] == 2
    assert capture.read_text() == TEXT


def test_compare_does_not_replace_either_side(small: Path, tmp_path: Path) -> None:
    """Nor what it reads in a folder."""
    folder = tmp_path / "before"
    folder.mkdir()
    assert said("analyze", small, "-o", folder / "report.json")[0] == 0
    before = (folder / "report.json").read_bytes()
    for base in (folder, folder / "report.json"):
        assert said("compare", base, small, "-o", folder / "report.json", "-f")[0] == 2
        assert said("compare", small, base, "-o", folder / "report.json", "-f")[0] == 2
    assert (folder / "report.json").read_bytes() == before


def test_a_file_is_replaced_only_when_the_new_one_is_whole(tmp_path: Path) -> None:
    """A disk that fills up leaves the old one, and nothing beside it."""
    target = tmp_path / "r.html"
    target.write_text(TEXT)
    with pytest.raises(OSError, match="No space"), atomic_file(target) as place:
        half_written(place)
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]
    assert target.read_text() == TEXT


def test_a_full_disk_is_our_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fragment is gone, what was there is not."""
    target = tmp_path / "r.html"
    target.write_text(TEXT)

    def full(_: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(ExportError, match=r"cannot write .*r\.html: No space left on device"):
        output.write_result("new", target, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]
    assert target.read_text() == TEXT


def test_what_replaces_a_file_is_where_it_was_and_as_private(tmp_path: Path) -> None:
    """A link stays a link."""
    target, link = tmp_path / "r.html", tmp_path / "link.html"
    target.write_text(TEXT)
    target.chmod(0o600)
    link.symlink_to(target)
    output.write_result("new", link, force=True)
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_pipe_is_written_to(small: Path, tmp_path: Path) -> None:
    """It is not replaced by a file."""
    os.mkfifo(tmp_path / "pipe")
    code, text = ended(f"cat pipe > copy & nsyswrap analyze {small} -f -o pipe && wait", tmp_path)
    assert (code, text) == (0, "wrote pipe\n")
    assert (tmp_path / "copy").read_text().startswith("nsyswrap  x.sqlite")
    assert (tmp_path / "pipe").is_fifo()


def test_a_folder_of_tables_holds_those_of_one_capture(small: Path, tmp_path: Path) -> None:
    """What an earlier export left and this one has no table for is removed; other files are not."""
    folder = tmp_path / "csv"
    folder.mkdir()
    for name in ("ledger.devices.csv", "graphs.old.csv", "report.findings.csv", "mine.csv", "ledger.txt"):
        (folder / name).write_text(TEXT)
    assert said("export", small, "--format", "csv", "-o", folder, "-f")[0] == 0
    left = {path.name for path in folder.iterdir() if path.read_text() == TEXT}
    assert left == {"mine.csv", "ledger.txt"}
    assert not (folder / "graphs.old.csv").exists()
    assert not list(folder.glob(".*"))


def test_a_folder_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """One that was not there before is not there after, either."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "a.csv").write_text(TEXT)
    for name in ("there", "fresh"):
        with pytest.raises(OSError, match="No space"), atomic_folder(tmp_path / name, ["*.csv"]) as place:
            half_written(place / "b.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert [(path.name, path.read_text()) for path in (tmp_path / "there").iterdir()] == [("a.csv", TEXT)]


COMMANDS = ("analyze x.sqlite", "analyze x.sqlite --format json", "compare x.sqlite x.sqlite", "classify foo", "doctor")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("to", "words"), [("> /dev/full", "No space left on device"), (">&-", "it is closed")])
def test_where_stdout_takes_nothing_it_is_one_line(command: str, to: str, words: str, small: Path) -> None:
    """And a hint; no traceback, and none when Python ends."""
    code, text = ended(f"NSYSWRAP_NSYS=/nowhere nsyswrap {command} {to}", small.parent)
    assert code == 1
    first, second = text.splitlines()
    assert first == f"nsyswrap: cannot write to stdout: {words}"
    assert second.startswith("hint: ")


def test_a_reader_that_has_gone_is_no_error(small: Path) -> None:
    """As in ``| head -1``."""
    assert ended(f"nsyswrap analyze {small} --format json | true", small.parent)[1] == ""


@pytest.mark.parametrize("command", ["doctor", "compare x.sqlite y.sqlite", "analyze ./x.sqlite"])
def test_in_a_folder_that_is_gone_it_is_one_line(command: str, tmp_path: Path) -> None:
    code, text = ended(f"mkdir gone; cd gone; rmdir ../gone; NSYSWRAP_NSYS=/nowhere nsyswrap {command}", tmp_path)
    assert code in {1, 2}
    assert [line.split(": ")[0] for line in text.splitlines()] == ["nsyswrap", "hint"]


def test_a_result_has_the_form_its_name_says(small: Path, tmp_path: Path) -> None:
    """Unless another is asked for, or the command has none of that name."""
    forms = ("text", "json", "csv")
    assert form_of(None, Path("x.JSON"), forms) == "json"
    assert form_of("text", Path("x.json"), forms) == "text"
    assert form_of(None, Path("x.html"), forms) == "text"
    for name, begins in {"y.json": "{", "y.csv": "section,", "y.md": "#", "y.txt": "nsyswrap "}.items():
        assert said("analyze", small, "-o", tmp_path / name) == (0, f"wrote {tmp_path / name}\n")
        assert (tmp_path / name).read_text().startswith(begins)


@pytest.mark.parametrize("percent", ["nan", "inf"])
def test_a_gate_that_lets_everything_through_is_refused(percent: str, small: Path) -> None:
    """It would be green whatever the change."""
    code, text = said("compare", small, small, "--fail-on-regression", percent)
    assert code == 2
    assert text.startswith(f"nsyswrap: --fail-on-regression {percent} lets everything through\nhint: ")
