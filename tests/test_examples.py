"""The examples of laws are the same in each run."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some


def examples() -> list[str]:
    """Return the texts that a law is tried with."""
    found: list[str] = []

    @settings(max_examples=1000, derandomize=True, database=None)
    @given(some.text(min_size=1))
    def law(text: str) -> None:
        found.append(text)

    law()
    return found


@pytest.mark.skipif("NSYSWRAP_NEW_EXAMPLES" in os.environ, reason="new examples are wanted")
def test_the_examples_do_not_depend_on_which_modules_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = examples()
    path = tmp_path / "module_with_texts.py"
    path.write_text(f"TEXTS = {[f'odd text {number}' for number in range(100)]}\n")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    monkeypatch.setitem(sys.modules, path.stem, importlib.util.module_from_spec(spec))
    assert examples() == before
