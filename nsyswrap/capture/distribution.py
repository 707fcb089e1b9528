"""Which Linux distribution this is, and where its apt gets packages: what `setup` needs to know before it fetches."""

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from nsyswrap.capture.process import output_of
from nsyswrap.errors import NsyswrapError

GET_NSYS_FROM_NVIDIA = (
    "Install Nsight Systems from the NVIDIA developer site (page 'Nsight Systems'), "
    "or set NSYSWRAP_NSYS to an nsys you have"
)

# Debian 13 holds the newest nsys of Debian's stable releases; its build runs where the C library is at least this.
_TRIXIE_GLIBC = (2, 34)


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution whose packages hold nsys.

    Args:
        name: ``Debian`` or ``Ubuntu``, as its Release files spell it in ``Origin``.
        codename: Its release, such as ``bookworm``.
        main: The component that holds ordinary libraries.
        restricted: The component that holds nsys.
        nsys_releases: The releases to look for nsys in; apt takes the newest version among them.
        keyrings: Where the keys of its archive may lie.
    """

    name: str
    codename: str
    main: str
    restricted: str
    nsys_releases: tuple[str, ...]
    keyrings: tuple[Path, ...]


def this_distribution(os_release: Path = Path("/etc/os-release"), glibc: str | None = None) -> Distribution:
    """Read which distribution this machine runs.

    Args:
        os_release: The file that says so.
        glibc: The C library as ``glibc 2.36``; None asks the running system.

    Returns:
        The distribution, with the releases whose nsys can run here.

    Raises:
        NsyswrapError: It is neither Debian nor Ubuntu, or it does not say which release it is.
    """
    try:
        fields = _fields(os_release.read_text(encoding="utf-8"))
    except OSError as error:
        raise NsyswrapError(f"{os_release} cannot be read: {error.strerror}", hint=GET_NSYS_FROM_NVIDIA) from error
    name, codename = fields.get("ID", ""), fields.get("VERSION_CODENAME", "")
    if name not in {"debian", "ubuntu"}:
        label = fields.get("PRETTY_NAME") or name or platform.system()
        raise NsyswrapError(
            f"setup fetches nsys from the packages of Debian and Ubuntu, and this is {label}", hint=GET_NSYS_FROM_NVIDIA
        )
    if not codename:
        raise NsyswrapError(f"{os_release} does not name its release (VERSION_CODENAME)", hint=GET_NSYS_FROM_NVIDIA)
    return _debian(codename, glibc) if name == "debian" else _ubuntu(codename)


def mirror_of(distribution: Distribution) -> str:
    """Return the mirror address that this machine's apt uses for the distribution.

    apt is asked rather than its files read: it knows both formats of its sources, its defaults and its proxies.

    Raises:
        NsyswrapError: There is no apt, or it knows no mirror of the distribution.
    """
    indexes = _apt("indextargets", "--format", "$(SITE) $(ORIGIN) $(CODENAME)")
    for line in indexes.splitlines():
        site, *rest = line.split(" ")
        if rest == [distribution.name, distribution.codename]:
            return site
    # Lists that were never fetched are not index targets. What an update would fetch is known all the same.
    match = re.search(rf"'([^']+)/dists/{re.escape(distribution.codename)}/", _apt("update", "--print-uris"))
    if match is None:
        raise NsyswrapError(
            f"apt knows no mirror of {distribution.name} {distribution.codename}",
            hint=f"Put a mirror into /etc/apt/sources.list. Or: {GET_NSYS_FROM_NVIDIA}",
        )
    return match[1]


def keyring_of(distribution: Distribution) -> Path:
    """Return the file with the keys that sign the distribution's archive.

    Raises:
        NsyswrapError: It is not installed; without it nothing that is fetched could be trusted.
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
    """Debian: nsys is in non-free; that of trixie also runs on other releases with a young enough C library."""
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
    """Ubuntu: nsys is in multiverse of the release itself."""
    return Distribution(
        name="Ubuntu",
        codename=codename,
        main="main",
        restricted="multiverse",
        nsys_releases=(codename,),
        keyrings=(Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg"),),
    )


def _fields(text: str) -> dict[str, str]:
    """The assignments of an os-release file, without their quotes."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip().strip("\"'") for key, value in pairs}


def _apt(*arguments: str) -> str:
    """Ask apt a question that changes nothing."""
    try:
        return output_of(["apt-get", *arguments], timeout_s=60).stdout
    except OSError as error:
        raise NsyswrapError("setup needs apt-get, and there is none here", hint=GET_NSYS_FROM_NVIDIA) from error
