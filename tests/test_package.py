"""The package as it is installed: its metadata, its files, and the modules that it loads on start."""

import importlib.metadata
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from committed_files import committed
from packaging.requirements import Requirement
from packaging.version import Version

import nsyswrap

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = sorted((ROOT / "requirements").glob("*.lock"))
HEAVY = {"pandas", "numpy", "pyarrow", "sqlalchemy", "rich", "jinja2", "adbc_driver_manager", "torch"}


def pins(lock: Path) -> dict[str, str]:
    """Return the versions that a lock file pins, by normalised name."""
    lines = [line for line in lock.read_text().splitlines() if line and not line.startswith(("#", " "))]
    pairs = (re.split("={2,3}", line.removesuffix(" \\")) for line in lines)
    return {name.lower().replace("_", "-"): version for name, version in pairs}


def loaded_by(*arguments: str) -> set[str]:
    """Return the top-level modules that a Python program imports."""
    program = [sys.executable, "-X", "importtime", *arguments]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True)
    names = (line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:"))
    return {name.split(".")[0] for name in names}


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]], ids=" ".join)
def test_starting_up_is_lazy(arguments: list[str]) -> None:
    """Help and version load nothing that reads captures or draws reports."""
    loaded = loaded_by("-m", "nsyswrap", *arguments)
    assert "click" in loaded
    assert loaded & HEAVY == set()


def test_the_page_and_the_gate_of_a_history_need_no_data_frames() -> None:
    """They read sums from a database; loading pandas takes longer than the gate itself."""
    loaded = loaded_by(
        "-c", "import nsyswrap.render.history_document, nsyswrap.render.html_writer, nsyswrap.gate.recorded"
    )
    assert "pandas" not in loaded


def test_the_public_names_are_lazy_too() -> None:
    assert loaded_by("-c", "import nsyswrap") & (HEAVY | {"click"}) == set()


def test_the_version_is_in_one_place() -> None:
    """Pip and the package report the same version."""
    assert importlib.metadata.version("nsyswrap") == nsyswrap.__version__
    assert "version" in PROJECT["project"]["dynamic"]
    assert Version(nsyswrap.__version__)


def test_the_command_is_installed() -> None:
    entry = next(iter(importlib.metadata.entry_points(group="console_scripts", name="nsyswrap")))
    assert callable(entry.load())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Return the wheel, built as for a release."""
    folder = tmp_path_factory.mktemp("wheel")
    program = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(program, cwd=ROOT, capture_output=True, check=True)
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def test_the_wheel_is_marked_as_typed(wheel: zipfile.ZipFile) -> None:
    assert "nsyswrap/py.typed" in wheel.namelist()


def test_the_wheel_holds_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    """It has each committed file of nsyswrap/, templates and scripts too, and no tests, workloads or captures."""
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert {str(path.relative_to(ROOT)) for path in committed("nsyswrap")} <= names
    assert {name.split("/")[0] for name in names} == {"nsyswrap"}


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [
        ("base.lock", [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]),
        ("dev.lock", PROJECT["dependency-groups"]["dev"]),
        ("release.lock", PROJECT["dependency-groups"]["release"]),
        ("trainers.lock", PROJECT["dependency-groups"]["trainers"]),
        ("torch-cpu.lock", PROJECT["project"]["optional-dependencies"]["workloads"]),
        ("torch-cuda.lock", PROJECT["project"]["optional-dependencies"]["workloads"]),
    ],
)
def test_the_locks_pin_what_the_project_asks_for(lock: str, wanted: list[str]) -> None:
    """Each dependency is pinned to an exact version within the bounds of pyproject.toml."""
    pinned = pins(ROOT / "requirements" / lock)
    for requirement in map(Requirement, wanted):
        assert requirement.specifier.contains(pinned[requirement.name.lower().replace("_", "-")]), requirement


def test_the_locks_agree() -> None:
    """All are installed into one environment, so no package has two versions; only PyTorch has two builds."""
    versions: dict[str, set[str]] = {}
    for lock in LOCKS:
        for name, version in pins(lock).items():
            versions.setdefault(name, set()).add(version.partition("+")[0])
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}
