"""The three forms people read, byte for byte as they were looked at and found good.

After a change that is meant, run with NSYSWRAP_WRITE_SNAPSHOTS=1, look at the files, and commit them.
"""

import os
from pathlib import Path

import hand_made
import pytest

from nsyswrap.render import RENDERERS

FOLDER = Path(__file__).parents[1] / "snapshots"
FILES = {"text": "report.txt", "markdown": "report.md", "html": "report.html"}
HINT = "if this is meant: NSYSWRAP_WRITE_SNAPSHOTS=1 pytest tests/test_render_snapshots.py"


@pytest.mark.parametrize(("form", "name"), FILES.items())
def test_a_report_reads_as_it_did(form: str, name: str) -> None:
    shown = RENDERERS[form](hand_made.full_report()).encode("utf-8")
    path = FOLDER / name
    if os.environ.get("NSYSWRAP_WRITE_SNAPSHOTS"):
        path.write_bytes(shown)
    assert path.read_bytes() == shown, HINT
