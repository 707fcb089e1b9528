"""The window in seconds that the user gives, and the part of it that was recorded."""

import pytest

from nsyswrap.base.errors import UsageError
from nsyswrap.loop.extent import between, recorded


def test_seconds_become_nanoseconds() -> None:
    found = between("1.5:2")
    assert (found.start_ns, found.end_ns, found.source, found.label) == (
        1_500_000_000,
        2 * 10**9,
        "user",
        "1.5 s to 2 s",
    )


@pytest.mark.parametrize("text", ["1", "2:1", "1:1", "a:b", "1:99999999999", ""])
def test_what_is_no_window_is_an_error(text: str) -> None:
    with pytest.raises(UsageError, match="--window"):
        between(text)


def test_a_window_is_cut_to_what_was_recorded() -> None:
    found = recorded((10**9, 3 * 10**9), between("2:5"))
    assert (found.start_ns, found.end_ns, found.label) == (2 * 10**9, 3 * 10**9, "2 s to 3 s")
    with pytest.raises(UsageError, match="nothing was recorded there"):
        recorded((10**9, 3 * 10**9), between("4:5"))
