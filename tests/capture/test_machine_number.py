"""The neutral number of a machine."""

from pathlib import Path

import pytest

from nsyswrap.capture.machine_number import machine_number

IDENTITY = "0123456789abcdef0123456789abcdef"


def test_a_machine_has_one_number_that_does_not_show_its_id(tmp_path: Path) -> None:
    file = tmp_path / "machine-id"
    file.write_text(f"{IDENTITY}\n")
    number = machine_number(file)
    assert number == machine_number(file)
    assert len(number) == 12
    assert number not in IDENTITY
    file.write_text(f"{IDENTITY[::-1]}\n")
    assert machine_number(file) != number


@pytest.mark.parametrize("content", ["", "uninitialized\n", "\xff"])
def test_without_an_id_there_is_no_number(content: str, tmp_path: Path) -> None:
    """As in images of containers."""
    file = tmp_path / "machine-id"
    file.write_text(content, encoding="latin-1")
    assert machine_number(file) == ""
    assert machine_number(tmp_path / "missing") == ""
