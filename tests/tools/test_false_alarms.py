"""tools/compare_false_alarms.py measures the rates in docs/compare.md: its loops, and its result for real steps."""

import importlib
import importlib.util
from pathlib import Path

import numpy as np
import paired_reports as pairs
import pytest

from nsyswrap.render import json_report

tool = importlib.import_module("compare_false_alarms")

ROOT = Path(__file__).resolve().parents[2]


def test_every_kind_of_loop_is_of_positive_times() -> None:
    for draw in tool.KINDS.values():
        steps = draw(np.random.default_rng(1), 40)
        assert steps.shape == (40,)
        assert (steps > 0).all()


@pytest.mark.parametrize("correlation", [-0.45, 0.0, 0.8])
def test_steps_take_after_the_one_before_as_much_as_they_should(correlation: float) -> None:
    steps = np.log(tool.autoregressive(correlation, 0.1)(np.random.default_rng(1), 20_000))
    assert np.corrcoef(steps[1:], steps[:-1])[0, 1] == pytest.approx(correlation, abs=0.03)
    assert steps.std() == pytest.approx(0.1, rel=0.1)


def test_a_row_says_how_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row has the percentage of detected changes, with undecided pairs in parentheses. 50 % is always detected."""
    monkeypatch.setattr(tool, "RUNS", 5)
    monkeypatch.setattr(tool, "COUNTS", (58,))
    monkeypatch.setattr(tool, "KINDS", {"measured": tool.autoregressive(0.0, 0.02)})
    assert list(tool.simulate(0.5)) == ["| measured | 100.0 (0.0) |"]


def test_runs_are_compared_in_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every pair of runs has a row, in the order given; the last line counts the outcomes."""
    for seed in (1, 2, 3):
        whole = pairs.with_session(pairs.report(pairs.lengths(4.0, seed=seed)), started_utc=str(seed))
        (tmp_path / f"{seed}.json").write_text(json_report.render(whole), encoding="utf-8")
    tool.main(["--pairs", *(str(tmp_path / f"{seed}.json") for seed in (1, 2, 3))])
    *rows, count = capsys.readouterr().out.splitlines()
    assert [row.split(" | ")[:3] for row in rows] == [
        ["| 1.json", "2.json", "no difference"],
        ["| 1.json", "3.json", "no difference"],
        ["| 2.json", "3.json", "no difference"],
    ]
    assert count == "3 pairs: 3 no difference"


def test_real_steps_are_split_in_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Odd steps are compared with even ones, and the first half with the second; a run of few steps is left out."""
    for name, count in (("long", 60), ("short", 12)):
        path = tmp_path / f"{name}.json"
        path.write_text(json_report.render(pairs.report(pairs.lengths(4.0, count))), encoding="utf-8")
    tool.main([str(tmp_path / "long.json"), str(tmp_path / "short.json")])
    lines = capsys.readouterr().out.split("\n")
    assert [line.split(" | ")[:3] for line in lines if line] == [
        ["| long", "odd and even", "30"],
        ["| long", "halves", "30"],
    ]
    assert all("no difference" in line for line in lines if line)
