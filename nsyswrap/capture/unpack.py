"""Unpack the distribution's packages of nsys, and repair what does not work outside of ``/usr``.

The packages split nsys into two trees connected by links. nsys looks for its importer in ``../host-linux-*`` relative
to its real folder, so both must be in one folder::

    host-linux-x64/QdstrmImporter         found by nsys as ../host-linux-x64
    host-linux-x64/libssh.so -> libssh.so.4    a copy; the package has a link to a path outside of it
    host-linux-x64/python -> ../target-linux-x64/python    with nsysstats and gpustats, which `nsys stats` imports
    target-linux-x64/nsys
    licence/EULA.txt.gz
"""

import os
import platform
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nsyswrap.base.errors import NsyswrapError
from nsyswrap.capture.locate import missing_libraries
from nsyswrap.capture.process import output_of

GET_NSYS_FROM_NVIDIA = (
    "Install Nsight Systems from the NVIDIA developer site (page 'Nsight Systems'), "
    "or set NSYSWRAP_NSYS to the path of an nsys"
)

# Debian 13 has the newest nsys of Debian's stable releases; that build needs at least this C library.
_TRIXIE_GLIBC = (2, 34)


Download = Callable[..., tuple[Path, ...]]
# Libraries that the importer needs from the system and a small container lacks, with their packages.
SUPPORT_PACKAGES = {
    "libcom_err.so.2": "libcom-err2",
    "libelf.so.1": "libelf1",
    "libgssapi_krb5.so.2": "libgssapi-krb5-2",
    "libk5crypto.so.3": "libk5crypto3",
    "libkeyutils.so.1": "libkeyutils1",
    "libkrb5.so.3": "libkrb5-3",
    "libkrb5support.so.0": "libkrb5support0",
    "libpfm.so.4": "libpfm4",
    "libssh.so.4": "libssh-4",
    "libstdc++.so.6": "libstdc++6",
    "libz.so.1": "zlib1g",
}
_UNPACK_TIMEOUT_S = 600
_START_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution that packages nsys.

    Args:
        name: ``Debian`` or ``Ubuntu``, as in ``Origin`` of its Release files.
        codename: Its release, such as ``bookworm``.
        restricted: The component with nsys.
        nsys_releases: The releases to search for nsys; apt takes the newest version.
        keyrings: Possible paths of the keys of its archive.
    """

    name: str
    codename: str
    restricted: str
    nsys_releases: tuple[str, ...]
    keyrings: tuple[Path, ...]


def this_distribution(os_release: Path = Path("/etc/os-release"), glibc: str | None = None) -> Distribution:
    """Return the distribution of this machine, with the releases whose nsys can run on it.

    Raises:
        NsyswrapError: It is neither Debian nor Ubuntu, or its release is unknown.
    """
    try:
        fields = _fields(os_release.read_text(encoding="utf-8"))
    except OSError as error:
        raise NsyswrapError(f"{os_release} cannot be read: {error.strerror}", hint=GET_NSYS_FROM_NVIDIA) from error
    name, codename = fields.get("ID", ""), fields.get("VERSION_CODENAME", "")
    if name not in {"debian", "ubuntu"}:
        label = fields.get("PRETTY_NAME") or name or platform.system()
        raise NsyswrapError(
            f"setup installs nsys from packages of Debian and Ubuntu, and this is {label}", hint=GET_NSYS_FROM_NVIDIA
        )
    if not codename:
        raise NsyswrapError(f"{os_release} does not name its release (VERSION_CODENAME)", hint=GET_NSYS_FROM_NVIDIA)
    if name == "debian":
        # nsys is in non-free; that of trixie also runs on other releases with a new C library.
        text = glibc if glibc is not None else os.confstr("CS_GNU_LIBC_VERSION") or ""
        version = tuple(int(part) for part in re.findall(r"\d+", text)[:2])
        folder = Path("/usr/share/keyrings")
        return Distribution(
            name="Debian",
            codename=codename,
            restricted="non-free",
            nsys_releases=((codename,) if version < _TRIXIE_GLIBC or codename == "trixie" else ("trixie", codename)),
            keyrings=(folder / "debian-archive-keyring.gpg", folder / "debian-archive-keyring.pgp"),
        )
    return Distribution(
        name="Ubuntu",
        codename=codename,
        restricted="multiverse",
        nsys_releases=(codename,),
        keyrings=(Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg"),),
    )


def mirror_of(distribution: Distribution) -> str:
    """Return the mirror address that apt on this machine uses for the distribution.

    The address comes from apt and not from its files, because apt handles both source formats, defaults and proxies.

    Raises:
        NsyswrapError: There is no apt, or it has no mirror of the distribution.
    """
    indexes = _apt("indextargets", "--format", "$(SITE) $(ORIGIN) $(CODENAME)")
    for line in indexes.splitlines():
        site, *rest = line.split(" ")
        if rest == [distribution.name, distribution.codename]:
            return site
    # Lists that were never downloaded are not index targets. `update --print-uris` shows what apt would download.
    match = re.search(rf"'([^']+)/dists/{re.escape(distribution.codename)}/", _apt("update", "--print-uris"))
    if match is None:
        raise NsyswrapError(
            f"apt has no mirror of {distribution.name} {distribution.codename}",
            hint=f"Add a mirror to /etc/apt/sources.list. Or: {GET_NSYS_FROM_NVIDIA}",
        )
    return match[1]


def keyring_of(distribution: Distribution) -> Path:
    """Return the file with the keys that sign the distribution's archive.

    Raises:
        NsyswrapError: It is not installed, so downloads could not be verified.
    """
    for keyring in distribution.keyrings:
        if keyring.is_file():
            return keyring
    raise NsyswrapError(
        f"the keys of the {distribution.name} archive are missing ({distribution.keyrings[0]})",
        hint=f"Install the package {distribution.name.lower()}-archive-keyring"
        if distribution.name == "Debian"
        else "Install the package ubuntu-keyring",
    )


def _fields(text: str) -> dict[str, str]:
    """Return the assignments of an os-release file, without quotes."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip().strip("\"'") for key, value in pairs}


