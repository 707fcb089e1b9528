"""Which distribution this is, where its packages come from and which keys sign them."""

import sys
from pathlib import Path

import pytest
from capture_fixtures import executable

from nsyswrap.capture.distribution import Distribution, keyring_of, mirror_of, this_distribution
from nsyswrap.capture.locate import missing_in, missing_libraries
from nsyswrap.errors import NsyswrapError

FAKE = Path(__file__).parents[1] / "support" / "fake_apt.py"


def distribution(tmp_path: Path, text: str, glibc: str = "glibc 2.36") -> Distribution:
    """The distribution that an os-release file stands for."""
    path = tmp_path / "os-release"
    path.write_text(text)
    return this_distribution(path, glibc)


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A fake apt-get on PATH; the caller sets its answers."""
    executable(tmp_path / "tools" / "apt-get", f"#!{sys.executable}\n{FAKE.read_text(encoding='utf-8')}")
    monkeypatch.setenv("PATH", f"{tmp_path / 'tools'}:/usr/bin:/bin")
    monkeypatch.setenv("FAKE_APT_LOG", str(tmp_path / "log"))
    return monkeypatch


def test_debian_takes_nsys_from_trixie_and_from_its_own_release(tmp_path: Path) -> None:
    """The newest of the two wins; trixie's runs on bookworm."""
    found = distribution(tmp_path, 'ID=debian\nVERSION_CODENAME="bookworm"\n')
    assert (found.name, found.codename, found.main, found.restricted) == ("Debian", "bookworm", "main", "non-free")
    assert found.nsys_releases == ("trixie", "bookworm")


def test_trixie_is_asked_once(tmp_path: Path) -> None:
    """On trixie itself."""
    assert distribution(tmp_path, "ID=debian\nVERSION_CODENAME=trixie\n").nsys_releases == ("trixie",)


def test_an_old_c_library_takes_what_was_built_for_it(tmp_path: Path) -> None:
    """The nsys of trixie needs glibc 2.34."""
    found = distribution(tmp_path, "ID=debian\nVERSION_CODENAME=bullseye\n", "glibc 2.31")
    assert found.nsys_releases == ("bullseye",)


def test_ubuntu_has_nsys_in_multiverse(tmp_path: Path) -> None:
    """Of the release itself."""
    found = distribution(tmp_path, "NAME=Ubuntu\nID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\n")
    assert (found.name, found.restricted, found.nsys_releases) == ("Ubuntu", "multiverse", ("noble",))


def test_another_distribution_is_told_where_else_to_go(tmp_path: Path) -> None:
    """By its own name."""
    with pytest.raises(NsyswrapError) as caught:
        distribution(tmp_path, 'ID=fedora\nPRETTY_NAME="Fedora Linux 42"\n')
    assert caught.value.message.endswith("this is Fedora Linux 42")
    assert "NVIDIA developer site" in caught.value.hint
    assert "Nsight Systems" in caught.value.hint


def test_a_distribution_without_a_release_name_is_an_error(tmp_path: Path) -> None:
    """Debian's unstable branch has none in its early days."""
    with pytest.raises(NsyswrapError, match="VERSION_CODENAME"):
        distribution(tmp_path, "ID=debian\n# VERSION_CODENAME=none\n")


def test_a_machine_without_os_release_is_an_error(tmp_path: Path) -> None:
    """The file and the reason are named."""
    with pytest.raises(NsyswrapError, match="cannot be read: No such file"):
        this_distribution(tmp_path / "gone")


def test_the_mirror_is_the_one_that_apt_uses(tmp_path: Path, apt: pytest.MonkeyPatch) -> None:
    """Of the lists that were fetched, those of the distribution's own release; others are passed over."""
    targets = [
        "https://other.example/repo NodeSource nodistro",
        "https://security.example/debian-security Debian bookworm-security",
        "https://mirror.example/debian Debian bookworm",
    ]
    apt.setenv("FAKE_APT_TARGETS", "\n".join(targets))
    found = distribution(tmp_path, "ID=debian\nVERSION_CODENAME=bookworm\n")
    assert mirror_of(found) == "https://mirror.example/debian"


def test_without_lists_the_mirror_is_what_an_update_would_ask(tmp_path: Path, apt: pytest.MonkeyPatch) -> None:
    """A fresh container has none, and a user without root cannot fetch them."""
    uris = [
        "'https://x.example/debian-security/dists/bookworm-security/InRelease' name 0 ",
        "'https://mirror.example/deb/debian/dists/bookworm/InRelease' name 0 ",
    ]
    apt.setenv("FAKE_APT_URIS", "\n".join(uris))
    found = distribution(tmp_path, "ID=debian\nVERSION_CODENAME=bookworm\n")
    assert mirror_of(found) == "https://mirror.example/deb/debian"


@pytest.mark.usefixtures("apt")
def test_no_mirror_at_all_is_an_error(tmp_path: Path) -> None:
    """The release is named."""
    found = distribution(tmp_path, "ID=debian\nVERSION_CODENAME=bookworm\n")
    with pytest.raises(NsyswrapError, match="apt knows no mirror of Debian bookworm"):
        mirror_of(found)


def test_the_keys_are_those_of_the_archive(tmp_path: Path) -> None:
    """The first file that is there."""
    (tmp_path / "new.pgp").write_text("keys")
    found = Distribution("Debian", "forky", "main", "non-free", (), (tmp_path / "old.gpg", tmp_path / "new.pgp"))
    assert keyring_of(found) == tmp_path / "new.pgp"


@pytest.mark.parametrize(("name", "package"), [("Debian", "debian-archive-keyring"), ("Ubuntu", "ubuntu-keyring")])
def test_without_keys_nothing_is_trusted(tmp_path: Path, name: str, package: str) -> None:
    """The package that holds them is named."""
    found = Distribution(name, "x", "main", "y", (), (tmp_path / "gone.gpg",))
    with pytest.raises(NsyswrapError, match=f"the keys of the {name} archive are missing") as caught:
        keyring_of(found)
    assert package in caught.value.hint


def test_libraries_that_are_not_found_are_read_from_ldd() -> None:
    """Each once, sorted, and none that is found."""
    text = (
        "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibssh.so => not found\n\tlibdw.so.1 => not found\n"
        "\tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f)\n\tlibssh.so => not found\n"
    )
    assert missing_in(text) == ("libdw.so.1", "libssh.so")


def test_a_program_that_has_all_lacks_none() -> None:
    """The Python that runs this test."""
    assert missing_libraries(Path(sys.executable)) == ()


def test_where_there_is_no_ldd_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guess would be worse."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing_libraries(Path(sys.executable)) == ()
