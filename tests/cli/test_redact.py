"""`nsyswrap redact`: its file, its messages and its exit codes."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from export_builder import ExportBuilder
from real_captures import Planted

from nsyswrap.cli import cli
from nsyswrap.db.load import load_export

SECRET = "v4lue-of-a-secret"  # noqa: S105 - planted to be looked for


@pytest.fixture
def whole(build: Callable[..., ExportBuilder], tmp_path: Path) -> Path:
    """Write an export that holds a secret."""
    return build().environment({"A": "b", "MY_TOKEN": SECRET}).kernel(1, 2).write(tmp_path / "whole.sqlite")


def run(*arguments: object) -> Result:
    """Run the command."""
    return CliRunner().invoke(cli, ["redact", *map(str, arguments)])


def test_it_writes_an_export_without_the_secret(whole: Path, tmp_path: Path) -> None:
    assert run(whole, "-o", tmp_path / "shared.sqlite").exit_code == 0
    assert SECRET.encode() in whole.read_bytes()
    assert SECRET.encode() not in (tmp_path / "shared.sqlite").read_bytes()
    assert len(load_export(tmp_path / "shared.sqlite").frames["kernels"]) == 1


def test_stderr_says_what_was_left_out(whole: Path, tmp_path: Path) -> None:
    """Stdout is for results, and the result is the file."""
    result = run(whole, "-o", tmp_path / "shared.sqlite")
    assert result.stdout == ""
    assert f"wrote {tmp_path / 'shared.sqlite'}: " in result.stderr
    assert "left out: " in result.stderr
    assert SECRET not in result.stderr


def test_an_nsys_rep_is_exported_first(planted: Planted, tmp_path: Path) -> None:
    assert run(planted.export.with_suffix(".nsys-rep"), "-o", tmp_path / "shared.sqlite").exit_code == 0
    content = (tmp_path / "shared.sqlite").read_bytes()
    assert planted.secret.encode() not in content
    assert "outer" in set(load_export(tmp_path / "shared.sqlite").frames["ranges"]["text"])


def test_an_existing_file_is_a_usage_error(whole: Path, tmp_path: Path) -> None:
    (tmp_path / "there.sqlite").write_text("mine")
    result = run(whole, "-o", tmp_path / "there.sqlite")
    assert result.exit_code == 2
    assert "is there already\nhint: give another file, or --force to replace it\n" in result.stderr
    assert (tmp_path / "there.sqlite").read_text() == "mine"


def test_force_replaces_it(whole: Path, tmp_path: Path) -> None:
    (tmp_path / "there.sqlite").write_text("mine")
    assert run(whole, "-o", tmp_path / "there.sqlite", "--force").exit_code == 0
    assert len(load_export(tmp_path / "there.sqlite").frames["kernels"]) == 1


@pytest.mark.parametrize("content", [b"", b"no database"])
def test_a_broken_export_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.sqlite").write_bytes(content)
    result = run(tmp_path / "x.sqlite", "-o", tmp_path / "shared.sqlite")
    assert result.exit_code == 1
    assert result.stderr.startswith("nsyswrap: x.sqlite is ")
    assert "\nhint: " in result.stderr
    assert not (tmp_path / "shared.sqlite").exists()


def test_without_a_target_nothing_is_written(whole: Path) -> None:
    assert run(whole).exit_code == 2
