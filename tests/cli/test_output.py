"""Results are written completely or not at all, never over an input, and errors have no traceback."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from export_builder import ExportBuilder
from real_captures import more

from nsyswrap.base.errors import ExportError
from nsyswrap.cli import cli, output
from nsyswrap.cli.output import atomic_file, atomic_folder, form_of

TEXT = "what was there"
# Other processes may keep the machine busy.
LONGEST_S = 240


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return an export with one kernel."""
    return ExportBuilder().gpu().kernel(100, 200, launched=(10, 20)).write(tmp_path / "x.sqlite")


def outcome(*arguments: object) -> tuple[int, str]:
    """Run a command; an unexpected exception fails the test."""
    result = CliRunner().invoke(cli, list(map(str, arguments)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stderr


def ended(command: str, folder: Path) -> tuple[int, str]:
    """Run a shell command that calls ``nsyswrap``."""
    done = subprocess.run(
        ["/bin/sh", "-c", command.replace("nsyswrap", f"{sys.executable} -m nsyswrap")],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=LONGEST_S,
    )
    return done.returncode, done.stderr


def half_written(file: Path) -> None:
    """Imitate writing to a disk that fills up.

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
def test_a_result_never_replaces_an_input(command: list[str], name: str, small: Path, tmp_path: Path) -> None:
    """This holds for any name of the file, and with --force."""
    before = small.read_bytes()
    output = tmp_path / "y.sqlite"
    NAMES[name](output, small)
    code, text = outcome(*command, small if small.exists() else output, "-o", output, "-f")
    assert code == 2
    assert text == f"nsyswrap: {output} is an input and would be overwritten\nhint: give another file with -o\n"
    assert output.read_bytes() == before


@pytest.mark.parametrize("command", ["report", "redact"])
def test_a_result_never_replaces_an_nsys_rep(command: str, tmp_path: Path) -> None:
    """This holds although the command reads a temporary export of it."""
    capture = tmp_path / "a.nsys-rep"
    capture.write_text(TEXT)
    assert outcome(command, capture, "-o", capture, "-f")[0] == 2
    assert capture.read_text() == TEXT


def test_compare_does_not_replace_either_side(small: Path, tmp_path: Path) -> None:
    """It does not replace the files it reads in a folder, either."""
    folder = tmp_path / "before"
    folder.mkdir()
    assert outcome("analyze", small, "-o", folder / "report.json")[0] == 0
    before = (folder / "report.json").read_bytes()
    for base in (folder, folder / "report.json"):
        assert outcome("compare", base, small, "-o", folder / "report.json", "-f")[0] == 2
        assert outcome("compare", small, base, "-o", folder / "report.json", "-f")[0] == 2
    assert (folder / "report.json").read_bytes() == before


def test_a_file_is_replaced_only_by_a_complete_one(tmp_path: Path) -> None:
    """On a full disk the old file stays, and no other file is left."""
    target = tmp_path / "r.html"
    target.write_text(TEXT)
    with pytest.raises(OSError, match="No space"), atomic_file(target) as place:
        half_written(place)
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]
    assert target.read_text() == TEXT


def test_a_full_disk_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The partial file is removed, and the old one stays."""
    target = tmp_path / "r.html"
    target.write_text(TEXT)

    def full(_: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(ExportError, match=r"cannot write .*r\.html: No space left on device"):
        output.write_result("new", target, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]
    assert target.read_text() == TEXT


def test_a_replaced_file_keeps_its_place_and_permissions(tmp_path: Path) -> None:
    """A symbolic link stays one."""
    target, link = tmp_path / "r.html", tmp_path / "link.html"
    target.write_text(TEXT)
    target.chmod(0o600)
    link.symlink_to(target)
    output.write_result("new", link, force=True)
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_pipe_is_written_to(small: Path, tmp_path: Path) -> None:
    """It does not become a regular file."""
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "copy").open("wb") as copy, subprocess.Popen(["cat", tmp_path / "pipe"], stdout=copy) as reader:
        code, text = outcome("analyze", small, "-f", "-o", tmp_path / "pipe")
        if code:
            reader.kill()
    assert (code, text) == (0, f"wrote {tmp_path / 'pipe'}\n")
    assert (tmp_path / "copy").read_text().startswith("nsyswrap  x.sqlite")
    assert (tmp_path / "pipe").is_fifo()


def test_a_folder_of_tables_holds_only_those_of_the_last_export(small: Path, tmp_path: Path) -> None:
    """Tables of an earlier export are removed, and other files stay."""
    folder = tmp_path / "csv"
    folder.mkdir()
    for name in ("ledger.devices.csv", "cuda_graphs.old.csv", "report.findings.csv", "mine.csv", "ledger.txt"):
        (folder / name).write_text(TEXT)
    assert outcome("export", small, "--format", "csv", "-o", folder, "-f")[0] == 0
    left = {path.name for path in folder.iterdir() if path.read_text() == TEXT}
    assert left == {"mine.csv", "ledger.txt"}
    assert not (folder / "cuda_graphs.old.csv").exists()
    assert not list(folder.glob(".*"))


def test_a_folder_is_written_completely_or_not_at_all(tmp_path: Path) -> None:
    """A new folder is removed after an error."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "a.csv").write_text(TEXT)
    for name in ("there", "fresh"):
        with pytest.raises(OSError, match="No space"), atomic_folder(tmp_path / name, ["*.csv"]) as place:
            half_written(place / "b.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert [(path.name, path.read_text()) for path in (tmp_path / "there").iterdir()] == [("a.csv", TEXT)]


FULL, CLOSED = ("> /dev/full", "No space left on device"), (">&-", "it is closed")
# tests/cli/test_streams.py fills more disks.


@pytest.mark.parametrize(
    ("command", "to", "words"),
    [
        *((command, *way) for command in ("analyze x.sqlite", "classify foo") for way in (FULL, CLOSED)),
        *more(*((command, *way) for command in ("compare x.sqlite x.sqlite", "doctor") for way in (FULL, CLOSED))),
    ],
)
def test_an_unwritable_stdout_is_an_error(command: str, to: str, words: str, small: Path) -> None:
    """It gives a message and a hint, and no traceback, also at the exit of Python."""
    code, text = ended(f"NSYSWRAP_NSYS=/nowhere nsyswrap {command} {to}", small.parent)
    assert code == 1
    first, second = text.splitlines()
    assert first == f"nsyswrap: cannot write to stdout: {words}"
    assert second.startswith("hint: ")


def test_a_closed_pipe_is_not_an_error(small: Path) -> None:
    """As in ``nsyswrap ... | head -1``."""
    assert ended(f"nsyswrap analyze {small} --format json | true", small.parent)[1] == ""


@pytest.mark.parametrize("command", [*more("doctor", "compare x.sqlite y.sqlite"), "analyze ./x.sqlite"])
def test_a_removed_working_folder_is_an_error(command: str, tmp_path: Path) -> None:
    code, text = ended(f"mkdir gone; cd gone; rmdir ../gone; NSYSWRAP_NSYS=/nowhere nsyswrap {command}", tmp_path)
    assert code in {1, 2}
    assert [line.split(": ")[0] for line in text.splitlines()] == ["nsyswrap", "hint"]


def test_the_suffix_of_the_file_sets_the_format(small: Path, tmp_path: Path) -> None:
    """--format takes precedence, and a suffix without a format of the command means text."""
    forms = ("text", "json", "csv")
    assert form_of(None, Path("x.JSON"), forms) == "json"
    assert form_of("text", Path("x.json"), forms) == "text"
    assert form_of(None, Path("x.html"), forms) == "text"
    for name, begins in {"y.json": "{", "y.csv": "section,", "y.md": "#", "y.txt": "nsyswrap "}.items():
        assert outcome("analyze", small, "-o", tmp_path / name) == (0, f"wrote {tmp_path / name}\n")
        assert (tmp_path / name).read_text().startswith(begins)


@pytest.mark.parametrize("percent", ["nan", "inf"])
def test_a_gate_that_can_never_fail_is_refused(percent: str, small: Path) -> None:
    """Its result would not depend on the change."""
    code, text = outcome("compare", small, small, "--fail-on-regression", percent)
    assert code == 2
    assert text.startswith(f"nsyswrap: --fail-on-regression {percent} would never fail\nhint: ")