def _apt(*arguments: str) -> str:
    """Return the output of an apt-get command that changes nothing."""
    try:
        return output_of(["apt-get", *arguments], timeout_s=60).stdout
    except OSError as error:
        raise NsyswrapError("setup needs apt-get, which is not installed", hint=GET_NSYS_FROM_NVIDIA) from error


def build_tree(packages: Sequence[Path], build: Path, download: Download) -> str:
    """Unpack the packages of nsys into a tree that works in any folder; return the version, such as ``2023.4.4.54``.

    The packages are those of nsys, host and target part; the folder must not exist. ``download`` is called for
    libraries that this machine lacks.

    Raises:
        NsyswrapError: The packages contain no nsys, or it does not start.
    """
    raw = build / "raw"
    for package in packages:
        unpack(package, raw)
    host, target = (_take(raw, kind, build) for kind in ("host", "target"))
    _keep_licence(raw, build / "licence")
    shutil.rmtree(host / "python", ignore_errors=True)
    (host / "python").symlink_to(Path("..") / target.name / "python")
    for name in ("libssh.so", "libssh.so.4"):
        (host / name).unlink(missing_ok=True)
    _add_library("libssh.so.4", host, build, download)
    (host / "libssh.so").symlink_to("libssh.so.4")
    for folder, program in ((host, "QdstrmImporter"), (target, "nsys")):
        supply_libraries(folder / program, build, download)
        _check_starts(folder / program)
    shutil.rmtree(raw)
    output = output_of(["dpkg-deb", "-f", packages[0], "Version"], timeout_s=_START_TIMEOUT_S)
    return output.stdout.strip().partition("~")[0].partition("-")[0]


def unpack(package: Path, folder: Path) -> None:
    """Unpack the files of a package without running its scripts."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        output = output_of(["dpkg-deb", "-x", package, folder], timeout_s=_UNPACK_TIMEOUT_S)
    except (OSError, TimeoutError) as error:
        raise NsyswrapError(f"{package.name} cannot be unpacked: {error}", hint=GET_NSYS_FROM_NVIDIA) from error
    if output.code != 0:
        hint = (
            "Free 1.2 GB on the disk"
            if "No space left" in output.text
            else f"Remove {package} and run 'nsyswrap setup' again"
        )
        raise NsyswrapError(f"{package.name} cannot be unpacked: {output.stderr.strip()}", hint=hint)


def supply_libraries(program: Path, build: Path, download: Download) -> None:
    """Add the libraries that a program lacks to its folder, which its run path searches first.

    An added library may need others, so this repeats until nothing is missing.

    Raises:
        NsyswrapError: A missing library is not in any known package.
    """
    while missing := missing_libraries(program):
        known = [name for name in missing if name in SUPPORT_PACKAGES and not (program.parent / name).exists()]
        if not known:
            raise NsyswrapError(
                f"{program.name} of nsys needs {', '.join(missing)}, which this machine lacks",
                hint=f"Install the packages that hold {', '.join(missing)}, then run 'nsyswrap setup' again",
            )
        for name in known:
            _add_library(name, program.parent, build, download)


def _take(raw: Path, kind: str, build: Path) -> Path:
    """Move the folder of the host or target part of nsys, which is not one of the links to it, out of the packages."""
    parts = [path for path in raw.glob(f"usr/lib/**/{kind}-linux-*") if path.is_dir() and not path.is_symlink()]
    if not parts:
        raise NsyswrapError(f"the distribution's packages contain no {kind} part of nsys", hint=GET_NSYS_FROM_NVIDIA)
    return parts[0].rename(build / parts[0].name)


def _keep_licence(raw: Path, folder: Path) -> None:
    """Copy NVIDIA's licence beside nsys; the rest of the documentation is not needed."""
    folder.mkdir()
    for name in ("EULA.txt.gz", "copyright"):
        for path in sorted(raw.glob(f"usr/share/doc/nsight-systems*/{name}")):
            shutil.copy2(path, folder / name)


def _add_library(name: str, folder: Path, build: Path, download: Download) -> None:
    """Copy a library from its package into a folder of nsys."""
    package = SUPPORT_PACKAGES[name]
    unpacked = build / "raw" / "support" / package
    unpack(download(package)[0], unpacked)
    copies = sorted(path for path in unpacked.rglob(name) if path.exists())
    if not copies:
        raise NsyswrapError(f"the package {package} does not contain {name}", hint=GET_NSYS_FROM_NVIDIA)
    shutil.copy2(copies[0], folder / name)


def _check_starts(program: Path) -> None:
    """Check that the program starts, before it replaces one that works."""
    try:
        output = output_of([program, "--version"], timeout_s=_START_TIMEOUT_S)
    except (OSError, TimeoutError) as error:
        raise NsyswrapError(
            f"the downloaded {program.name} does not start: {error}", hint=GET_NSYS_FROM_NVIDIA
        ) from error
    if output.code != 0:
        raise NsyswrapError(
            f"the downloaded {program.name} does not start: {output.text.strip()}", hint=GET_NSYS_FROM_NVIDIA
        )
