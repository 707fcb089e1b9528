"""The distribution of this machine, the mirror of its packages, the keys that sign them, and missing libraries."""

import sys
from pathlib import Path

import pytest
from capture_fixtures import executable

from nsyswrap.base.errors import NsyswrapError
from nsyswrap.capture.locate import missing_in, missing_libraries
from nsyswrap.capture.unpack import Distribution, keyring_of, mirror_of, this_distribution

FAKE = Path(__file__).parents[1] / "support" / "fake_apt.py"


def distribution(tmp_path: Path, text: str, glibc: str = "glibc 2.36") -> Distribution:
    """Return the distribution of an os-release file."""
    path = tmp_path / "os-release"
    path.write_text(text)
    return this_distribution(path, glibc)


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Put a fake apt-get on PATH; the test sets its output."""
    executable(tmp_path / "tools" / "apt-get", f"#!{sys.executable} -IS\n{FAKE.read_text(encoding='utf-8')}")
    monkeypatch.setenv("PATH", f"{tmp_path / 'tools'}:/usr/bin:/bin")
    monkeypatch.setenv("FAKE_APT_LOG", str(tmp_path / "log"))
    return monkeypatch


@pytest.mark.parametrize(
    ("text", "glibc", "expected"),
    [
        ('ID=debian\nVERSION_CODENAME="bookworm"\n', "2.36", ("Debian", "non-free", ("trixie", "bookworm"))),
        ("ID=debian\nVERSION_CODENAME=trixie\n", "2.41", ("Debian", "non-free", ("trixie",))),
        ("ID=debian\nVERSION_CODENAME=bullseye\n", "2.31", ("Debian", "non-free", ("bullseye",))),
        ("ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\n", "2.39", ("Ubuntu", "multiverse", ("noble",))),
    ],
)
def test_nsys_comes_from_the_own_release_and_for_debian_from_trixie(
    tmp_path: Path, text: str, glibc: str, expected: tuple[str, str, tuple[str, ...]]
) -> None:
    """Apt takes the newer of the two. The nsys of trixie needs glibc 2.34, which bookworm has."""
    found = distribution(tmp_path, text, f"glibc {glibc}")
    assert (found.name, found.restricted, found.nsys_releases) == expected


def test_another_distribution_is_an_error_with_a_hint(tmp_path: Path) -> None:
    """The message has the name of the distribution."""
    with pytest.raises(NsyswrapError) as caught:
        distribution(tmp_path, 'ID=fedora\nPRETTY_NAME="Fedora Linux 42"\n')
    assert caught.value.message.endswith("this is Fedora Linux 42")
    assert "NVIDIA developer site" in caught.value.hint
    assert "Nsight Systems" in caught.value.hint


def test_a_distribution_without_a_release_name_is_an_error(tmp_path: Path) -> None:
    """Debian's unstable branch has none at first."""
    with pytest.raises(NsyswrapError, match="VERSION_CODENAME"):
        distribution(tmp_path, "ID=debian\n# VERSION_CODENAME=none\n")


def test_the_mirror_is_the_one_that_apt_uses(tmp_path: Path, apt: pytest.MonkeyPatch) -> None:
    """Of the downloaded package lists, only those of the same release count."""
    targets = [
        "https://other.example/repo NodeSource nodistro",
        "https://security.example/debian-security Debian bookworm-security",
        "https://mirror.example/debian Debian bookworm",
    ]
    apt.setenv("FAKE_APT_TARGETS", "\n".join(targets))
    found = distribution(tmp_path, "ID=debian\nVERSION_CODENAME=bookworm\n")
    assert mirror_of(found) == "https://mirror.example/debian"


def test_without_lists_the_mirror_is_what_an_update_would_use(tmp_path: Path, apt: pytest.MonkeyPatch) -> None:
    """A new container has no package lists, and a user without root cannot download them."""
    uris = [
        "'https://x.example/debian-security/dists/bookworm-security/InRelease' name 0 ",
        "'https://mirror.example/deb/debian/dists/bookworm/InRelease' name 0 ",
    ]
    apt.setenv("FAKE_APT_URIS", "\n".join(uris))
    found = distribution(tmp_path, "ID=debian\nVERSION_CODENAME=bookworm\n")
    assert mirror_of(found) == "https://mirror.example/deb/debian"


@pytest.mark.usefixtures("apt")
def test_a_missing_mirror_is_an_error(tmp_path: Path) -> None:
    """The message names the release."""
    found = distribution(tmp_path, "ID=debian\nVERSION_CODENAME=bookworm\n")
    with pytest.raises(NsyswrapError, match="apt has no mirror of Debian bookworm"):
        mirror_of(found)


def test_the_keys_are_those_of_the_archive(tmp_path: Path) -> None:
    """The first existing file is used."""
    (tmp_path / "new.pgp").write_text("keys")
    found = Distribution("Debian", "forky", "non-free", (), (tmp_path / "old.gpg", tmp_path / "new.pgp"))
    assert keyring_of(found) == tmp_path / "new.pgp"


@pytest.mark.parametrize(("name", "package"), [("Debian", "debian-archive-keyring"), ("Ubuntu", "ubuntu-keyring")])
def test_missing_keys_are_an_error(tmp_path: Path, name: str, package: str) -> None:
    """The hint names the package that contains them."""
    found = Distribution(name, "x", "y", (), (tmp_path / "gone.gpg",))
    with pytest.raises(NsyswrapError, match=f"the keys of the {name} archive are missing") as caught:
        keyring_of(found)
    assert package in caught.value.hint


def test_missing_libraries_are_read_from_ldd() -> None:
    """They are sorted and unique, and libraries that are found are left out."""
    text = (
        "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibssh.so => not found\n\tlibdw.so.1 => not found\n"
        "\tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f)\n\tlibssh.so => not found\n"
    )
    assert missing_in(text) == ("libdw.so.1", "libssh.so")


def test_without_ldd_no_library_counts_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is guessed."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing_libraries(Path(sys.executable)) == ()
