"""Render reports/samples again, each from the redacted export beside it: `make reports`.

A sample is a folder with `capture.sqlite.xz`; it gets `report.html` and `report.json`.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from fault_captures import unpack

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "reports" / "samples"
PACKED = "capture.sqlite.xz"


def commands(export: Path, sample: Path) -> list[list[str]]:
    """Return the commands a user would type to make a sample's reports from its export."""
    nsyswrap = [sys.executable, "-m", "nsyswrap"]
    return [
        [*nsyswrap, "report", str(export), "--force", "-o", str(sample / "report.html")],
        [*nsyswrap, "analyze", str(export), "--format", "json", "--force", "-o", str(sample / "report.json")],
    ]


def main() -> None:
    for packed in sorted(SAMPLES.glob(f"*/{PACKED}")):
        with tempfile.TemporaryDirectory() as folder:
            # The commands on a page begin in the folder of its capture.
            for command in commands(Path(unpack(packed, Path(folder)).name), packed.parent.resolve()):
                subprocess.run(command, check=True, cwd=folder)  # noqa: S603 - nsyswrap itself
        print(f"rendered {packed.parent.name}")


if __name__ == "__main__":
    main()
