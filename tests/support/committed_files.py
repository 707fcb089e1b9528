"""The committed files of a folder, without files that a run of the tools left there."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def committed(folder: str, root: Path = ROOT) -> list[Path]:
    """Return the committed files under a folder of the project, sorted.

    The list comes from git. The test is skipped without git or outside a checkout, such as in an unpacked tarball.

    Args:
        folder: Relative to the root.
        root: Top of the checkout.
    """
    command = ["git", "-C", str(root), "ls-files", "-z", "--", folder]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("git is not installed, so the committed files are unknown")
    if done.returncode:
        pytest.skip(f"{root} is not a git checkout, so the committed files are unknown")
    names = sorted(name.decode() for name in done.stdout.split(b"\0") if name)
    return [path for name in names if (path := root / name).is_file()]
