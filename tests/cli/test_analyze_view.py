"""`nsyswrap analyze --view`: the views that exist, and that they are text only."""

from functools import partial
from pathlib import Path

import commands
import pytest
from export_builder import ExportBuilder

from nsyswrap.cli import analyze, terminal

VIEWS = ("nvprof", "breakdown")
WIDE = "void " + "w" * 300 + "(int)"


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """Write an export of one kernel with a long name."""
    return ExportBuilder().gpu().kernel(20, 60, WIDE, launched=(0, 10)).write(tmp_path / "one.sqlite")


run = partial(commands.run, "analyze")


def test_the_option_lists_every_view() -> None:
    """The list is written by hand, so that --help need not load the renderers."""
    (option,) = (each for each in analyze.analyze.params if each.name == "view")
    assert list(option.type.choices) == [terminal.SUMMARY, *VIEWS]  # type: ignore[attr-defined]


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_printed_in_place_of_the_summary(view: str, export: Path) -> None:
    result = run(export, "--view", view)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"nsyswrap analyze --view {view}  one.sqlite\n")
    assert "WHERE THE GPU'S TIME WENT" not in result.stdout


def test_long_names_are_not_cut_in_a_pipe(export: Path) -> None:
    assert WIDE in run(export, "--view", "nvprof").stdout
