# ruff: noqa: INP001, T201 - a program for the terminal, not a package
"""Render reports/samples again, one HTML page for each capture in tests/captures: `make reports`."""

import lzma
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CAPTURES = ROOT / "tests" / "captures"
SAMPLES = ROOT / "reports" / "samples"


def unpack(packed: Path, folder: Path) -> Path:
    """Unpack an .sqlite.xz export into a folder; return the .sqlite file."""
    export = folder / packed.stem
    with lzma.open(packed) as source, export.open("wb") as target:
        shutil.copyfileobj(source, target)
    return export


def main() -> None:
    """Render every capture with the command a user would type."""
    SAMPLES.mkdir(parents=True, exist_ok=True)
    for packed in sorted(CAPTURES.glob("*.sqlite.xz")):
        page = SAMPLES / packed.name.replace(".sqlite.xz", ".html")
        with tempfile.TemporaryDirectory() as folder:
            export = unpack(packed, Path(folder))
            command = [sys.executable, "-m", "nsyswrap", "report", str(export), "-o", str(page)]
            subprocess.run(command, check=True)  # noqa: S603 - nsyswrap itself
        print(f"wrote {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
