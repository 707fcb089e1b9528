"""The neutral number of a machine, and what it is built of."""

import os
from pathlib import Path

import pytest

from nsyswrap.capture.run_record import machine_kind, machine_number

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


def test_a_machine_is_known_by_what_it_is_built_of(tmp_path: Path) -> None:
    """Another id, as in a new container, changes nothing; another processor does."""
    cpu, memory = tmp_path / "cpuinfo", tmp_path / "meminfo"
    memory.write_text("MemTotal:       131905552 kB\nMemFree: 1 kB\n")
    cpu.write_text("processor : 0\nmodel name\t: AMD EPYC  9354 32-Core Processor\nprocessor : 1\n")
    kind = machine_kind(tmp_path)
    assert kind == f"AMD EPYC 9354 32-Core Processor, {os.cpu_count()} cores, 126 GiB"
    cpu.write_text("model name : Intel Xeon\n")
    assert machine_kind(tmp_path) != kind
    assert machine_kind(tmp_path / "missing") == ""
