"""Install nsys without root from the packages of the distribution.

The packages come from the mirror that apt on this machine uses, and go into a folder of the user: the system is not
changed, and apt checks signatures as usual. nsys is NVIDIA software; its licence is shown and kept.

::

    <data>/nsys/.fetch/          sources, lists and packages; kept until the end, so that a broken download resumes
    <data>/nsys/.build-<pid>/    unpacked and repaired
    <data>/nsys/<version>/       the same, renamed when it works: host-linux-*, target-linux-*, licence
"""

import hashlib
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, NoReturn

from nsyswrap.base.errors import NsysNotFoundError, NsyswrapError
from nsyswrap.capture.locate import VARIABLE, Nsys, find_nsys, installed_folder, is_complete, program_at
from nsyswrap.capture.process import Output, output_of
from nsyswrap.capture.result_folder import FolderInUseError, folder_lock
from nsyswrap.capture.signals import handled
from nsyswrap.capture.unpack import (
    GET_NSYS_FROM_NVIDIA,
    Distribution,
    build_tree,
    keyring_of,
    mirror_of,
    this_distribution,
)

NSYS_PACKAGES = ("nsight-systems", "nsight-systems-target")

# Measured with 2023.4.4: 0.2 GB of packages, 0.7 GB unpacked, and the lists of a Debian release.
NEEDED_BYTES = 1_200_000_000
_UPDATE_TIMEOUT_S = 600
_DOWNLOAD_TIMEOUT_S = 3600
# A line of `apt-get download --print-uris`: address, file, size, hash. A file's name has no folder.
_LISTED = re.compile(r"^'[^']+' ([^\s/]+\.deb) (\d+) SHA256:([0-9a-f]{64})\s*$", re.MULTILINE)


def ensure_nsys(notify: Callable[[str], None], *, force: bool = False) -> Nsys:
    """Return the nsys of this machine; install one if there is none or if its importer lacks libraries.

    Raises:
        NsyswrapError: ``NSYSWRAP_NSYS`` is wrong, or nsys cannot be installed.
    """
    if not force:
        try:
            nsys = find_nsys()
        except NsysNotFoundError as error:
            if os.environ.get(VARIABLE):
                raise NsyswrapError(error.message, hint=error.hint) from error
        else:
            notify(f"nsys {nsys.version_text} is installed already: {nsys.path} ({nsys.source})")
            if is_complete(nsys) or os.environ.get(VARIABLE):
                return nsys
            notify("It cannot write reports, because its importer lacks libraries; installing another")
    path = install(installed_folder(), notify)
    installed = program_at(path, "nsyswrap setup")
    if installed is None:
        raise NsyswrapError(f"{path} was installed but does not run", hint="Run 'nsyswrap setup --force'")
    return installed


def install(root: Path, notify: Callable[[str], None], distribution: Distribution | None = None) -> Path:
    """Install nsys into a folder of the user, and return its path.

    ``root`` has one folder for each version. ``notify`` gets each message for the user, the licence notice first.

    Raises:
        NsyswrapError: There is no apt, network, package or disk space, or the new nsys does not start.
    """
    distribution = this_distribution() if distribution is None else distribution
    notify(
        f"nsys is software of NVIDIA, under NVIDIA's End User License Agreement. {distribution.name} packages it in "
        f"{distribution.restricted}; it will be downloaded into {root}. The licence is EULA.txt.gz in the package, "
        "and is kept in the folder 'licence' beside nsys. By using nsys you accept it."
    )
    with _ends_with_its_children(), _disk_errors(root), _locked(root):
        free_bytes = shutil.disk_usage(root).free
        if free_bytes < NEEDED_BYTES:
            raise NsyswrapError(
                f"{root} has {free_bytes / 1e9:.1f} GB free, and nsys needs {NEEDED_BYTES / 1e9:.1f} GB",
                hint="Free some space, or set XDG_DATA_HOME to a folder on another disk",
            )
        fetch = root / ".fetch"
        apt = Apt(distribution, fetch)
        notify(f"Downloading {' and '.join(NSYS_PACKAGES)} from the mirror that apt uses on this machine")
        apt.update()
        packages = apt.download(*NSYS_PACKAGES)
        build = root / f".build-{os.getpid()}"
        shutil.rmtree(build, ignore_errors=True)
        try:
            notify("Unpacking")
            version = build_tree(packages, build, apt.download)
            target = root / version
            old = target.with_name(f".old-{os.getpid()}")
            if target.exists():
                target.rename(old)
            build.rename(target)
            shutil.rmtree(old, ignore_errors=True)
        finally:
            shutil.rmtree(build, ignore_errors=True)
        shutil.rmtree(fetch, ignore_errors=True)
    notify(f"Installed nsys {version} in {target}; its licence is in {target / 'licence'}")
    return next(target.glob("target-linux-*/nsys"))


