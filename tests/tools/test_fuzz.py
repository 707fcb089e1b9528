"""The fuzzer counts its cases, names each kind of failure once, and fails where a case failed."""

import sys

import fuzz
import pytest


def test_cases_are_counted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["fuzz.py", "--first", "1", "--count", "3"])
    assert fuzz.main() == 0
    assert "3 cases in " in capsys.readouterr().out


def test_a_failure_is_named_once_and_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(*_: object) -> None:
        raise OverflowError("too large")

    monkeypatch.setattr("fuzz_checks.load_export", broken)
    monkeypatch.setattr(sys, "argv", ["fuzz.py", "--count", "2"])
    assert fuzz.main() == 1
    shown = capsys.readouterr().out
    assert shown.count("OverflowError: too large") == 2
    assert "case 0: OverflowError: too large" in shown
    assert "2 times: OverflowError: too large" in shown
