"""Fixtures: exports built by hand, the real captures in tests/captures, and the nsys of this machine."""

import importlib
import lzma
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from export_builder import ExportBuilder
from hypothesis import settings
from real_captures import CAPTURES, Planted

from nsyswrap.capture.locate import Nsys, find_nsys
from nsyswrap.capture.nsys import export_report
from nsyswrap.capture.process import output_of
from nsyswrap.db.load import load_export
from nsyswrap.errors import NsysNotFoundError
from nsyswrap.tables import Trace

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# How long an example takes says nothing about what it shows: on a busy machine any takes long.
settings.register_profile("nsyswrap", deadline=None)
settings.load_profile("nsyswrap")


@pytest.fixture
def build() -> Callable[..., ExportBuilder]:
    """Return what starts an export: ``build()``, or ``build(2022)`` for the tables of an older nsys."""
    return ExportBuilder


@pytest.fixture
def trace_of(tmp_path: Path) -> Callable[[ExportBuilder], Trace]:
    """Return what writes a built export and reads it back as a trace."""

    def trace(builder: ExportBuilder) -> Trace:
        return load_export(builder.write(tmp_path / "built.sqlite"))

    return trace


@pytest.fixture(scope="session")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return what unpacks a real capture by name, once; the file is shared, so nobody may write to it."""
    folder = tmp_path_factory.mktemp("captures")

    @cache
    def unpacked(name: str) -> Path:
        target = folder / f"{name}.sqlite"
        target.write_bytes(lzma.decompress((CAPTURES / f"{name}.sqlite.xz").read_bytes()))
        target.chmod(0o444)
        return target

    return unpacked


@pytest.fixture(scope="session")
def real_trace(captures: Callable[[str], Path]) -> Callable[[str], Trace]:
    """Return what reads a real capture by name, once; nobody may change its frames."""

    @cache
    def trace(name: str) -> Trace:
        return load_export(captures(name))

    return trace


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """Return a headless Chromium; where it is loaded, so that other tests need no Playwright."""
    pages = importlib.import_module("browser_pages")
    with pages.chromium() as started:
        yield started


@pytest.fixture(scope="session")
def nsys() -> Nsys:
    """Return the nsys of this machine; tests that ask for it are skipped where there is none."""
    try:
        return find_nsys()
    except NsysNotFoundError as error:
        pytest.skip(error.message)


PROGRAM = """
import os, threading, nvtx
with nvtx.annotate("outer"), nvtx.annotate(f"read {os.environ['HOME']}/data"):
    thread = threading.Thread(target=print, args=("printed by the program",))
    thread.start()
    thread.join()
"""


@pytest.fixture(scope="session")
def planted(nsys: Nsys, tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """Run the real nsys on a small program with a secret in its environment."""
    folder = tmp_path_factory.mktemp("ann")
    secret = "v4lue-of-the-planted-secret"  # noqa: S105 - planted to be looked for
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "USER": "annabella", "PLANTED_TOKEN": secret}
    flags = ["--trace=nvtx,osrt", "--sample=none", "--cpuctxsw=none", f"--output={folder}/capture"]
    command: list[str | Path] = [nsys.path, "profile", *flags, sys.executable, "-c", PROGRAM]
    output = output_of(command, timeout_s=120, cwd=folder, env=environment)
    assert output.code == 0, output.text
    export_report(nsys, folder / "capture.nsys-rep", folder / "capture.sqlite")
    return Planted(folder / "capture.sqlite", "PLANTED_TOKEN", secret, folder, "printed by the program")
