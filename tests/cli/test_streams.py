"""A result is written whole or reported; messages that cannot be shown change nothing; Ctrl-C is 130 at any time."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import commands
import pytest
from export_builder import ExportBuilder

from nsyswrap.cli import LazyGroup
from nsyswrap.cli.streams import CompleteWriter, complete, encodable

NSYSWRAP = (sys.executable, "-m", "nsyswrap")
# A pipe of Linux holds 64 KiB.
LONG = "x" * 300_000


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return an export with one kernel."""
    return ExportBuilder().gpu().kernel(100, 200, launched=(10, 20)).write(tmp_path / "x.sqlite")


def ended(command: str, small: Path, **environ: str) -> subprocess.CompletedProcess[bytes]:
    """Run a shell command that calls ``nsyswrap``."""
    line = command.replace("nsyswrap", " ".join(NSYSWRAP)).replace("SMALL", str(small))
    return subprocess.run(
        ["/bin/sh", "-c", line], capture_output=True, check=False, timeout=120, env={**os.environ, **environ}
    )


def received(descriptor: int) -> bytes:
    """Return all bytes of a pipe until it is closed."""
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


@pytest.mark.parametrize("is_result", [True, False])
def test_a_pipe_that_does_not_block_gets_everything(is_result: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Python writes what fits and drops the rest without an error, where it has no buffer."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    found: list[bytes] = []
    thread = threading.Thread(target=lambda: found.append(received(reader)))
    stream = CompleteWriter(writer, is_result=is_result)
    thread.start()
    assert stream.write(LONG.encode()) == len(LONG)
    os.close(writer)
    thread.join()
    assert found == [LONG.encode()]


def test_a_result_that_does_not_fit_is_an_error() -> None:
    with Path("/dev/full").open("wb") as full, pytest.raises(OSError, match="No space left"):
        CompleteWriter(full.fileno(), is_result=True).write(b"x")


def test_a_message_that_cannot_be_shown_is_dropped() -> None:
    with Path("/dev/full").open("wb") as full:
        assert CompleteWriter(full.fileno(), is_result=False).write(b"x") == 1


def test_a_stream_without_a_file_stays_as_it_is() -> None:
    stream = io.StringIO()
    assert complete(stream, is_result=True) is stream


def test_a_small_file_system_cuts_no_result_unseen(tmp_path: Path) -> None:
    """`ulimit -f` limits files to a few KiB: the first write is partial, the second one fails."""
    (tmp_path / "names").write_text("ampere_sgemm_128x64_nn\n" * 500)
    command = "trap '' XFSZ; ulimit -f 4; nsyswrap classify --format json < SMALL/names > SMALL/out"
    done = ended(command, tmp_path, PYTHONUNBUFFERED="1")
    assert done.returncode == 1
    assert b"cannot write to stdout" in done.stderr


@pytest.mark.parametrize("command", ["nsyswrap --help", "nsyswrap analyze --help"])
def test_a_help_that_cannot_be_printed_has_no_traceback(command: str, small: Path) -> None:
    done = ended(f"{command} > /dev/full", small)
    assert done.returncode == 1
    assert done.stderr == b"nsyswrap: cannot write to stdout: No space left on device\n"


def test_a_full_stderr_changes_no_exit_code(small: Path) -> None:
    assert (
        ended("nsyswrap report SMALL -o OUT 2> /dev/full".replace("OUT", str(small) + ".html"), small).returncode == 0
    )
    assert ended("nsyswrap analyze SMALL.gone 2> /dev/full", small).returncode == 1


@pytest.mark.parametrize("encoding", ["latin1", "ascii"])
def test_a_narrow_encoding_is_no_error(encoding: str, tmp_path: Path) -> None:
    """What it lacks is written as an escape of JSON, so that JSON stays JSON."""
    done = ended("nsyswrap classify --format json 'é Ω \U0001f600'", tmp_path, PYTHONIOENCODING=encoding)
    assert done.returncode == 0
    assert json.loads(done.stdout.decode(encoding))[0]["name"] == "é Ω \U0001f600"


def test_only_what_an_encoding_lacks_is_escaped() -> None:
    assert encodable("é Ω \U0001f600", "latin1") == "é \\u03a9 \\ud83d\\ude00"
    assert encodable("é Ω \U0001f600", "utf-8") == "é Ω \U0001f600"


@pytest.mark.parametrize("place", ["invoke", "make_context"])
def test_ctrl_c_is_130_also_before_a_command_begins(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands are loaded when they are called, which takes a moment. It was 1, with "Aborted!"."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LazyGroup, "get_command" if place == "invoke" else "parse_args", interrupted)
    assert commands.run("classify", "gemm").exit_code == 130


def test_ctrl_c_while_modules_are_loaded_is_130(tmp_path: Path) -> None:
    """The process interrupts itself while it loads the command line."""
    (tmp_path / "click.py").write_text(f"import os, signal\nos.kill(os.getpid(), {int(signal.SIGINT)})\n")
    done = subprocess.run(
        [*NSYSWRAP, "--help"],
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"},
    )
    assert (done.returncode, done.stderr) == (130, b"")


def test_a_name_that_is_not_utf8_is_shown_by_its_bytes(tmp_path: Path) -> None:
    result = commands.run("analyze", tmp_path / "a\udcff\udcfe.sqlite")
    assert "a\\xff\\xfe.sqlite does not exist" in result.stderr
