"""Installing nsys with a fake apt: the calls of apt, the installed tree, and the error for each failure."""

import fcntl
import re
import signal
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from capture_fixtures import executable, until
from fake_packages import HOST, NSYS, VERSION, debian_in, distribute, make_package

from nsyswrap.base.errors import NsyswrapError
from nsyswrap.capture.install import install, sources_text
from nsyswrap.capture.unpack import Distribution


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the tools of a fake distribution first on PATH; return the folder of its packages."""
    return distribute(tmp_path, monkeypatch)


@pytest.fixture
def debian(tmp_path: Path) -> Distribution:
    """Return Debian 12 with keys in the test folder."""
    return debian_in(tmp_path)


@dataclass(frozen=True, slots=True)
class Installed:
    """An installation that tests share.

    Attributes:
        messages: What the user read.
        log: The calls of the tools.
        had_called: Whether a tool had been called at each message.
    """

    path: Path
    messages: list[str]
    log: str
    had_called: list[bool]

    @property
    def root(self) -> Path:
        """Return the folder of this version."""
        return self.path.parent.parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Install nsys from the fake distribution."""
    folder = tmp_path_factory.mktemp("installed")
    messages: list[str] = []
    had_called: list[bool] = []

    def notify(line: str) -> None:
        messages.append(line)
        had_called.append((folder / "log").exists())

    with pytest.MonkeyPatch.context() as patch:
        packages = distribute(folder, patch)
        path = install(folder / "nsys", notify, debian_in(folder))
        return Installed(path, messages, log(packages), had_called)


def log(packages: Path) -> str:
    """Return the calls of the tools so far."""
    return (packages.parent / "log").read_text()


