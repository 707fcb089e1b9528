"""Files that a user names are read whole; a device or a pipe is not read at all."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from nsyswrap.base.text_file import read_text_file
from nsyswrap.cli import cli


def test_a_text_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a µs\r\n")
    assert read_text_file(tmp_path / "text") == "a µs\r\n"


@pytest.mark.parametrize("command", [["compare", "{0}", "{0}"], ["analyze", "none.sqlite", "--kernel-rules", "{0}"]])
@pytest.mark.parametrize("kind", ["pipe.json", "zero.json", "large.json"])
def test_no_command_waits_for_a_pipe_or_reads_a_device(command: list[str], kind: str, tmp_path: Path) -> None:
    """A pipe without a writer once blocked these commands for ever, and a device or a huge file filled the memory."""
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(2**40)
    done = CliRunner().invoke(cli, [each.format(tmp_path / kind) for each in command])
    assert done.exit_code in {1, 2}
    reason = "It is larger than 512 MiB" if kind == "large.json" else "It is a device or a pipe, not a file"
    assert reason in done.output + done.stderr
