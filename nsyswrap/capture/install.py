"""Fetch nsys without root where the distribution packages it.

The packages come from the mirror that this machine's apt already uses, into folders of our own: nothing of the system
is changed, and apt checks the archive's signatures as it always does. nsys is NVIDIA's; its licence is shown and kept.

::

    <data>/nsys/.fetch/          sources, lists and packages; kept until the end, so that a broken fetch resumes
    <data>/nsys/.build-<pid>/    unpacked and mended
    <data>/nsys/<version>/       the same, renamed when it works: host-linux-*, target-linux-*, licence
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nsyswrap.capture.distribution import (
    GET_NSYS_FROM_NVIDIA,
    Distribution,
    keyring_of,
    mirror_of,
    this_distribution,
)
from nsyswrap.capture.locate import VARIABLE, Nsys, find_nsys, installed_folder, is_complete, nsys_at
from nsyswrap.capture.process import Output, output_of
from nsyswrap.capture.unpack import build_tree
from nsyswrap.errors import NsysNotFoundError, NsyswrapError

NSYS_PACKAGES = ("nsight-systems", "nsight-systems-target")

# Measured with 2023.4.4: 0.2 GB of packages, 0.7 GB unpacked, and the lists of a Debian release.
NEEDED_BYTES = 1_200_000_000
_UPDATE_TIMEOUT_S = 600
_DOWNLOAD_TIMEOUT_S = 3600


def install(root: Path, tell: Callable[[str], None], distribution: Distribution | None = None) -> Path:
    """Fetch nsys into a folder of the user's own.

    Args:
        root: The folder that holds one folder a version; made where it is missing.
        tell: Called with each line the user should see, the licence notice first.
        distribution: What to fetch from; None for the one that this machine runs.

    Returns:
        The nsys program.

    Raises:
        NsyswrapError: No apt, no network, no such package, disk full, or what was fetched does not start.
    """
    distribution = this_distribution() if distribution is None else distribution
    tell(licence_notice(distribution, root))
    with _disk_errors(root), _alone(root):
        _check_free(root)
        fetch = root / ".fetch"
        apt = Apt(distribution, fetch)
        tell(f"Fetching {' and '.join(NSYS_PACKAGES)} from the mirror that apt uses here")
        apt.update()
        packages = apt.download(*NSYS_PACKAGES)
        build = root / f".build-{os.getpid()}"
        shutil.rmtree(build, ignore_errors=True)
        try:
            tell("Unpacking")
            version = build_tree(packages, build, apt.download)
            target = _move(build, root / version)
        finally:
            shutil.rmtree(build, ignore_errors=True)
        shutil.rmtree(fetch, ignore_errors=True)
    tell(f"Installed nsys {version} in {target}; its licence is in {target / 'licence'}")
    return next(target.glob("target-linux-*/nsys"))


def licence_notice(distribution: Distribution, root: Path) -> str:
    """Say whose software is about to be fetched, from where to where."""
    return (
        f"nsys is software of NVIDIA, under NVIDIA's End User License Agreement. {distribution.name} packages it in "
        f"{distribution.restricted}; it is fetched from there into {root}. The text of the licence is "
        "EULA.txt.gz in the package, and is kept in the folder 'licence' beside nsys. Using nsys means accepting it."
    )


class Apt:
    """apt with sources, lists and cache of its own; the system's are neither read nor written.

    Args:
        distribution: What to fetch from.
        folder: Where its files go; made where it is missing.
    """

    def __init__(self, distribution: Distribution, folder: Path) -> None:
        """Write the sources; nothing is fetched yet."""
        self._folder = folder
        for name in ("sources", "lists/partial", "cache/archives/partial", "packages"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        text = sources_text(distribution, mirror_of(distribution), keyring_of(distribution), _architecture())
        (folder / "sources" / "nsyswrap.sources").write_text(text, encoding="utf-8")

    def update(self) -> None:
        """Fetch the lists of packages; apt verifies their signatures against the distribution's keys."""
        self._run("update", timeout_s=_UPDATE_TIMEOUT_S, cwd=self._folder)

    def download(self, *names: str) -> tuple[Path, ...]:
        """Fetch packages, unless an earlier try left them, and return their files in the order of the names."""
        folder = self._folder / "packages"
        self._run("download", *names, timeout_s=_DOWNLOAD_TIMEOUT_S, cwd=folder)
        return tuple(max(folder.glob(f"{name}_*.deb"), key=lambda path: path.stat().st_mtime_ns) for name in names)

    def _run(self, *arguments: str, timeout_s: float, cwd: Path) -> None:
        settings = {
            "Dir::Etc::sourcelist": "/dev/null",
            "Dir::Etc::sourceparts": str(self._folder / "sources"),
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "Dir::State::lists": str(self._folder / "lists"),
            "Dir::Cache": str(self._folder / "cache"),
            "Acquire::Retries": "3",
            # A list that cannot be fetched is an error, not a warning before an empty answer.
            "APT::Update::Error-Mode": "any",
            # Run by root, apt would fetch as the user _apt, who may not enter a private folder.
            "APT::Sandbox::User": "root",
        }
        options = [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]
        try:
            output = output_of(["apt-get", *options, "--yes", *arguments], timeout_s=timeout_s, cwd=cwd)
        except TimeoutError as error:
            raise NsyswrapError(str(error), hint="Run 'nsyswrap setup' again: it goes on where it stopped") from error
        if output.code != 0:
            raise apt_error(output)


