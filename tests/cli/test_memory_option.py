"""The option ``--memory``: amounts that are understood, and what a report with it says in each form."""

import json
from collections.abc import Callable
from pathlib import Path

import commands
import pytest
from click.testing import CliRunner

from nsyswrap.cli import cli
from nsyswrap.cli.inputs import MOST_BYTES, memory_bytes

# Of `cnn_amp`, which needs more.
LITTLE = "351MB"


@pytest.mark.parametrize("text", ["", "4", "4TB", "GB", "-1GB", "0GB", "1e3MB"])
def test_what_is_no_amount_is_an_error(text: str, tmp_path: Path) -> None:
    found = commands.run("analyze", tmp_path / "x.sqlite", "--memory", text)
    assert found.exit_code == 2
    assert "--memory" in found.output


def test_without_the_option_it_is_what_is_free() -> None:
    assert 0 < memory_bytes(None) <= MOST_BYTES
    assert memory_bytes(5) == 5


@pytest.mark.parametrize("form", ["text", "json"])
def test_each_form_says_that_a_part_was_read(form: str, captures: Callable[[str], Path], tmp_path: Path) -> None:
    output = tmp_path / "out"
    words = ["analyze", str(captures("cnn_amp")), "--memory", LITTLE, "--format", form, "-o", str(output)]
    found = CliRunner().invoke(cli, words)
    assert found.exit_code == 0, found.output
    assert "finding where the rows of the capture are" in found.stderr
    text = " ".join(output.read_text().split())
    assert "of 4,709 GPU operations" in text
    if form == "json":
        assert json.loads(text)["sections"]["whole_capture"]["tables"]["gpus"]


def test_the_page_says_that_a_part_was_read(captures: Callable[[str], Path], tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    words = ["report", str(captures("cnn_amp")), "--memory", LITTLE, "-o", str(output)]
    assert CliRunner().invoke(cli, words).exit_code == 0
    assert "of 4,709 GPU operations" in output.read_text()
    assert "The whole capture" in output.read_text()


def test_parts_of_two_captures_can_be_compared(captures: Callable[[str], Path], tmp_path: Path) -> None:
    """By the step; a sentence says that they are parts. The gate says it, too."""
    output = tmp_path / "part.json"
    words = ["analyze", str(captures("cnn_amp")), "--memory", "353MB", "-o", str(output)]
    assert CliRunner().invoke(cli, words).exit_code == 0
    found = commands.run("compare", output, captures("cnn_amp"))
    assert found.exit_code in {0, 3}, found.output
    text = " ".join(found.stdout.split())
    assert "was read in part:" in text
    assert "GPU operations, measured steps" in text
