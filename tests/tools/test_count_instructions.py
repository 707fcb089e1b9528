"""The counts of instructions: what is counted, and the verdict on a change."""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
# Prints a count as valgrind does, and ends with the code of the case.
FAKE = """#!/bin/sh
case "$*" in *--help*) echo "==1== I   refs:      1,050,000,000" >&2;; *) echo broken >&2; exit 3;; esac
"""


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    """Import bench/count_instructions.py, with a stand-in for valgrind and an own file of counts."""
    monkeypatch.syspath_prepend(str(BENCH))
    module = importlib.import_module("count_instructions")
    (tmp_path / "valgrind").write_text(FAKE)
    (tmp_path / "valgrind").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(module, "KEPT", tmp_path / "instructions.json")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "surroundings", lambda: {"python": "3.11"})
    monkeypatch.setattr(module, "CASES", {"help": ("--help",), "analyze": ("analyze",)})
    yield module
    sys.modules.pop("count_instructions")


@pytest.mark.parametrize(
    ("kept", "code", "verdict"),
    [
        (1_050_000_000, 0, "+0.00% of 1.050: ok"),
        (1_001_000_000, 0, "ok"),
        (990_000_000, 1, "more than allowed"),
        (1_200_000_000, 0, "fewer: save the new count"),
    ],
)
def test_a_case_may_need_a_twentieth_more(
    kept: int, code: int, verdict: str, counting: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """More fails, much less asks for a new count."""
    counting.KEPT.write_text(json.dumps({"surroundings": {"python": "3.11"}, "instructions": {"help": kept}}))
    assert counting.main(["help"]) == code
    assert capsys.readouterr().out.rstrip().endswith(verdict)


@pytest.mark.parametrize(
    ("kept", "case", "words"),
    [
        (None, "help", "instructions.json"),
        ({"surroundings": {"python": "3.13"}, "instructions": {}}, "help", "python 3.13 (here 3.11)"),
        ({"surroundings": {"python": "3.11"}, "instructions": {}}, "help", "no count is kept for case help"),
        ({"surroundings": {"python": "3.11"}, "instructions": {}}, "analyze", "case analyze ended with 3: broken"),
    ],
)
def test_what_cannot_be_compared_is_said(
    kept: object, case: str, words: str, counting: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code differs from that of a case that needs more."""
    if kept is not None:
        counting.KEPT.write_text(json.dumps(kept))
    assert counting.main([case]) == 3
    assert words in capsys.readouterr().err


def test_the_kept_counts_are_of_all_cases() -> None:
    kept = json.loads((BENCH / "instructions.json").read_text())
    assert set(kept["instructions"]) == {"help", "analyze"}
    assert min(kept["instructions"].values()) > 10**8