class Apt:
    """Runs apt with its own sources, lists and cache; those of the system are not used."""

    def __init__(self, distribution: Distribution, folder: Path) -> None:
        """Write the sources; nothing is downloaded yet."""
        self._folder = folder
        # Lists that are there already are no proof: only those that are downloaded now are checked by their signature.
        shutil.rmtree(folder / "lists", ignore_errors=True)
        for name in ("sources", "lists/partial", "cache/archives/partial", "packages"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        text = sources_text(distribution, mirror_of(distribution), keyring_of(distribution), _architecture())
        (folder / "sources" / "nsyswrap.sources").write_text(text, encoding="utf-8")

    def update(self) -> None:
        """Download the package lists; apt verifies their signatures with the distribution's keys."""
        self._run("update", timeout_s=_UPDATE_TIMEOUT_S, cwd=self._folder)

    def download(self, *names: str) -> tuple[Path, ...]:
        """Download packages that are not there yet, and return their files in the order of the names.

        A file that is there already counts only if the signed index has its name, size and hash.

        Raises:
            NsyswrapError: A file differs from the index, or cannot be downloaded.
        """
        folder = self._folder / "packages"
        wanted = [self._listed(name) for name in names]
        for each in wanted:
            if not each.is_in(folder):
                (folder / each.file).unlink(missing_ok=True)
        self._run("download", *names, timeout_s=_DOWNLOAD_TIMEOUT_S, cwd=folder)
        for each in wanted:
            if not each.is_in(folder):
                raise NsyswrapError(
                    f"{each.file} differs from the signed index of the distribution, so it was not unpacked",
                    hint="Run 'nsyswrap setup' again; if it fails again, use another mirror",
                )
        return tuple(folder / each.file for each in wanted)

    def _listed(self, name: str) -> "Listed":
        """Return what the signed index says about a package."""
        folder = self._folder / "packages"
        text = self._run("download", "--print-uris", name, timeout_s=_UPDATE_TIMEOUT_S, cwd=folder)
        listed = _LISTED.search(text)
        if listed is None:
            raise NsyswrapError(f"the index of the distribution has no SHA-256 of {name}", hint=GET_NSYS_FROM_NVIDIA)
        return Listed(listed.group(1), int(listed.group(2)), listed.group(3))

    def _run(self, *arguments: str, timeout_s: float, cwd: Path) -> str:
        """Run apt-get and return what it prints."""
        settings = {
            # Whatever this machine's own configuration allows.
            "Acquire::AllowInsecureRepositories": "false",
            "Acquire::AllowWeakRepositories": "false",
            "Acquire::AllowDowngradeToInsecureRepositories": "false",
            "APT::Get::AllowUnauthenticated": "false",
            "Acquire::Check-Valid-Until": "true",
            "Dir::Etc::sourcelist": "/dev/null",
            "Dir::Etc::sourceparts": str(self._folder / "sources"),
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "Dir::State::lists": str(self._folder / "lists"),
            "Dir::Cache": str(self._folder / "cache"),
            # A mirror that sends nothing ends in a minute: three times 20 s.
            "Acquire::Retries": "2",
            "Acquire::http::Timeout": "20",
            "Acquire::https::Timeout": "20",
            # A list that cannot be downloaded is an error instead of a warning.
            "APT::Update::Error-Mode": "any",
            # As root, apt would download as the user _apt, who has no access to a private folder.
            "APT::Sandbox::User": "root",
        }
        options = [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]
        try:
            output = output_of(["apt-get", *options, "--yes", *arguments], timeout_s=timeout_s, cwd=cwd)
        except TimeoutError as error:
            raise NsyswrapError(str(error), hint="Run 'nsyswrap setup' again to continue") from error
        if output.code != 0:
            raise apt_error(output)
        return output.stdout


class Listed(NamedTuple):
    """A package in the signed index: its file, its size in bytes and its SHA-256."""

    file: str
    size: int
    sha256: str

    def is_in(self, folder: Path) -> bool:
        """Return whether the folder has this very file."""
        path = folder / self.file
        if not path.is_file() or path.is_symlink() or path.stat().st_size != self.size:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256


def sources_text(distribution: Distribution, mirror: str, keyring: Path, architecture: str) -> str:
    """Return the sources for apt: nsys from its releases, ordinary libraries from the release of this machine.

    Libraries of a newer release may need a newer C library, so they are not taken from there.
    """
    stanzas = [(release, distribution.restricted) for release in distribution.nsys_releases]
    stanzas.append((distribution.codename, "main"))
    return "\n".join(
        f"Types: deb\nURIs: {mirror}\nSuites: {suite}\nComponents: {component}\n"
        f"Architectures: {architecture}\nSigned-By: {keyring}\n"
        for suite, component in stanzas
    )


def apt_error(output: Output) -> NsyswrapError:
    """Return the error for a failure of apt, with cause and remedy, from its output."""
    text = output.text
    lines = [line for line in text.splitlines() if line.startswith(("E:", "W:", "Err:"))]
    reason = lines[0] if lines else text.strip().rpartition("\n")[2]
    if "No space left" in text:
        return NsyswrapError(
            "the disk is full", hint=f"Free {NEEDED_BYTES / 1e9:.1f} GB, then run 'nsyswrap setup' again"
        )
    if "Unable to locate package" in text or "no installation candidate" in text or "Can't find a source" in text:
        return NsyswrapError(
            f"the distribution has no package of nsys for this machine (apt: {reason})", hint=GET_NSYS_FROM_NVIDIA
        )
    if "NO_PUBKEY" in text or "not signed" in text or "invalid signature" in text.lower():
        return NsyswrapError(
            f"the signature of the packages cannot be verified, so nothing was installed (apt: {reason})",
            hint="Update the package that holds the archive's keys (debian-archive-keyring or ubuntu-keyring)",
        )
    return NsyswrapError(
        f"apt could not download nsys ({reason})",
        hint="Check the network, then run 'nsyswrap setup' again to continue",
    )


def _architecture() -> str:
    """Return the distribution's name for the architecture of this machine."""
    try:
        return output_of(["dpkg", "--print-architecture"], timeout_s=30).stdout.strip()
    except OSError as error:
        raise NsyswrapError("setup needs dpkg, which is not installed", hint=GET_NSYS_FROM_NVIDIA) from error


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Hold the lock of the folder, because two setups at once would overwrite each other's files."""
    root.mkdir(parents=True, exist_ok=True)
    try:
        with folder_lock(root):
            yield
    except FolderInUseError as error:
        raise NsyswrapError(f"another 'nsyswrap setup' is running in {root}", hint="Wait until it has ended") from error


@contextmanager
def _ends_with_its_children() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end apt, too, and remove what is unpacked; exit codes 143 and 129."""

    def end(number: int, _: object) -> NoReturn:
        raise SystemExit(128 + number)

    # nohup sets SIGHUP to be ignored.
    ends = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is not signal.SIG_IGN]
    with handled(ends, end):
        yield


@contextmanager
def _disk_errors(root: Path) -> Iterator[None]:
    """Turn an operating system error (disk full, read-only, no permission) into an ``NsyswrapError``."""
    try:
        yield
    except OSError as error:
        raise NsyswrapError(
            f"nsys cannot be installed in {root}: {error.strerror or error}",
            hint="Set XDG_DATA_HOME to a folder that is writable and has 1.2 GB free",
        ) from error
