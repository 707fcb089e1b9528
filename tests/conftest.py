"""Fixtures: exports built by hand, the real captures in tests/captures, and the nsys of this machine."""

import lzma
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from export_builder import ExportBuilder

from nsyswrap.capture.locate import Nsys, find_nsys
from nsyswrap.db.load import load_export
from nsyswrap.errors import NsysNotFoundError
from nsyswrap.tables import Trace

CAPTURES = Path(__file__).parent / "captures"
CAPTURE_NAMES = tuple(sorted(path.name.removesuffix(".sqlite.xz") for path in CAPTURES.glob("*.sqlite.xz")))


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
def nsys() -> Nsys:
    """Return the nsys of this machine; tests that ask for it are skipped where there is none."""
    try:
        return find_nsys()
    except NsysNotFoundError as error:
        pytest.skip(error.message)