def failing(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setenv("FAKE_APT_FAILURE", how)


def fetched(tmp_path: Path, debian: Distribution) -> tuple[Path, list[str]]:
    """Install, and return the program and the messages."""
    messages: list[str] = []
    return install(tmp_path / "nsys", messages.append, debian), messages


def test_nsys_is_installed_in_a_folder_named_after_its_version(installed: Installed) -> None:
    """The folder contains the host part, the target part and the licence, and nothing else."""
    root = installed.root
    assert installed.path == root / "target-linux-x64" / "nsys"
    assert root.name == "2023.4.4.54"
    assert {entry.name for entry in root.iterdir()} == {"host-linux-x64", "target-linux-x64", "licence"}
    assert {entry.name for entry in root.parent.iterdir()} == {"2023.4.4.54"}


def test_the_importer_gets_the_libssh_of_the_distribution(installed: Installed) -> None:
    """The link in the package points outside of it."""
    host = installed.root / "host-linux-x64"
    assert (host / "libssh.so").readlink() == Path("libssh.so.4")
    assert (host / "libssh.so.4").read_text() == "a library"
    assert not (host / "libssh.so.4").is_symlink()
    assert "libssh-4" in installed.log


def test_other_missing_libraries_are_added(installed: Installed) -> None:
    """Libraries that this machine has are not added."""
    assert (installed.root / "host-linux-x64" / "libpfm.so.4").exists()
    assert "libkrb5-3" not in installed.log


def test_nsys_stats_finds_its_scripts(installed: Installed) -> None:
    """`nsys stats` imports nsysstats from the host folder, but the package has it in the target folder."""
    assert (installed.root / "host-linux-x64" / "python" / "lib" / "nsysstats.py").exists()


def test_the_licence_is_shown_before_the_download(installed: Installed) -> None:
    """Its text is kept beside nsys."""
    assert (installed.had_called[0], installed.had_called[-1]) == (False, True)
    assert "NVIDIA's End User License Agreement" in installed.messages[0]
    assert (installed.root / "licence" / "EULA.txt.gz").read_text() == "the licence"


def test_apt_does_not_use_files_of_the_system(installed: Installed) -> None:
    """It has its own sources, lists and cache, and checks signatures as usual."""
    fetch = installed.root.parent / ".fetch"
    calls = [line for line in installed.log.splitlines() if " update" in line or " download" in line]
    assert len(calls) > 2
    for line in calls:
        assert "Dir::Etc::sourcelist=/dev/null" in line
        assert f"Dir::State::lists={fetch / 'lists'}" in line
        assert f"Dir::Cache={fetch / 'cache'}" in line
        assert not re.search(r"(?:Unauthenticated|Repositories)=(?!false)|--allow", line)


def test_libraries_come_only_from_the_own_release(debian: Distribution) -> None:
    """Those of a newer release may need a newer C library."""
    text = sources_text(debian, "https://mirror.example/debian", Path("/keys.gpg"), "amd64")
    stanzas = [dict(line.split(": ") for line in stanza.splitlines()) for stanza in text.strip().split("\n\n")]
    assert [(stanza["Suites"], stanza["Components"]) for stanza in stanzas] == [
        ("trixie", "non-free"),
        ("bookworm", "non-free"),
        ("bookworm", "main"),
    ]
    assert all(stanza["Signed-By"] == "/keys.gpg" for stanza in stanzas)
    assert all("Trusted" not in stanza for stanza in stanzas)


def test_the_address_of_the_mirror_is_not_shown(installed: Installed) -> None:
    """It may contain a password."""
    assert not any("mirror.example" in line for line in installed.messages)


def test_a_second_installation_replaces_the_first(packages: Path, tmp_path: Path, debian: Distribution) -> None:
    """No file of the first one stays."""
    path, _ = fetched(tmp_path, debian)
    (path.parent / "stray").write_text("old")
    assert fetched(tmp_path, debian)[0] == path
    assert not (path.parent / "stray").exists()
    assert packages.is_dir()


@pytest.mark.parametrize(
    ("how", "message", "hint"),
    [
        ("no-network", "apt could not download nsys (E: Failed to fetch", "again to continue"),
        ("unsigned", "signature of the packages cannot be verified, so nothing was installed", "keyring"),
        ("disk-full", "the disk is full", "Free 1.2 GB"),
        ("no-package", "has no package of nsys", "NVIDIA developer site"),
        ("broken-package", "cannot be unpacked: dpkg-deb: error", "run 'nsyswrap setup' again"),
    ],
)
def test_a_failure_says_what_and_what_to_do(  # noqa: PLR0913, PLR0917 - fixtures and one row of the table
    packages: Path,
    tmp_path: Path,
    debian: Distribution,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    message: str,
    hint: str,
) -> None:
    """No incomplete nsys is left."""
    failing(monkeypatch, how)
    with pytest.raises(NsyswrapError) as caught:
        fetched(tmp_path, debian)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert [entry for entry in (tmp_path / "nsys").iterdir() if not entry.name.startswith((".lock", ".fetch"))] == []
    assert packages.is_dir()


def test_downloaded_packages_are_kept_for_the_next_try(
    packages: Path, tmp_path: Path, debian: Distribution, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted download of 190 MB continues instead of starting again."""
    failing(monkeypatch, "broken-package")
    with pytest.raises(NsyswrapError):
        fetched(tmp_path, debian)
    kept = tmp_path / "nsys" / ".fetch" / "packages"
    assert {path.name.partition("_")[0] for path in kept.iterdir()} == {"nsight-systems", "nsight-systems-target"}
    monkeypatch.delenv("FAKE_APT_FAILURE")
    fetched(tmp_path, debian)
    assert not kept.exists()
    assert packages.is_dir()


def test_a_failure_keeps_an_older_nsys(
    packages: Path, tmp_path: Path, debian: Distribution, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The older nsys still works."""
    path, _ = fetched(tmp_path, debian)
    failing(monkeypatch, "broken-package")
    with pytest.raises(NsyswrapError):
        fetched(tmp_path, debian)
    assert path.exists()
    assert packages.is_dir()


def test_a_library_without_a_known_package_is_named(packages: Path, tmp_path: Path, debian: Distribution) -> None:
    """The user can install it and run setup again."""
    make_package(packages / "new", "nsight-systems", {f"{HOST}/QdstrmImporter": "#!/bin/sh\n# needs: libodd.so.1\n"})
    (packages / "new" / f"nsight-systems_{VERSION}_amd64.deb").replace(packages / f"nsight-systems_{VERSION}_amd64.deb")
    with pytest.raises(NsyswrapError, match=r"QdstrmImporter of nsys needs libodd\.so\.1") as caught:
        fetched(tmp_path, debian)
    assert "libodd.so.1" in caught.value.hint


@pytest.mark.parametrize("program", ["QdstrmImporter", "nsys"])
def test_a_program_that_does_not_start_is_not_installed(
    packages: Path, tmp_path: Path, debian: Distribution, program: str
) -> None:
    """It would replace an nsys that works."""
    name, place = ("nsight-systems", HOST) if program == "QdstrmImporter" else ("nsight-systems-target", NSYS)
    make_package(packages / "new", name, {f"{place}/{program}": "#!/bin/sh\necho 'bad ELF' >&2; exit 1\n"})
    (packages / "new" / f"{name}_{VERSION}_amd64.deb").replace(packages / f"{name}_{VERSION}_amd64.deb")
    with pytest.raises(NsyswrapError, match=f"the downloaded {program} does not start: bad ELF"):
        fetched(tmp_path, debian)


def test_packages_without_nsys_are_an_error(packages: Path, tmp_path: Path, debian: Distribution) -> None:
    """The distribution may change their layout."""
    make_package(packages / "new", "nsight-systems-target", {"usr/share/doc/x": ""})
    (packages / "new" / f"nsight-systems-target_{VERSION}_amd64.deb").replace(
        packages / f"nsight-systems-target_{VERSION}_amd64.deb"
    )
    with pytest.raises(NsyswrapError, match="contain no target part of nsys"):
        fetched(tmp_path, debian)


def test_only_one_setup_runs_at_a_time(packages: Path, tmp_path: Path, debian: Distribution) -> None:
    """Two would overwrite each other's files."""
    (tmp_path / "nsys").mkdir()
    with (tmp_path / "nsys" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(NsyswrapError, match="another 'nsyswrap setup' is running"):
            fetched(tmp_path, debian)
    assert fetched(tmp_path, debian)[0].exists()
    assert packages.is_dir()


def test_too_little_disk_space_is_an_error_before_the_download(
    packages: Path, tmp_path: Path, debian: Distribution, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message has the free and the needed space."""
    monkeypatch.setattr("nsyswrap.capture.install.NEEDED_BYTES", 10**18)
    with pytest.raises(NsyswrapError, match=r"GB free, and nsys needs 1000000000\.0 GB") as caught:
        fetched(tmp_path, debian)
    assert "XDG_DATA_HOME" in caught.value.hint
    assert not (packages.parent / "log").exists()


def test_a_folder_that_cannot_be_written_is_an_error(packages: Path, tmp_path: Path, debian: Distribution) -> None:
    """There is a file in place of the folder."""
    (tmp_path / "nsys").write_text("")
    with pytest.raises(NsyswrapError, match="cannot be installed in"):
        fetched(tmp_path, debian)
    assert packages.is_dir()


@pytest.mark.parametrize("tool", ["apt-get", "dpkg"])
def test_a_missing_tool_is_an_error_with_a_hint(
    packages: Path, tmp_path: Path, debian: Distribution, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    """Only apt and dpkg are needed."""
    (tmp_path / "tools" / tool).unlink()
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))
    with pytest.raises(NsyswrapError, match=f"setup needs {tool}") as caught:
        fetched(tmp_path, debian)
    assert "NVIDIA developer site" in caught.value.hint
    assert packages.is_dir()


def test_a_package_that_was_planted_is_not_unpacked(packages: Path, tmp_path: Path, debian: Distribution) -> None:
    """A file that looks newer once was unpacked and its program was run. The index says which file is meant."""
    folder = tmp_path / "nsys" / ".fetch" / "packages"
    folder.mkdir(parents=True)
    planted = executable(tmp_path / "planted" / NSYS / "nsys", f"#!/bin/sh\ntouch {tmp_path}/was-run\n")
    for name in (f"nsight-systems-target_{VERSION}_amd64.deb", "nsight-systems-target_9999_amd64.deb"):
        with tarfile.open(folder / name, "w") as archive:
            archive.add(tmp_path / "planted", arcname=".")
    path, _ = fetched(tmp_path, debian)
    assert path.read_text() != planted.read_text()
    assert not (tmp_path / "was-run").exists()
    assert packages.is_dir()


def test_a_package_that_differs_from_the_index_is_refused(
    packages: Path, tmp_path: Path, debian: Distribution, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, "tampered")
    with pytest.raises(NsyswrapError, match="differs from the signed index"):
        fetched(tmp_path, debian)
    assert "dpkg-deb -x" not in log(packages)


def test_signatures_are_required_whatever_the_machine_allows(
    packages: Path, tmp_path: Path, debian: Distribution
) -> None:
    """And a mirror that sends nothing ends in a minute: three times 20 s."""
    planted = tmp_path / "nsys" / ".fetch" / "lists" / "planted_Packages"
    planted.parent.mkdir(parents=True)
    planted.touch()
    fetched(tmp_path, debian)
    calls = [line for line in log(packages).splitlines() if line.startswith("apt-get -o Acquire")]
    assert len(calls) > 3
    for call in calls:
        for setting in (
            *("Acquire::AllowInsecureRepositories=false", "APT::Get::AllowUnauthenticated=false"),
            *("Acquire::AllowDowngradeToInsecureRepositories=false", "Acquire::AllowWeakRepositories=false"),
            *("Acquire::http::Timeout=20", "Acquire::https::Timeout=20", "Acquire::Retries=2"),
        ):
            assert setting in call
    assert not planted.exists()


# It also ends where the tests were started with SIGHUP ignored, as `nohup` does.
SETUP = """
import signal
import sys
from pathlib import Path
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from nsyswrap.capture.unpack import Distribution
from nsyswrap.capture.install import install
root = Path(sys.argv[1])
install(root / "nsys", print, Distribution("Debian", "bookworm", "non-free", ("trixie",), (root / "keys.gpg",)))
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_ending_signal_ends_apt_too(  # noqa: PLR0913, PLR0917 - fixtures
    number: signal.Signals,
    code: int,
    packages: Path,
    tmp_path: Path,
    debian: Distribution,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The download once went on alone. Its lock shows that it runs: only a running process holds it."""
    failing(monkeypatch, "stalls")
    process = subprocess.Popen([sys.executable, "-c", SETUP, str(tmp_path)], stdout=subprocess.DEVNULL)
    while "download nsight-systems " not in (log(packages) if (tmp_path / "log").exists() else ""):
        assert process.poll() is None
        time.sleep(0.02)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(number)
    assert process.wait(60) == code
    assert children
    until(
        lambda: not any(Path(f"/proc/{child}").exists() for child in children), "the end of apt, which sleeps for long"
    )
    assert debian.name == "Debian"
