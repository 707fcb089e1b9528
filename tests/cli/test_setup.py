"""`nsyswrap setup` as a user runs it, and the choice between an existing nsys and a new one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from capture_fixtures import fake_nsys, fake_tree

from nsyswrap.base.errors import NsyswrapError
from nsyswrap.capture import install as installing
from nsyswrap.capture.doctor import RANGE
from nsyswrap.capture.install import ensure_nsys
from nsyswrap.capture.locate import Nsys

__all__ = ["fake_nsys"]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nsyswrap", "setup", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
        timeout=60,
    )


@pytest.fixture
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace the installation by one that is immediate; return the path of its nsys."""
    path = fake_tree(tmp_path / "fetched")

    def install(root: Path, notify: object) -> Path:
        assert root == tmp_path / "data" / "nsyswrap" / "nsys"
        assert callable(notify)
        notify("Fetching")
        return path

    monkeypatch.setattr(installing, "install", install)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return path


@pytest.fixture
def without_nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove every nsys from PATH and the environment."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'empty'}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NSYSWRAP_NSYS", raising=False)


def test_an_existing_nsys_is_named_and_tested(fake_nsys: Nsys) -> None:
    """Nothing is installed, and stdout stays empty."""
    done = run(FAKE_NSYS_RANGE=RANGE)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines()[0] == f"nsys 2023.4.4.54 is installed already: {fake_nsys.path} (PATH)"
    assert done.stderr.splitlines()[1].startswith("Self-test: a range of nvtx")


@pytest.mark.usefixtures("fake_nsys")
def test_a_self_test_that_fails_is_an_error_with_a_remedy() -> None:
    """An nsys that records nothing is an error."""
    done = run(FAKE_NSYS_RANGE="lost")
    assert done.returncode == 1
    assert "nsyswrap: nsys is installed, but its self-test failed: nsys 2023.4.4.54 does not record" in done.stderr
    assert "hint: Install the version that works with it" in done.stderr


def test_a_wrong_variable_is_an_error() -> None:
    """Installing another would not help, because the variable would still name the wrong one."""
    done = run(NSYSWRAP_NSYS="/no/such/nsys")
    assert done.returncode == 1
    assert "NSYSWRAP_NSYS is /no/such/nsys" in done.stderr


@pytest.mark.usefixtures("without_nsys")
def test_a_missing_nsys_is_installed(fetched: Path) -> None:
    """It goes into the user's data folder."""
    messages: list[str] = []
    nsys = ensure_nsys(messages.append)
    assert (nsys.path, nsys.version, messages) == (fetched, (2023, 4, 4, 54), ["Fetching"])


def test_an_existing_nsys_is_used(fetched: Path, fake_nsys: Nsys) -> None:
    """Nothing is installed."""
    assert ensure_nsys(lambda _line: None) == fake_nsys
    assert fetched != fake_nsys.path


def test_force_installs_another_nsys(fetched: Path, fake_nsys: Nsys) -> None:
    """This can repair a broken copy."""
    assert ensure_nsys(lambda _line: None, force=True).path == fetched != fake_nsys.path


def test_an_nsys_that_cannot_write_reports_is_replaced(
    fetched: Path, fake_nsys: Nsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its importer lacks libraries, so another is installed, with a message that says why."""
    monkeypatch.setattr(installing, "is_complete", lambda _nsys: False)
    messages: list[str] = []
    assert ensure_nsys(messages.append).path == fetched
    assert messages[0].startswith(f"nsys 2023.4.4.54 is installed already: {fake_nsys.path}")
    assert messages[1] == "It cannot write reports, because its importer lacks libraries; installing another"


def test_the_variable_takes_precedence_even_if_its_nsys_cannot_write_reports(
    fetched: Path, fake_nsys: Nsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newly installed one would not be used while the variable is set."""
    monkeypatch.setenv("NSYSWRAP_NSYS", str(fake_nsys.path))
    monkeypatch.setattr(installing, "is_complete", lambda _nsys: False)
    assert ensure_nsys(lambda _line: None).path == fake_nsys.path != fetched


@pytest.mark.usefixtures("without_nsys")
def test_a_new_nsys_that_does_not_run_is_an_error(fetched: Path) -> None:
    """Its version must be readable."""
    fetched.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(NsyswrapError, match="was installed but does not run"):
        ensure_nsys(lambda _line: None)
