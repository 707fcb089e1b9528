"""Pin the newest versions that pyproject.toml allows: `make lock` writes requirements/*.lock.

pip resolves, this script only writes down what it chose. `base.lock` comes first and binds the others, so one
environment can hold them all. `tools/lock.py --hashes` keeps the versions and writes their hashes again.

`base.lock` and `dev.lock` have the SHA-256 of every wheel that pip may take, so pip installs nothing else. The locks of
PyTorch have none: the same version comes from several indexes with different files, and a mirror may have one of them.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements"

TORCH = "2.13.0"
# The machines whose wheels are pinned.
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MACHINES = ("x86_64", "aarch64")
GLIBC = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_24", "manylinux_2_17", "manylinux2014", "linux")
# nsys 2023.4.4, which Debian packages, records the ranges of nvtx 0.2.10 and 0.2.11; it records no ranges of 0.2.12,
# 0.2.13, 0.2.14 and 0.2.17, and prints no warning. 0.2.10 has no wheel for Python 3.13.
NVTX = "0.2.11"


NO_HASHES: Mapping[str, Sequence[str]] = MappingProxyType({})


class Lock(NamedTuple):
    """One lock file: name, purpose, arguments of pip, locks that limit its versions, and one that it leaves out."""

    name: str
    purpose: tuple[str, ...]
    wanted: tuple[str, ...]
    bound_by: tuple[str, ...] = ("base.lock",)
    has_hashes: bool = True
    without: str | None = None


def locks(project: dict[str, Any]) -> tuple[Lock, ...]:
    """Return the lock files that a pyproject.toml asks for, in the order to resolve them."""
    base = (*project["project"]["dependencies"], *project["build-system"]["requires"], "editables")
    nvtx_why = (
        f"nvtx stays at {NVTX}: nsys 2023.4.4, which Debian packages, records no range of newer ones,",
        "and says nothing.",
    )
    cpu = ("The workloads' PyTorch, CPU build, for machines without an NVIDIA driver.", *nvtx_why)
    # `===` takes this very build, where pip also sees one of the same version with a suffix, such as +cpu.
    cuda = ("The workloads' PyTorch, CUDA build; === keeps pip from taking a +cpu build instead.", *nvtx_why)
    return (
        Lock("base.lock", ("What nsyswrap runs on, and hatchling, which installs it.",), base, bound_by=()),
        Lock("dev.lock", ("What the tests and checks run on.",), tuple(project["dependency-groups"]["dev"])),
        Lock("release.lock", ("What lists the parts of a release.",), tuple(project["dependency-groups"]["release"])),
        Lock("site.lock", ("What builds the site.",), tuple(project["dependency-groups"]["site"])),
        Lock("torch-cpu.lock", cpu, (f"torch=={TORCH}+cpu", f"nvtx=={NVTX}"), has_hashes=False),
        Lock("torch-cuda.lock", cuda, (f"torch==={TORCH}", f"nvtx=={NVTX}"), has_hashes=False),
        Lock(
            "trainers.lock",
            ("What trains in tests of recorded steps, beside the PyTorch of the workloads.",),
            tuple(project["dependency-groups"]["trainers"]),
            bound_by=("base.lock", "dev.lock", "release.lock", "site.lock", "torch-cpu.lock"),
            without="torch-cpu.lock",
        ),
    )


def resolve(wanted: tuple[str, ...], bound_by: Sequence[Path]) -> dict[str, str]:
    """Ask pip what it would install into an empty environment; return name -> version."""
    with tempfile.TemporaryDirectory() as folder:
        limits = Path(folder, "constraints.txt")
        limits.write_text("\n".join(pin for path in bound_by for pin in pins(path.read_text())))
        installs = _installs("--constraint", str(limits), *wanted)
    return {item["metadata"]["name"]: item["metadata"]["version"] for item in installs}


def hashes(versions: dict[str, str]) -> dict[str, list[str]]:
    """Ask pip for the SHA-256 of the wheel that each of our machines takes; return name -> hashes, sorted."""
    found: dict[str, set[str]] = {name: set() for name in versions}
    pinned = [f"{name}=={version}" for name, version in versions.items()]
    for python in PYTHONS:
        for machine in MACHINES:
            places = [part for glibc in GLIBC for part in ("--platform", f"{glibc}_{machine}")]
            with tempfile.TemporaryDirectory() as folder:
                options = ("--no-deps", "--only-binary=:all:", "--target", folder, "--python-version", python)
                for item in _installs(*options, *places, *pinned):
                    found[item["metadata"]["name"]].add(item["download_info"]["archive_info"]["hashes"]["sha256"])
    return {name: sorted(each) for name, each in found.items()}


def _installs(*arguments: str) -> list[dict[str, Any]]:
    """Return what pip would install with these arguments."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        subprocess.run([*command, "--report", str(report), *arguments], check=True)  # noqa: S603 - pip
        installs: list[dict[str, Any]] = json.loads(report.read_text())["install"]
    return installs


def pins(text: str) -> list[str]:
    """Return the pins of a lock file, such as ``click==8.5.1``, without hashes and comments."""
    return re.findall(r"^([\w.-]+={2,3}[^\s\\]+)", text, re.MULTILINE)


def versions_in(text: str) -> dict[str, str]:
    """Return the versions in a lock file by name."""
    return dict(re.split("={2,3}", pin) for pin in pins(text))


def render(lock: Lock, versions: dict[str, str], of_files: Mapping[str, Sequence[str]] = NO_HASHES) -> str:
    """Return the text of a lock file: its purpose as comments, then one pin a line in order of names, and hashes."""
    lines = [f"# {line}" for line in (*lock.purpose, "Written by `make lock`.")]
    for name in sorted(versions, key=str.lower):
        exact = any(wanted.startswith(f"{name}===") for wanted in lock.wanted)
        pin = f"{name}{'===' if exact else '=='}{versions[name]}"
        lines.append(" \\\n    ".join([pin, *(f"--hash=sha256:{each}" for each in of_files.get(name, ()))]))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Resolve and write every lock file; with ``--hashes`` keep the versions."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for lock in locks(project):
        path = REQUIREMENTS / lock.name
        keeps = "--hashes" in sys.argv[1:]
        bound_by = [REQUIREMENTS / name for name in lock.bound_by]
        versions = versions_in(path.read_text()) if keeps else resolve(lock.wanted, bound_by)
        for name in versions_in((REQUIREMENTS / lock.without).read_text()) if lock.without else ():
            versions.pop(name, None)
        path.write_text(render(lock, versions, hashes(versions) if lock.has_hashes else NO_HASHES))
        print(f"wrote requirements/{lock.name}")


if __name__ == "__main__":
    main()