def sources_text(distribution: Distribution, mirror: str, keyring: Path, architecture: str) -> str:
    """Write the sources for apt: nsys from its releases, ordinary libraries from the release this machine runs.

    Libraries of a younger release may want a younger C library than there is, so they never come from there.
    """
    stanzas = [(release, distribution.restricted) for release in distribution.nsys_releases]
    stanzas.append((distribution.codename, distribution.main))
    return "\n".join(
        f"Types: deb\nURIs: {mirror}\nSuites: {suite}\nComponents: {component}\n"
        f"Architectures: {architecture}\nSigned-By: {keyring}\n"
        for suite, component in stanzas
    )


def apt_error(output: Output) -> NsyswrapError:
    """Turn what apt said into an error that names the cause and one remedy."""
    text = output.text
    lines = [line for line in text.splitlines() if line.startswith(("E:", "W:", "Err:"))]
    said = lines[0] if lines else text.strip().rpartition("\n")[2]
    if "No space left" in text:
        return NsyswrapError(
            "the disk is full", hint=f"Free {NEEDED_BYTES / 1e9:.1f} GB, then run 'nsyswrap setup' again"
        )
    if "Unable to locate package" in text or "no installation candidate" in text or "Can't find a source" in text:
        return NsyswrapError(f"the distribution does not package nsys here (apt: {said})", hint=GET_NSYS_FROM_NVIDIA)
    if "NO_PUBKEY" in text or "not signed" in text or "invalid signature" in text.lower():
        return NsyswrapError(
            f"the packages' signature cannot be verified, so nothing was installed (apt: {said})",
            hint="Update the package that holds the archive's keys (debian-archive-keyring or ubuntu-keyring)",
        )
    return NsyswrapError(
        f"apt could not fetch nsys ({said})",
        hint="Check the network and run 'nsyswrap setup' again: it goes on where it stopped",
    )


def _architecture() -> str:
    """The distribution's name of this machine's architecture."""
    try:
        return output_of(["dpkg", "--print-architecture"], timeout_s=30).stdout.strip()
    except OSError as error:
        raise NsyswrapError("setup needs dpkg, and there is none here", hint=GET_NSYS_FROM_NVIDIA) from error


def _move(build: Path, target: Path) -> Path:
    """Put a finished tree in its place in one step; an older one of the same version makes room first."""
    old = target.with_name(f".old-{os.getpid()}")
    if target.exists():
        target.rename(old)
    build.rename(target)
    shutil.rmtree(old, ignore_errors=True)
    return target


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Hold the folder's lock: two setups at once would write into one another's files."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / ".lock").open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise NsyswrapError(
                f"another 'nsyswrap setup' is at work in {root}", hint="Wait until it has ended"
            ) from error
        yield


@contextmanager
def _disk_errors(root: Path) -> Iterator[None]:
    """Turn a disk's refusal (full, read-only, not ours) into an error of ours."""
    try:
        yield
    except OSError as error:
        raise NsyswrapError(
            f"nsys cannot be installed in {root}: {error.strerror or error}",
            hint="Set XDG_DATA_HOME to a folder that you may write and that has 1.2 GB free",
        ) from error


def _check_free(root: Path) -> None:
    """Refuse before the download, not after it."""
    free_bytes = shutil.disk_usage(root).free
    if free_bytes < NEEDED_BYTES:
        raise NsyswrapError(
            f"{root} has {free_bytes / 1e9:.1f} GB free, and nsys needs {NEEDED_BYTES / 1e9:.1f} GB",
            hint="Free some space, or set XDG_DATA_HOME to a folder on another disk",
        )


def ensure_nsys(tell: Callable[[str], None], *, force: bool = False) -> Nsys:
    """Find nsys, or fetch it where there is none or where its importer lacks libraries.

    Args:
        tell: Called with each line that the user should see.
        force: Fetch it in any case.

    Returns:
        The nsys that was found, or the one that was fetched.

    Raises:
        NsyswrapError: ``NSYSWRAP_NSYS`` is wrong, or nsys cannot be fetched.
    """
    if not force:
        try:
            nsys = find_nsys()
        except NsysNotFoundError as error:
            if os.environ.get(VARIABLE):
                raise NsyswrapError(error.message, hint=error.hint) from error
        else:
            tell(f"nsys {nsys.version_text} is here already: {nsys.path} ({nsys.source})")
            if is_complete(nsys) or os.environ.get(VARIABLE):
                return nsys
            tell("It could not write a report, as its importer lacks libraries; another is fetched")
    return _fetched(install(installed_folder(), tell))


def _fetched(path: Path) -> Nsys:
    nsys = nsys_at(path, "nsyswrap setup")
    if nsys is None:
        raise NsyswrapError(f"{path} was fetched and does not answer", hint="Run 'nsyswrap setup --force'")
    return nsys
