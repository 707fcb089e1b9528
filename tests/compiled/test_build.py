"""The functions are compiled once, for this user only; without a compiler nothing else happens."""

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from nsyswrap.compiled import build
from nsyswrap.compiled.build import FLAGS, begin_build, is_trusted
from nsyswrap.compiled.library import SOURCES, Library, library_path, loaded

ENVIRON = {"PATH": os.environ["PATH"]}


def finished(sources: Sequence[Path], target: Path, compiler: str = "cc") -> bool:
    """Compile a library and wait for the end; return whether it is there."""
    begun = begin_build(sources, target, {**ENVIRON, "CC": compiler})
    while begun and begun.is_running():
        time.sleep(0.01)
    return target.is_file()


@pytest.fixture
def library(functions: object, tmp_path: Path) -> Path:
    """Return a library with one function, in a folder of its own."""
    assert functions
    source, target = tmp_path / "one.c", tmp_path / "cache" / "one.so"
    source.write_text("int one(void) { return 1; }\n")
    assert finished([source], target)
    return target


def test_the_source_compiles_without_warnings(functions: object, tmp_path: Path) -> None:
    assert functions
    command = [
        "cc",
        *FLAGS,
        "-std=gnu11",
        "-Wall",
        "-Wextra",
        "-Werror",
        *map(str, SOURCES),
        "-o",
        str(tmp_path / "out.so"),
    ]
    assert subprocess.run(command, check=False, capture_output=True, text=True).stderr == ""


@pytest.mark.parametrize("compiler", ["false", "true", "no-such-compiler", "unclosed '"])
def test_without_a_compiler_there_is_no_library(tmp_path: Path, compiler: str) -> None:
    """The same is true of a compiler that fails, or writes nothing."""
    assert not finished(SOURCES, tmp_path / "cache" / "out.so", compiler)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_compiler_that_hangs_is_stopped_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "TIME_LIMIT_S", 0.2)
    compiler = tmp_path / "slow"
    compiler.write_text('#!/bin/sh\nfor last; do :; done\ntouch "$last"\nsleep 600\n')
    compiler.chmod(0o700)
    begun = time.monotonic()
    assert not finished(SOURCES, tmp_path / "cache" / "out.so", str(compiler))
    assert time.monotonic() - begun < 60  # far less than the program sleeps
    assert list((tmp_path / "cache").iterdir()) == []


def test_only_the_user_can_read_and_write_it(library: Path) -> None:
    assert is_trusted(library)
    assert library.parent.stat().st_mode & 0o077 == 0
    assert library.stat().st_mode & 0o077 == 0
    assert [path.name for path in library.parent.iterdir()] == ["one.so"]


def shared_folder(library: Path) -> Path:
    """Let others read the folder."""
    library.parent.chmod(0o755)
    return library


def shared_file(library: Path) -> Path:
    """Let a group write the library."""
    library.chmod(0o720)
    return library


def linked(library: Path) -> Path:
    """Put a link into a private folder."""
    link = library.with_name("link.so")
    link.symlink_to(library)
    return link


@pytest.mark.parametrize("change", [shared_folder, shared_file, linked])
def test_a_library_that_others_may_have_written_is_not_loaded(library: Path, change: Callable[[Path], Path]) -> None:
    assert not is_trusted(change(library))


def test_a_library_of_another_user_is_not_loaded(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = os.geteuid()
    monkeypatch.setattr("os.geteuid", lambda: user + 1)
    assert not is_trusted(library)


def test_nothing_is_built_in_a_folder_of_others(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert begin_build(SOURCES, tmp_path / "out.so", ENVIRON) is None


def test_a_library_that_cannot_be_loaded_is_not_used(library: Path) -> None:
    """A library without the functions, and a file that is no library."""
    assert loaded(library) is None
    broken = library.with_name("broken.so")
    broken.write_bytes(b"no library")
    assert loaded(broken) is None
    assert loaded(library.with_name("missing.so")) is None


def test_the_name_changes_with_source_compiler_and_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = library_path({"HOME": "/h"})
    assert usual.parent == Path("/h/.cache/nsyswrap/compiled")
    assert library_path({"HOME": "/h", "CC": "clang"}).name != usual.name
    assert library_path({"XDG_CACHE_HOME": "/c"}) == Path("/c/nsyswrap/compiled") / usual.name
    for number, source in enumerate(SOURCES):
        changed = tmp_path / source.name
        changed.write_text(source.read_text() + "\n")
        others = [*SOURCES[:number], changed, *SOURCES[number + 1 :]]
        monkeypatch.setattr("nsyswrap.compiled.library.SOURCES", others)
        assert library_path({"HOME": "/h"}).name != usual.name


def test_nothing_waits_for_the_compiler(functions: object, tmp_path: Path) -> None:
    """Until the compiler ends there are no functions; a second process finds what the first has built."""
    assert functions
    compiler = tmp_path / "late"
    compiler.write_text(f'#!/bin/sh\nwhile [ ! -e {tmp_path}/go ]; do sleep 0.01; done\nexec cc "$@"\n')
    compiler.chmod(0o700)
    environ = {**ENVIRON, "XDG_CACHE_HOME": str(tmp_path / "cache"), "CC": str(compiler)}
    library = Library(environ)
    library.build()
    assert library.functions() is None
    assert library.is_building()
    (tmp_path / "go").touch()
    while library.functions() is None and library.is_building():
        time.sleep(0.01)
    assert library.functions() is not None
    assert Library(environ).functions() is not None


def test_the_variable_switches_it_off(functions: object, tmp_path: Path) -> None:
    assert functions
    environ = {**ENVIRON, "XDG_CACHE_HOME": str(tmp_path), "NSYSWRAP_COMPILED": "0"}
    library = Library(environ)
    library.build()
    assert library.functions() is None
    assert list(tmp_path.iterdir()) == []


def test_without_a_compiler_the_search_ends(tmp_path: Path) -> None:
    library = Library({"XDG_CACHE_HOME": str(tmp_path), "CC": "no-such-compiler"})
    library.build()
    assert library.functions() is None
    assert not library.is_building()
