"""Build what is released, and try it: `make release` fills dist/.

The wheel and the sdist are built twice from the committed files and must have the same bytes. The wheel is installed
with the pinned packages in a fresh environment of each Python on this machine, and the sdist in one; each reads a real
capture, with the same result. The packages of one environment are listed as an SBOM (CycloneDX). SHA256SUMS names
all files. Nothing is uploaded.
"""

import argparse
import hashlib
import io
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CAPTURE = ROOT / "tests" / "captures" / "cnn_amp.sqlite.xz"
REQUIREMENTS = ROOT / "requirements"
NEWEST, OLDEST = 14, 11


class ReleaseError(Exception):
    """The release is not fit to be given to users."""


def committed_tree(folder: Path) -> None:
    """Write the files of the last commit to a folder."""
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout  # noqa: S607
    with tarfile.open(fileobj=io.BytesIO(archive)) as tree:
        # Python 3.11.2 of Debian 12 has no filters. They are for the archives of others.
        tree.extraction_filter = getattr(tarfile, "data_filter", None)
        tree.extractall(folder)  # noqa: S202 - git made it, of this project


def built(folder: Path) -> dict[str, bytes]:
    """Build the wheel and the sdist in a fresh copy of the last commit; return their bytes by name.

    All files get the time of the commit, so that the same commit gives the same bytes.
    """
    source, target = folder / "source", folder / "built"
    committed_tree(source)
    stamp = ["git", "log", "-1", "--format=%ct"]
    epoch = subprocess.run(stamp, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603
    environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(target)]
    subprocess.run(command, cwd=source, check=True, env=environment, capture_output=True)  # noqa: S603
    return {path.name: path.read_bytes() for path in sorted(target.iterdir())}


def reproducible() -> dict[str, bytes]:
    """Build twice and return the files."""
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        one, other = built(Path(first)), built(Path(second))
    differing = [name for name in one if one[name] != other.get(name)]
    if differing or len(one) != len(other):
        raise ReleaseError(f"two builds differ: {', '.join(differing) or 'other names'}")
    return one


def pythons() -> list[Path]:
    """Return the Pythons of this machine that nsyswrap supports, one of each minor version."""
    folders = [
        Path(sys.executable).resolve().parent,
        *map(Path, os.get_exec_path()),
        *Path.home().glob(".pyenv/versions/*/bin"),
    ]
    program = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
    found = []
    for minor in range(OLDEST, NEWEST + 1):
        for path in (folder / f"python3.{minor}" for folder in folders):
            if os.access(path, os.X_OK):
                done = subprocess.run([str(path), "-c", program], capture_output=True, text=True, check=False)  # noqa: S603
                if done.stdout.strip() == f"3.{minor}":
                    found.append(path)
                    break
    return found


def tried(python: Path, package: Path, folder: Path) -> str:
    """Install a package with the pinned ones in a fresh environment; return its report of a real capture, as JSON."""
    environment = folder / "environment"
    subprocess.run([str(python), "-m", "venv", str(environment)], check=True)  # noqa: S603
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--require-hashes", "-r", str(REQUIREMENTS / "base.lock")], check=True)  # noqa: S603
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", str(package)], check=True)  # noqa: S603
    capture = folder / "capture.sqlite"
    capture.write_bytes(lzma.decompress(CAPTURE.read_bytes()))
    command = [str(environment / "bin" / "nsyswrap"), "analyze", str(capture), "--format", "json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder)  # noqa: S603
    return done.stdout


def parts_list(environment: Path, target: Path) -> None:
    """Write the packages of an environment as CycloneDX: names, versions, licences, and where they come from."""
    own = environment / "bin" / "python"
    with tempfile.TemporaryDirectory() as folder:
        tool = Path(folder) / "tool"
        subprocess.run([sys.executable, "-m", "venv", tool], check=True)  # noqa: S603
        pip = [str(tool / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-deps", "--require-hashes", "-r", str(REQUIREMENTS / "release.lock")], check=True)  # noqa: S603
        command = [str(tool / "bin" / "cyclonedx-py"), "environment", "--output-reproducible", "--of", "JSON"]
        subprocess.run([*command, "-o", str(target), str(own)], check=True)  # noqa: S603
    target.write_text(without_folders(target.read_text(encoding="utf-8")), encoding="utf-8")


def without_folders(text: str) -> str:
    """Return a list of parts in which a file of this machine, such as the wheel, is named without its folder."""
    return re.sub(r'"file:[^"]*/([^"/]+)"', r'"\1"', text)


def main() -> int:
    """Build, try and list; return the exit code."""
    parser = argparse.ArgumentParser(description="Build the wheel and the sdist, and try them in fresh environments.")
    parser.add_argument("--target", type=Path, default=ROOT / "dist", help="folder for the files; it is replaced")
    target = parser.parse_args().target.absolute()
    files = reproducible()
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name, content in files.items():
        (target / name).write_bytes(content)
        print(f"{name}: {len(content)} bytes, the same in two builds", flush=True)
    (wheel,), (sdist,) = target.glob("*.whl"), target.glob("*.tar.gz")
    (version,) = re.findall(r"^nsyswrap-([^-]+)-", wheel.name)
    reports = {}
    for number, python in enumerate(pythons()):
        for package in (wheel, sdist) if number == 0 else (wheel,):
            with tempfile.TemporaryDirectory() as folder:
                reports[f"{python.name}, {package.suffix}"] = tried(python, package, Path(folder))
                if not number and package == wheel:
                    parts_list(Path(folder) / "environment", target / f"nsyswrap-{version}.cdx.json")
                print(f"{package.name} reads a capture with {python.name}", flush=True)
    if len(set(reports.values())) != 1:
        raise ReleaseError(f"{len(set(reports.values()))} different reports of one capture: {', '.join(reports)}")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in sorted(target.iterdir())]
    (target / "SHA256SUMS").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{target}: {len(lines)} files and SHA256SUMS")
    return 0


if __name__ == "__main__":
    sys.exit(main())
