"""The Linux distribution of this machine and the mirror of its packages, for `nsyswrap setup`."""

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from nsyswrap.base.errors import NsyswrapError
from nsyswrap.capture.process import output_of

GET_NSYS_FROM_NVIDIA = (
    "Install Nsight Systems from the NVIDIA developer site (page 'Nsight Systems'), "
    "or set NSYSWRAP_NSYS to the path of an nsys"
)

# Debian 13 has the newest nsys of Debian's stable releases; that build needs at least this C library.
_TRIXIE_GLIBC = (2, 34)


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution that packages nsys.

    Args:
        name: ``Debian`` or ``Ubuntu``, as in ``Origin`` of its Release files.
        codename: Its release, such as ``bookworm``.
        main: The component with ordinary libraries.
        restricted: The component with nsys.
        nsys_releases: The releases to search for nsys; apt takes the newest version.
        keyrings: Possible paths of the keys of its archive.
    """

    name: str
    codename: str
    main: str
    restricted: str
    nsys_releases: tuple[str, ...]
    keyrings: tuple[Path, ...]


def this_distribution(os_release: Path = Path("/etc/os-release"), glibc: str | None = None) -> Distribution:
    """Return the distribution of this machine.

    Returns:
        The distribution, with the releases whose nsys can run on this machine.

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
    return _debian(codename, glibc) if name == "debian" else _ubuntu(codename)


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


def _debian(codename: str, glibc: str | None) -> Distribution:
    """Return a Debian release. nsys is in non-free; that of trixie also runs on other releases with a new C library."""
    text = glibc if glibc is not None else os.confstr("CS_GNU_LIBC_VERSION") or ""
    version = tuple(int(part) for part in re.findall(r"\d+", text)[:2])
    own = (codename,)
    folder = Path("/usr/share/keyrings")
    return Distribution(
        name="Debian",
        codename=codename,
        main="main",
        restricted="non-free",
        nsys_releases=own if version < _TRIXIE_GLIBC or codename == "trixie" else ("trixie", codename),
        keyrings=(folder / "debian-archive-keyring.gpg", folder / "debian-archive-keyring.pgp"),
    )


def _ubuntu(codename: str) -> Distribution:
    """Return an Ubuntu release. nsys is in multiverse of the same release."""
    return Distribution(
        name="Ubuntu",
        codename=codename,
        main="main",
        restricted="multiverse",
        nsys_releases=(codename,),
        keyrings=(Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg"),),
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
