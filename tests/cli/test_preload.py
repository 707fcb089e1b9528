"""Loading the analysis in the background."""

import subprocess
import sys

import pytest

from nsyswrap.cli import preload

PROGRAM = """
import sys
from nsyswrap.cli import preload
assert not set(preload.NEEDED) & set(sys.modules)
preload.load_in_background().join(300)
assert set(preload.NEEDED) <= set(sys.modules)
"""


@pytest.mark.slow
def test_the_modules_of_the_analysis_are_loaded_in_another_thread() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=300)


def test_a_module_that_cannot_be_loaded_is_left_to_its_use(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nothing is printed, and the modules before it are loaded."""
    monkeypatch.setattr(preload, "NEEDED", ("json", "nsyswrap.nowhere"))
    preload.load_in_background().join(300)
    assert capfd.readouterr() == ("", "")
