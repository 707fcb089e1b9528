"""A fake distribution for tests of the installer: its tools, its packages of nsys, and its description."""

import sys
import tarfile
from pathlib import Path

import pytest
from capture_fixtures import executable

from nsyswrap.capture.unpack import Distribution

FAKE = Path(__file__).parent / "fake_apt.py"
VERSION = "2023.4.4.54~12.4.1-2"

# The layout of Debian's packages: two trees connected by links, and links to paths outside.
NSYS = "usr/lib/x86_64-linux-gnu/nsight-systems/target-linux-x64"
HOST = "usr/lib/nsight-systems/host-linux-x64"


def make_package(folder: Path, name: str, files: dict[str, str], links: dict[str, str] | None = None) -> None:
    """Create a package from scripts and links."""
    tree = folder / f"tree-{name}"
    for path, text in files.items():
        executable(tree / path, text)
    for path, target in (links or {}).items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).symlink_to(target)
    version = "0.10.6-0+deb12u2" if name.startswith("lib") else VERSION
    with tarfile.open(folder / f"{name}_{version}_amd64.deb", "w") as archive:
        archive.add(tree, arcname=".")


def distribute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the tools of a fake distribution first on PATH; return the folder of its packages."""
    for name in ("apt-get", "dpkg", "dpkg-deb", "ldd"):
        executable(tmp_path / "tools" / name, f"#!{sys.executable} -IS\n{FAKE.read_text(encoding='utf-8')}")
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'tools'}:/usr/bin:/bin")
    monkeypatch.setenv("FAKE_APT_PACKAGES", str(folder))
    monkeypatch.setenv("FAKE_APT_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("FAKE_APT_TARGETS", "https://mirror.example/debian Debian bookworm")
    monkeypatch.delenv("FAKE_APT_FAILURE", raising=False)
    make_package(
        folder,
        "nsight-systems",
        {
            f"{HOST}/QdstrmImporter": "#!/bin/sh\n# needs: libssh.so libpfm.so.4\necho 2023.4.4\n",
            f"{HOST}/python/lib/kernel_helper.py": "",
            "usr/share/doc/nsight-systems/EULA.txt.gz": "the licence",
            "usr/share/doc/nsight-systems/copyright": "NVIDIA",
        },
        {
            f"{HOST}/libssh.so": "libssh.so.4",
            f"{HOST}/libssh.so.4": "../../x86_64-linux-gnu/libssh.so.4",
            "usr/lib/nsight-systems/target-linux-x64": "../x86_64-linux-gnu/nsight-systems/target-linux-x64",
        },
    )
    make_package(
        folder,
        "nsight-systems-target",
        {f"{NSYS}/nsys": "#!/bin/sh\necho 'version 2023.4.4.54'\n", f"{NSYS}/python/lib/nsysstats.py": ""},
    )
    for name, library in (("libssh-4", "libssh.so.4"), ("libpfm4", "libpfm.so.4")):
        path = f"usr/lib/x86_64-linux-gnu/{library}"
        make_package(folder, name, {f"{path}.9": "a library"}, {path: f"{library}.9"})
    return folder


def debian_in(tmp_path: Path) -> Distribution:
    """Return Debian 12 with keys in a folder."""
    (tmp_path / "keys.gpg").write_text("keys")
    return Distribution("Debian", "bookworm", "non-free", ("trixie", "bookworm"), (tmp_path / "keys.gpg",))
