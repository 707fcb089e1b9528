"""The files of a folder that are committed, without what a run of the tools has left there."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def committed(folder: str, root: Path = ROOT) -> list[Path]:
    """Return the committed files under a folder of the project, sorted.

    Asks git. In an unpacked tarball without git the test is skipped, since nothing there tells committed files from
    others.

    Args:
        folder: Relative to the root.
        root: Top of the checkout.
    """
    command = ["git", "-C", str(root), "ls-files", "-z", "--", folder]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("git is not installed, so committed files cannot be told from others")
    if done.returncode:
        pytest.skip(f"{root} is not a git checkout, so committed files cannot be told from others")
    names = sorted(name.decode() for name in done.stdout.split(b"\0") if name)
    return [path for name in names if (path := root / name).is_file()]
