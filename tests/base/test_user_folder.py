"""The base folders of the user."""

from pathlib import Path

import pytest

from nsyswrap.base.user_folder import user_folder


def test_a_user_without_a_home_folder_has_folders_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers may run as a user that the machine does not know."""
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert user_folder({}, "XDG_CACHE_HOME", ".cache") == Path("/.cache")
    assert user_folder({"XDG_CACHE_HOME": "/c"}, "XDG_CACHE_HOME", ".cache") == Path("/c")
    assert user_folder({"XDG_CACHE_HOME": "c", "HOME": "/h"}, "XDG_CACHE_HOME", ".cache") == Path("/h/.cache")
