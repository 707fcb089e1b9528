"""Programs are found on PATH and in folders, with their versions; what does not run is left out."""

import os
from pathlib import Path

import pytest
from capture_fixtures import executable, fake_tree

from nsyswrap.capture.locate import find_programs, newest_first, program_at, version_in


def test_a_program_that_cannot_be_started_is_not_found(tmp_path: Path) -> None:
    assert program_at(tmp_path / "gone", "PATH") is None


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program may run in another working folder."""
    fake_tree(tmp_path)
    monkeypatch.chdir(tmp_path)
    nsys = program_at(Path("target-linux-x64/nsys"), "test")
    assert nsys is not None
    assert nsys.path == tmp_path / "target-linux-x64" / "nsys"
    assert os.access(nsys.path, os.X_OK)


def test_a_file_with_two_paths_counts_once(tmp_path: Path) -> None:
    """A toolkit's folder is often a link to the folder of its version."""
    path = executable(tmp_path / "cuda-13.0" / "ncu", "#!/bin/sh\necho Version 2025.3.1.0\n")
    (tmp_path / "cuda").symlink_to("cuda-13.0")
    found = newest_first([tmp_path / "cuda" / "ncu", path], "the CUDA toolkit")
    assert [(each.version, each.source) for each in found] == [((2025, 3, 1, 0), "the CUDA toolkit")]


def test_all_programs_are_found_place_by_place(tmp_path: Path) -> None:
    """In a place the newest comes first; a place that comes later comes later even with a newer version."""
    for folder, version in (
        ("a/1", "2023.1"),
        ("a/2", "2024.10"),
        ("a/3", "2024.9"),
        ("b/1", "2025.1"),
        ("p", "2022.1"),
    ):
        executable(tmp_path / folder / "ncu", f"#!/bin/sh\necho Version {version}\n")
    found = find_programs("ncu", (("A", ("a/*/ncu",)), ("B", ("b/*/ncu",))), {"PATH": str(tmp_path / "p")}, tmp_path)
    assert [(each.source, each.version_text) for each in found] == [
        ("PATH", "2022.1"),
        ("A", "2024.10"),
        ("A", "2024.9"),
        ("A", "2023.1"),
        ("B", "2025.1"),
    ]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVIDIA Nsight Systems version 2023.4.4.54-234433681190v0\n", (2023, 4, 4, 54)),
        ("NVIDIA Nsight Systems version 2025.3.2.367-253236389321v0", (2025, 3, 2, 367)),
        ("usage: nsys", ()),
        ("", ()),
    ],
)
def test_the_version_is_read_without_the_build_number(text: str, version: tuple[int, ...]) -> None:
    """It is a tuple of numbers."""
    assert version_in(text) == version
