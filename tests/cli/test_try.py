"""`nsyswrap try` prints what came of the changes, and keeps it beside the report of the run before."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hand_made
import pytest
from click.testing import CliRunner, Result
from made_results import trial

from nsyswrap.base.errors import NsyswrapError
from nsyswrap.capture import locate
from nsyswrap.capture.locate import Nsys
from nsyswrap.cli import cli
from nsyswrap.experiments import search
from nsyswrap.experiments.changes import experiments
from nsyswrap.experiments.outcome import Trial
from nsyswrap.experiments.try_runs import TryOptions
from nsyswrap.render import json_report

Invoke = Callable[..., Result]


@pytest.fixture
def wanted() -> list[TryOptions]:
    """Return what was to be tried, in each call."""
    return []


@pytest.fixture
def invoke(wanted: list[TryOptions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Return a function that runs the command, in a folder of its own; the program does not run."""

    def try_changes(options: TryOptions, _program: Any) -> Trial:  # noqa: ANN401 - the options of a capture
        wanted.append(options)
        return trial()

    def no_nsys() -> None:
        raise NsyswrapError("there is no nsys")

    monkeypatch.setattr(search, "try_changes", try_changes)
    monkeypatch.setattr(locate, "find_nsys", no_nsys)
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(cli, ["try", *words])


def run_before(folder: Path) -> Path:
    """Write a report.json as `profile` does, and return its folder."""
    folder.mkdir(parents=True)
    (folder / "report.json").write_text(json_report.render(hand_made.full_report()))
    return folder


def test_the_result_is_a_sentence_lines_and_a_table(invoke: Invoke, wanted: list[TryOptions]) -> None:
    found = invoke("train.py", "--epochs", "1")
    assert found.exit_code == 0
    assert "2.00 times as fast: fused AdamW, torch.compile (default)." in found.stdout
    assert 'model = torch.compile(model, mode="default")' in found.stdout
    assert "pays after 400 steps" in " ".join(found.stdout.split())
    assert wanted[0].order == tuple(experiments())
    assert (wanted[0].budget_s, wanted[0].with_precision, wanted[0].allow_writes) == (300.0, False, False)


def test_json_can_be_read_by_programs(invoke: Invoke) -> None:
    tree = json.loads(invoke("--format", "json", "train.py").stdout)
    assert tree["schema"] == "nsyswrap.try/1"
    assert [each["spec"] for each in tree["outcomes"] if each["kept"]] == ["fused=AdamW", "compile=default", "all"]
    assert "fused=True" in tree["lines"]["PyTorch"][0]


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90.0), ("90", 90.0), ("1.5m", 90.0), ("1h", 3600.0)])
def test_the_budget_has_a_unit(invoke: Invoke, wanted: list[TryOptions], text: str, seconds: float) -> None:
    assert invoke("--budget", text, "train.py").exit_code == 0
    assert wanted[0].budget_s == seconds


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--budget", "soon", "train.py"), "soon is not a length of time"),
        (("--budget", "0", "train.py"), "0 is not a length of time"),
        (("--only", "magic", "train.py"), "there is no change 'magic'"),
        ((), "Missing argument"),
    ],
)
def test_a_wrong_command_line_is_explained(invoke: Invoke, words: tuple[str, ...], message: str) -> None:
    found = invoke(*words)
    assert found.exit_code == 2
    assert message in found.output


def test_the_report_of_the_run_before_gets_what_was_measured(invoke: Invoke, tmp_path: Path) -> None:
    folder = run_before(tmp_path / "kept")
    assert invoke("--run", str(folder), "train.py").exit_code == 0
    assert json.loads((folder / "try.json").read_text())["outcomes"][2]["spec"] == "fused=AdamW"
    sections = json.loads((folder / "report.json").read_text())["sections"]
    assert "2.00 times as fast" in json.dumps(sections["tried"]["notes"])
    assert "Changes that were tried" in (folder / "report.html").read_text()


def test_the_newest_profile_of_the_script_is_the_run_before(invoke: Invoke, tmp_path: Path) -> None:
    for second, name in enumerate(("train-20260101-000000", "train-20260102-000000", "other-20260103-000000")):
        os.utime(run_before(tmp_path / "reports" / name), (second, second))
    found = invoke("some/train.py")
    assert "reports/train-20260102-000000" in found.stderr
    assert not (tmp_path / "reports" / "train-20260101-000000" / "try.json").exists()
    assert (tmp_path / "reports" / "train-20260102-000000" / "try.json").exists()


@pytest.mark.parametrize("code", [0, 4])
def test_a_program_without_a_profile_is_profiled_first(
    code: int, invoke: Invoke, wanted: list[TryOptions], nsys: Nsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that fails is not run again."""
    monkeypatch.setattr(locate, "find_nsys", lambda: nsys)
    Path("train.py").write_text(f"raise SystemExit({code})")
    found = invoke("train.py")
    assert found.exit_code == code
    assert "it is profiled first" in found.stderr
    assert len(wanted) == len(list(Path("reports").glob("train-*/try.json"))) == (not code)


def test_changes_that_are_chosen_need_no_plan(invoke: Invoke) -> None:
    found = invoke("--only", "gc", "train.py")
    assert found.exit_code == 0
    assert "the usual order" in found.stderr
